"""Whatever a reader does wrong, no answer says that nothing changed: that is for writers, who could think it had.

The table of what reads is that of tests/repeats, which holds every public method of every service or fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.threads import Thread
from strongroom.bridge import run
from strongroom.errors import StrongroomError
from strongroom.protocol.wire import MEDIA
from strongroom.services.threads.reading import AsyncThread
from tests.repeats.test_no_operation_is_missing import READS, methods
from tests.server.conftest import client
from tests.server.serving import Served, served
from tests.services.test_wrong_arguments import FILES, JUNK, World

UNCHANGED = "nothing changed"
# They are called by whoever is about to write, or set what is written: what they refuse is a part of that.
FOR_WRITERS = {
    "runs": {"register_event"},
    "memories": {"batch_writes", "unpack_writes"},
    "threads": {"entry", "plan"},
    "dispatcher": {"bind", "drain", "handler", "run", "stop"},
}
WAITING = {"wait", "close"}
THREAD = {"by_type", "follow", "indexes", "length", "sent_by", "slice"}
TABLE = {part: names - FOR_WRITERS.get(part, set()) - WAITING for part, names in READS.items()} | {"thread": THREAD}
# What no signature forbids and the service refuses or does not find.
WRONG = [*JUNK[:-2], "missing", "notes.md", "notes", "/no/such/file.md", "/../x", 0, 99, "99", "0" * 40, "x:y"]


def rows() -> list[Any]:
    return [pytest.param(part, name, id=f"{part}.{name}") for part in TABLE for name in sorted(TABLE[part])]


def test_every_method_of_a_thread_reads() -> None:
    assert methods(AsyncThread) == methods(Thread) == THREAD


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("hello")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture(params=["memory", "sqlite", "http"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with _opened(request, tmp_path) as ctx:
        yield World(ctx)


def _opened(request: pytest.FixtureRequest, tmp_path: Path) -> Context:
    if request.param == "http":
        server: Served = request.getfixturevalue("server")
        server.reset("memory://")
        return strongroom.connect(server.url, key=server.key())
    return strongroom.open("memory://" if request.param == "memory" else tmp_path / "agent.db")


@pytest.mark.parametrize(("part", "name"), rows())
def test_a_read_with_a_wrong_argument_or_a_missing_id(world: World, part: str, name: str) -> None:
    method = _method(world, part, name)
    for parameter in _parameters(method):
        for wrong in WRONG:
            told = _told(method, world, {parameter.name: wrong})
            assert UNCHANGED not in told, (parameter.name, wrong)


@pytest.mark.parametrize(("part", "name"), rows())
def test_a_read_of_what_was_erased(world: World, part: str, name: str) -> None:
    method = _method(world, part, name)
    ctx = world.ctx
    ctx.sessions.delete("s1")
    ctx.threads.delete("t1")
    ctx.files.erase("/notes/a.md")
    ctx.runs.erase(world.run.id, reason="r")
    assert UNCHANGED not in _told(method, world, {})


def _method(world: World, part: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(world.part(part), name, None)  # some only async code has
    return found or getattr(world.part(part)._async, name)


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(method).parameters.values() if each.kind is not each.VAR_KEYWORD]


def _told(method: Callable[..., Any], world: World, wrong: dict[str, Any]) -> str:
    """Return what a call says if it fails, and nothing if it does not."""
    given = {each.name: world.usual(each.name) for each in _parameters(method) if each.default is each.empty}
    if "Files." in method.__qualname__:
        given |= {name: value for name, value in FILES.items() if name in given}
    if "idle_seconds" in inspect.signature(method).parameters:
        given["idle_seconds"] = 0.0
    try:
        answer = method(**(given | wrong))
        if inspect.iscoroutine(answer):
            run(answer)
        elif inspect.isgenerator(answer):
            next(answer, None)
    except StrongroomError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("path", ["read", "search", "wait"])
@pytest.mark.parametrize("body", [b"\xc1", b"\x01", b"\x91\x92\xa3Nix\x80"])
def test_a_question_to_a_server_that_it_cannot_read(server: Served, path: str, body: bytes) -> None:
    with client(server.url, server.key()) as http:
        answer = http.post(f"/store/{path}", content=body, headers={"Content-Type": MEDIA})
    assert answer.status_code == 422
    assert UNCHANGED not in answer.text


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/runs/%ff", []),
        ("/runs?after=%ff", []),
        ("/runs", [("Authorization", "Bearer x")] * 2),
        ("/runs", [(f"X-{n}", "x") for n in range(150)]),
        ("/nowhere", []),
    ],
    ids=["path", "query", "a header twice", "many headers", "no such page"],
)
def test_a_request_to_read_that_is_refused_before_anybody_knows_what_it_asks(
    server: Served, path: str, headers: list[tuple[str, str]]
) -> None:
    with client(server.url) as http:
        answer = http.get(path, headers=headers)
    assert answer.status_code >= 400 and UNCHANGED not in answer.text
