"""The documentation site as a reader has it: readable for everybody, in light and dark, and its search box answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs import site

ROOT = Path(__file__).parents[2]
# One of each kind: the front page, code and prose, pictures, a made reference, wide tables.
PAGES = ("index.html", "guide.html", "concepts.html", "reference/runs.html", "comparison.html")
QUESTION = re.compile(r"^\| \d+\. \.\.\. (.*?\?) \| (.*) \|$", re.MULTILINE)
FIRST = 3
PATIENCE_MS = 120_000  # a limit for what hangs, not for what is slow
# As the page's own script does: hand the index to the worker, then one question after another. Hits are named by page.
SEARCH = """async (questions) => {
  const config = JSON.parse(document.getElementById("__config").textContent);
  const index = await (await fetch("search/search_index.json")).json();
  const worker = new Worker(config.search);
  const ask = (message) => new Promise((resolve, reject) => {
    worker.onmessage = (event) => resolve(event.data);
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage(message);
  });
  await ask({ type: 0, data: { ...index, options: {} } });
  const hits = [];
  for (const question of questions) {
    const { data } = await ask({ type: 2, data: question });
    hits.push(data.items.map((parts) => parts[0].location.split("#")[0]));
  }
  return hits;
}"""


# As strangers put it: in words that no page quotes, with words that say nothing between them.
OTHERS = {
    "How do I expire a memory?": "memories.html",
    "rename a session": "sessions.html",
    "pin a message": "sessions.html",
    "record a custom event type": "reference/events.html",
    "run it in Docker": "deployment.html",
    "rotate an API key": "how-to/keys.html",
    "keep tenants apart": "how-to/keys.html",
    "change the encryption passphrase": "security.html",
    "stream changes to a web page": "how-to/web.html",
    "use it with FastAPI": "how-to/web.html",
    "semantic search with OpenAI embeddings": "how-to/meaning.html",
    "erase a LangGraph conversation": "how-to/erase.html",
    "list all conversations of a user": "sessions.html",
    "count tokens and cost of a run": "runs.html",
    "upgrade to a new version": "operate.html",
    "what does Conflict mean": "reference/errors.html",
    "test without a database": "how-to/testing.html",
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built from this tree."""
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def questions() -> list[tuple[str, set[str]]]:
    """Return the questions of docs/questions.md, each with the pages that answer it."""
    text = (ROOT / "docs" / "questions.md").read_text()
    named = re.compile(r"(?:\]\(|`)([\w/-]+)\.(?:md|html)")  # a link, or a page that exists on the site alone
    return [(asked, {f"{page}.html" for page in named.findall(pages)}) for asked, pages in QUESTION.findall(text)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_about_on_five_pages(
    browser: Any, axe: str, documentation: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_navigation_timeout(PATIENCE_MS)
    found = []
    for name in PAGES:
        page.goto(f"{documentation}/{name}")
        page.evaluate(axe)
        for one in page.evaluate("axe.run().then((result) => result.violations)"):
            found.append(f"{name}: {one['id']} at {one['nodes'][0]['html'][:160]}")
    context.close()
    assert found == []


def test_search_answers_every_question_in_its_first_hits(browser: Any, documentation: str) -> None:
    """The engine behind the search box, with the index of the site, is asked each question as it stands."""
    asked = questions()
    assert len(asked) == 10
    assert missed(browser, documentation, asked) == []


def test_search_answers_questions_that_no_page_quotes(browser: Any, documentation: str) -> None:
    assert missed(browser, documentation, [(question, {page}) for question, page in OTHERS.items()]) == []


def test_a_question_that_no_page_answers_is_missed(browser: Any, documentation: str) -> None:
    """The negative control."""
    assert len(missed(browser, documentation, [("rotate an API key", {"how-to/notebooks.html"})])) == 1


def missed(browser: Any, documentation: str, asked: list[tuple[str, set[str]]]) -> list[str]:
    """Return the questions whose pages are not among the first hits."""
    page = browser.new_page()
    page.set_default_navigation_timeout(PATIENCE_MS)
    page.goto(f"{documentation}/questions.html")
    found: list[list[str]] = page.evaluate(SEARCH, [question for question, _ in asked])
    page.close()
    # The page that lists the questions answers none of them.
    others = [[hit for hit in hits if hit != "questions.html"][:FIRST] for hits in found]
    return [
        f"{question} -> {hits}" for (question, pages), hits in zip(asked, others, strict=True) if not pages & set(hits)
    ]
