"""Documentation that cannot lie: every Python block in README and docs runs."""

from __future__ import annotations

import re
from code import InteractiveConsole
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.frameworks import has
from tests.missing import not_here

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]


# Pages about what cannot be installed beside the rest.
NEEDS = {
    "adk.md": "google.adk",
    "llama-index.md": "llama_index.core",
    "crewai.md": "crewai",
    "pydantic-ai-harness.md": "pydantic_ai_harness",
}


def blocks(text: str) -> Iterator[str]:
    """Yield each block where it stands, so that an error names the line of the page."""
    for found in BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, found.start(1)) + found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_code_block_runs_and_runs_again(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one page run in order and share their names, as a reader would type them; a reader tries things twice,
    and what the first time left in the folder is then still there."""
    if page.name in NEEDS and not has(NEEDS[page.name]):
        not_here(NEEDS[page.name], "its page is run where its adapter is tested: make adapters")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {"__name__": "__main__"}
        for block in blocks(page.read_text()):
            exec(compile(block, str(page), "exec"), names)


def test_the_first_example_can_be_pasted_into_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty line ends a block there."""
    monkeypatch.chdir(tmp_path)
    prompt = InteractiveConsole()
    found = BLOCK.search((ROOT / "README.md").read_text())
    assert found is not None
    for line in [*found[1].splitlines(), ""]:
        prompt.push(line)
    out, err = capsys.readouterr()
    assert (err, "expected 0, but it is at" in out) == ("", True)


def test_every_promise_says_how_it_is_shown_and_where_that_is() -> None:
    table = (ROOT / "README.md").read_text().partition("| promise |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == 9
    for row in table:
        _, _, shown, more, _ = row.split("|")
        named = re.findall(r"`([^`]+)`", more)
        assert shown.strip() and "](docs/" in more and named
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_relative_link_leads_somewhere() -> None:
    broken = []
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", prose):
            if not (page.parent / target).exists():
                broken.append(f"{page.name} -> {target}")
    assert broken == []
