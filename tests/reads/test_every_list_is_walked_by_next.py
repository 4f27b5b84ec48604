"""What a page calls `next` is text, and as `after` it leads to the end as it is: of every list, by every door.

Which lists there are is read from the doors themselves: whatever takes an `after` has a row here, or streams.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import strongroom
from strongroom.dispatch import Dispatcher, Retry
from strongroom.mcp import resources
from strongroom.mcp.tools import TOOLS
from strongroom.server.routes import ENDPOINTS
from tests.cli.commands import leaves
from tests.cli.conftest import Type, quiet, type_in  # noqa: F401 - fixtures
from tests.mcp.conftest import assistant, call
from tests.repeats.test_no_operation_is_missing import CLASSES, READS
from tests.server.conftest import client
from tests.server.serving import Served, served

FEW = 5  # on a page
COUNT = 12  # of everything
ALL = 200
FILES = 105  # an assistant is shown a hundred at once
FOLLOWING = {"run follow", "threads follow", "runs tail", "threads tail"}  # they stream what comes, and have no pages
Page = tuple[list[Any], str | None]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with so many of everything that none of its lists is one page."""
    path = tmp_path_factory.mktemp("pages") / "agent.db"
    with strongroom.open(path) as ctx:
        for number in range(COUNT):
            ctx.runs.create(objective="o", run_id=f"run-{number}")
            ctx.sessions.open(f"session-{number}")
            ctx.threads.append(f"thread-{number}", number, from_id="a")
            ctx.memories.add(f"tea number {number}")
            ctx.memories.add(f"coffee number {number}", proposer="agent")
            ctx.files.write("/often.md", f"tea {number}")
        for number in range(FILES):
            ctx.files.write(f"/notes/{number}.md", "tea")
        run, session = ctx.runs.get("run-0"), ctx.sessions.get("session-0")
        for number in range(COUNT):
            run.milestone(reason=f"{number}")
            session.append({"role": "user", "content": f"tea {number}"})
            ctx.threads.append("thread-0", number, from_id="a")
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("ill", retry=Retry(attempts=1))
        def ill(payload: Any, call: Any) -> None:
            raise ValueError

        for number in range(COUNT):
            dispatcher.send(f"letter-{number}", number, from_id="a", to_id="ill")
        dispatcher.drain()
    return path


def walked(page: Callable[[str | None], Page]) -> list[Any]:
    """Go from page to page by `next` alone, and return all that was on them."""
    items, after, pages = list[Any](), None, 0
    while True:
        found, following = page(after)
        assert found, "an empty page in the middle"
        assert following is None or type(following) is str
        items, pages = [*items, *found], pages + 1
        if following is None:
            break
        after = following
    assert pages > 1
    assert len({repr(item) for item in items}) == len(items) >= COUNT
    return items


# ---- Python ---------------------------------------------------------------------------------------------------------

PYTHON: dict[str, Callable[..., Any]] = {
    "runs list": lambda ctx, **page: ctx.runs.list(**page),
    "run events": lambda ctx, **page: ctx.runs.get("run-0").events(**page),
    "run episodes": lambda ctx, **page: ctx.runs.get("run-0").episodes(**page),
    "sessions list": lambda ctx, **page: ctx.sessions.list(**page),
    "session page": lambda ctx, **page: ctx.sessions.get("session-0").page(**page),
    "memories list": lambda ctx, **page: ctx.memories.list(everyone=True, **page),
    "memories at": lambda ctx, **page: ctx.memories.at(ctx.memories.list()[-1].created_at, everyone=True, **page),
    "memories pending": lambda ctx, **page: ctx.memories.pending(**page),
    "threads list": lambda ctx, **page: ctx.threads.list(**page),
    "files list": lambda ctx, **page: ctx.files.list("/notes", **page),
    "files history": lambda ctx, **page: ctx.files.history("/often.md", **page),
    "dispatcher dead_letters": lambda ctx, **page: Dispatcher(ctx).dead_letters(**page),
}


def test_no_list_of_python_is_missing() -> None:
    found = {
        f"{part} {name}"
        for part, names in READS.items()
        for name in names
        if "after" in inspect.signature(getattr(CLASSES[part][0], name)).parameters
    }
    assert found - FOLLOWING == PYTHON.keys()


@pytest.mark.parametrize("name", PYTHON)
def test_a_list_of_python_is_walked_by_next(store: Path, name: str) -> None:
    with strongroom.open(store) as ctx:

        def page(after: str | None) -> Page:
            found = PYTHON[name](ctx, after=after, limit=FEW)
            return list(found), found.next

        assert repr(walked(page)) == repr(list(PYTHON[name](ctx, limit=ALL)))  # handles are equal to themselves alone


# ---- HTTP -----------------------------------------------------------------------------------------------------------

HTTP = {
    "/runs": ("/runs?", "runs"),
    "/runs/{run_id}/events": ("/runs/run-0/events?", "events"),
    "/runs/{run_id}/episodes": ("/runs/run-0/episodes?", "episodes"),
    "/sessions": ("/sessions?", "sessions"),
    "/sessions/{session_id}/messages": ("/sessions/session-0/messages?", "messages"),
    "/memories": ("/memories?everyone=true&", "memories"),
    "/memories/pending": ("/memories/pending?", "batches"),
    "/threads": ("/threads?", "threads"),
    "/threads/{thread_id}/slots": ("/threads/thread-0/slots?", "slots"),
    "/threads/dead": ("/threads/dead?", "letters"),
    "/files": ("/files?folder=/notes&", "files"),
    "/files/history": ("/files/history?path=/often.md&", "versions"),
}


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Served]:
    with served(str(store)) as started:
        yield started


def test_no_list_of_http_is_missing() -> None:
    asked = {each.path for each in ENDPOINTS if "after" in getattr(each.query, "__struct_fields__", ())}
    assert {path for path in asked if not path.endswith("/follow")} == HTTP.keys()


@pytest.mark.parametrize("path", HTTP)
def test_a_list_of_http_is_walked_by_next(server: Served, path: str) -> None:
    url, name = HTTP[path]
    with client(server.url) as http:

        def page(after: str | None, limit: int = FEW) -> Page:
            answer = http.get(f"{url}limit={limit}" + ("" if after is None else f"&after={quote(after)}"))
            assert answer.status_code == 200, answer.text
            return answer.json()[name], answer.json()["next"]

        assert walked(page) == page(None, ALL)[0]


@pytest.mark.parametrize("query", ["start=3", "after=3", "start=3&stop=9", "after=3&stop=9&limit=2"])
def test_slots_begin_at_an_index_as_before_or_at_next(server: Served, query: str) -> None:
    with client(server.url) as http:
        page = http.get(f"/threads/thread-0/slots?{query}").json()
        assert page["slots"][0]["index"] == 3
        assert page["next"] == ("5" if "limit" in query else None)
        assert http.get("/threads/thread-0/slots?start=3&after=3").status_code == 422


def test_a_thread_of_more_than_a_page_says_that_there_is_more(server: Served, store: Path) -> None:
    with strongroom.open(store) as ctx:
        ctx.threads.append_many("long", list(range(1001)), from_id="a")
    with client(server.url) as http:
        assert http.get("/threads/long/slots").json()["next"] == "1000"


# ---- the command line -----------------------------------------------------------------------------------------------

COMMANDS = {
    "runs list": ("", "runs"),
    "runs events": ("run-0", "events"),
    "sessions list": ("", "sessions"),
    "memories list": ("--everyone", "memories"),
    "memories pending": ("", "batches"),
    "threads list": ("", "threads"),
    "threads show": ("thread-0", "slots"),
    "files list": ("/notes", "files"),
    "files history": ("/often.md", "versions"),
}


def test_no_list_of_the_command_line_is_missing() -> None:
    found = {name for name, one in leaves() if any("--after" in each.opts for each in one.params)}
    assert found - FOLLOWING == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("quiet")
def test_a_list_of_the_command_line_is_walked_by_next(store: Path, type_in: Type, name: str) -> None:  # noqa: F811
    more, key = COMMANDS[name]

    def page(after: str | None, limit: int = FEW) -> Page:
        options = ["--limit", str(limit), *([] if after is None else ["--after", after])]
        told = type_in("--url", str(store), *name.split(), *more.split(), *options, "--json").json
        return told[key], told["next"]

    assert walked(page) == page(None, ALL)[0]


# ---- assistants -----------------------------------------------------------------------------------------------------

ASSISTANT: dict[str, tuple[dict[str, Any], str]] = {
    "run_list": ({"limit": FEW}, "runs"),
    "run_get": ({"run_id": "run-0", "limit": FEW, "after": 0}, "events"),
    "memory_search": ({"query": "tea", "k": FEW}, "hits"),
    "memory_pending": ({"limit": FEW}, "batches"),
    "session_search": ({"query": "tea", "k": FEW}, "hits"),
    "files_view": ({"path": "/notes/"}, "files"),
}
ADDRESSES = {
    "runs": ("strongroom://runs", "runs"),
    "sessions": ("strongroom://sessions", "sessions"),
    "files": ("strongroom://files", "files"),
    "pending": ("strongroom://pending", "batches"),
    "ledger": ("strongroom://runs/run-0/ledger", "events"),
}


def test_no_list_of_assistants_is_missing() -> None:
    assert {one.name for one in TOOLS if "after" in one.takes.__struct_fields__} == ASSISTANT.keys()
    assert {one.name for one in resources.RESOURCES if "after" in one.template + one.description} == ADDRESSES.keys()


@pytest.mark.parametrize("tool", ASSISTANT)
async def test_a_list_of_a_tool_is_walked_by_next(store: Path, tool: str) -> None:
    arguments, key = ASSISTANT[tool]
    profile: Any = "reviewer" if tool == "memory_pending" else "agent"
    async with strongroom.aopen(store) as ctx, assistant(ctx, profile) as one:
        pages = [await call(one, tool, **arguments)]
        while (after := pages[-1].get("next")) is not None:
            assert type(after) is str
            pages.append(await call(one, tool, **{**arguments, "after": after}))
    _complete([page[key] for page in pages])


@pytest.mark.parametrize("name", ADDRESSES)
async def test_a_list_of_a_resource_is_walked_by_next(store: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PAGE", FEW)
    address, key = ADDRESSES[name]
    async with strongroom.aopen(store) as ctx, assistant(ctx, "reviewer") as one:
        pages = [await _read(one, address)]
        while (after := pages[-1]["next"]) is not None:
            assert type(after) is str
            pages.append(await _read(one, f"{address}?after={quote(after)}"))
    _complete([page[key] for page in pages])


async def _read(one: Any, uri: str) -> Any:
    return json.loads((await one.read_resource(uri)).contents[0].text)


def _complete(pages: list[list[Any]]) -> None:
    items = [json.dumps(item) for page in pages for item in page]
    assert len(pages) > 1 and all(pages)
    assert len(set(items)) == len(items) >= COUNT
