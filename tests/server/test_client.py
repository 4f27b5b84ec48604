"""The client: the same code against a server, the same errors, and nothing done twice when the line breaks."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.client.retry import Request, Retry
from strongroom.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StoreError,
    StrongroomError,
    Unavailable,
)
from strongroom.protocol.errors import ERRORS, facts, revive
from strongroom.store import Key
from tests.server.line import Line
from tests.server.samples import MCR
from tests.server.serving import Process, Served, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(str(tmp_path / "agent.db")) as started:
        yield started


def tell_a_story(ctx: strongroom.Context) -> tuple[Any, ...]:
    """A program that does not know where its data is."""
    run = ctx.runs.create(objective="Build a scraper", run_id="r")
    run.update(expected_seq=0, status="BUSY")
    with pytest.raises(Conflict) as lost:
        run.update(expected_seq=0, status="DONE")
    run.update_with(lambda ws: {"blockers": [*ws.blockers, "429s"]})
    session = ctx.sessions.open("s")
    session.append([{"role": "user", "content": "Which languages?"}, {"role": "assistant", "content": "Python"}])
    ctx.threads.append("t", {"text": "hi"}, from_id="a")
    batch = ctx.memories.propose([{**MCR, "user_id": None}], proposer="agent-7")
    done = ctx.memories.commit(batch.id, reviewer="ana")
    return (
        (lost.value.expected, lost.value.actual),
        run.working_set.blockers,
        [event.type for event in run.events()],
        run.verify().ok,
        [message.content for message in session.window(max_tokens=1000).messages],
        len(ctx.threads.get("t")),
        len(done.memory_ids),
        [hit.memory.content for hit in ctx.memories.search("first proposed")],
    )


def test_one_changed_line_moves_a_program_to_a_server(server: Served, tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "other.db") as local, strongroom.connect(server.url) as remote:
        assert tell_a_story(local) == tell_a_story(remote)
        assert local.durability == remote.durability


def test_an_async_program_moves_too(server: Served) -> None:
    async def scene() -> Any:
        async with strongroom.aconnect(server.url) as ctx:
            run = await ctx.runs.create(objective="x")
            follower = run.follow(idle_seconds=30)
            first = await anext(follower)
            await run.record("TOOL_CALL", {"tool_name": "t", "arguments": {}})
            second = await anext(follower)
            return first.type, second.type

    assert asyncio.run(scene()) == ("RUN_START", "TOOL_CALL")


def test_a_context_over_http_says_where_it_is_and_keeps_its_secrets(server: Served) -> None:
    with strongroom.connect(server.url, key=server.key()) as ctx:
        assert repr(ctx) == f"Context(HttpStore('{server.url}'), space='default')"


def test_importing_strongroom_does_not_import_the_client() -> None:
    check = "import sys, strongroom; print('httpx' in sys.modules, 'starlette' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", check], text=True).split() == ["False", "False"]


@pytest.mark.parametrize("role", ["reader", "reviewer"])
def test_a_key_without_the_right_is_refused_and_nothing_changed(server: Served, role: str) -> None:
    with strongroom.connect(server.url, key=server.key(role=role)) as ctx:
        with pytest.raises(Unavailable) as refused:
            ctx.runs.create(objective="x")
        assert refused.value.reason == "permission"
        assert list(ctx.runs.list()) == []


def test_a_writer_proposes_and_only_a_reviewer_commits(server: Served) -> None:
    with (
        strongroom.connect(server.url, key=server.key(role="writer")) as writer,
        strongroom.connect(server.url, key=server.key(role="reviewer")) as reviewer,
    ):
        batch = writer.memories.propose([MCR], proposer="agent-7")
        with pytest.raises(Unavailable, match="review"):
            writer.memories.commit(batch.id, reviewer="agent-7b")
        done = reviewer.memories.commit(batch.id, reviewer="ana")
        assert done.reviewer != "ana" and done.reviewer.endswith("/ana")  # whoever she is, the key is named first
        assert len(writer.memories.search("1956")) == 1


def test_a_wrong_key_is_refused_at_the_door(server: Served) -> None:
    server.key()
    with pytest.raises(Unavailable) as refused:
        strongroom.connect(server.url, key="srk_nobody.secret")
    assert refused.value.help == "strongroom explain unauthorised (reference/errors.html#unauthorised)"


def test_a_key_that_was_revoked_is_told_from_a_right_that_is_missing(server: Served) -> None:
    server.key()
    revoked = server.key()
    headers = {"Authorization": f"Bearer {server.key(role='admin')}"}
    assert httpx.delete(f"{server.url}/keys/{revoked[4:16]}", headers=headers).status_code == 200
    with pytest.raises(Unavailable) as refused:
        strongroom.connect(server.url, key=revoked)
    assert refused.value.reason == "unauthorised"


def test_a_missing_key_is_asked_for_in_the_words_of_this_client(server: Served) -> None:
    server.key()
    with pytest.raises(Unavailable, match=r"connect\(url, key=\.\.\.\).*STRONGROOM_API_KEY"):
        strongroom.connect(server.url)


def test_a_closed_connection_says_so(server: Served) -> None:
    ctx = strongroom.connect(server.url)
    ctx.close()
    with pytest.raises(Closed):
        ctx.runs.list()


def test_what_is_no_server_is_said_to_be_none() -> None:
    with pytest.raises(InvalidInput):
        strongroom.connect("ftp://somewhere")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable) as missing:
            strongroom.connect(f"http://127.0.0.1:{nobody.getsockname()[1]}", retry_seconds=0.2)
    assert missing.value.reason == "unreachable"


# ---- when the line breaks -------------------------------------------------------------------------------------------


@pytest.fixture
def line(server: Served) -> Iterator[Line]:
    made = Line(server.url)
    yield made
    made.close()


def test_a_commit_whose_answer_was_lost_is_done_once(line: Line) -> None:
    with strongroom.connect(line.url) as ctx:
        ctx.threads.append("t", 0, from_id="a")
        line.swallow = 2
        assert ctx.threads.append("t", 1, from_id="a").index == 1
        assert line.swallow == 0
        assert [slot.payload for slot in ctx.threads.get("t")] == [0, 1]


def test_a_commit_that_is_never_answered_is_unknown(line: Line) -> None:
    with strongroom.connect(line.url, retry_seconds=0.5) as ctx:
        ctx.threads.append("t", 0, from_id="a")
        line.swallow = 1000
        with pytest.raises(CommitUnknown) as unknown:
            ctx.threads.append("t", 1, from_id="a", commit_id="mine")
        assert unknown.value.commit_id == "mine"
        line.swallow = 0
        assert ctx.threads.append("t", 1, from_id="a", commit_id="mine").index == 1
        assert len(ctx.threads.get("t")) == 2


def late(**_request: Any) -> httpx.Response:
    raise httpx.ReadTimeout("an erasure takes its time")


def test_a_server_that_is_at_work_for_long_is_not_said_to_be_missing(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.connect(server.url, retry_seconds=1) as ctx:
        ctx.threads.append("t", 0, from_id="a")
        http: Any = vars(ctx.store)["_http"]
        ask = http.request
        monkeypatch.setattr(http, "request", lambda **asked: (ask if "read" in asked["url"] else late)(**asked))
        with pytest.raises(CommitUnknown) as unknown:
            ctx.threads.erase("t", start=0, commit_id="mine")
    assert str(unknown.value) == (
        f"{server.url} took the request and did not answer within 1 second (ReadTimeout): it may still be at work on it"
        "; the commit may or may not have happened, which a repeat with the same id tells"
    )


async def test_a_server_that_is_at_work_for_long_is_not_said_to_be_missing_by_async_code(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def later(**request: Any) -> httpx.Response:
        return late(**request)

    async with await strongroom.aconnect(server.url, retry_seconds=1) as ctx:
        monkeypatch.setattr(vars(ctx.store)["_http"], "request", later)
        with pytest.raises(CommitUnknown, match="took the request and did not answer within 1 second"):
            await ctx.threads.append("t", 0, from_id="a")


def test_a_client_lives_through_a_restart_of_the_server(tmp_path: Path) -> None:
    first = Process(tmp_path / "agent.db")
    with strongroom.connect(first.url, retry_seconds=60) as ctx:
        ctx.threads.append("t", 0, from_id="a")
        first.kill()
        starting = threading.Thread(target=lambda: started.append(Process(tmp_path / "agent.db", port=first.port)))
        started: list[Process] = []
        starting.start()
        assert ctx.threads.append("t", 1, from_id="a").index == 1
        starting.join()
        started[0].stop()


# ---- deciding whether to try again ----------------------------------------------------------------------------------


def tries(patience: float = 10.0, commit_id: str | None = None) -> Retry:
    return Retry(Request("/store/commit", commit_id=commit_id), patience, lambda: 0.0)


def test_the_first_repeat_comes_at_once_and_later_ones_wait() -> None:
    life = tries()
    pauses = [life.lost(OSError(), sent=True) for _ in range(6)]
    assert pauses[0] == 0 and 0 < pauses[1] < pauses[3] < pauses[5]


def test_what_was_never_sent_is_not_unknown() -> None:
    with pytest.raises(Unavailable):
        tries(0.0, "c").lost(OSError(), sent=False)
    with pytest.raises(CommitUnknown):
        tries(0.0, "c").lost(OSError(), sent=True)
    with pytest.raises(Unavailable):
        tries(0.0).lost(OSError(), sent=True)


def test_the_words_for_a_late_answer_say_how_long_it_was_waited_for() -> None:
    now = iter([0.0, 61.0, 61.0])
    life = Retry(Request("/store/perform", commit_id="c"), 15.0, lambda: next(now))
    with pytest.raises(
        CommitUnknown, match=r"did not answer within 61 seconds \(TimeoutError\): it may still be at work"
    ):
        life.lost(TimeoutError(), sent=True, late=True)


def test_a_server_that_asks_for_time_gets_it() -> None:
    pause = tries().answered(429, {"retry-after": "3"}, b'{"code": "too_many_requests", "error": "slow"}')
    assert pause is not None and pause > 2


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (403, b'{"code": "forbidden", "error": "no"}', Unavailable),
        (401, b'{"code": "unauthorised", "error": "no"}', Unavailable),
        (503, b'{"code": "unavailable", "error": "no", "details": {"reason": "permission"}}', Unavailable),
        (413, b'{"code": "body_too_large", "error": "no", "details": {"limit": 5, "needed": 9}}', BudgetExceeded),
        (404, b"<html>", SchemaMismatch),
        (404, b'{"code": "no_such_path", "error": "no"}', SchemaMismatch),
        (500, b'{"code": "damaged", "error": "no", "details": {"reason": "gap"}}', Damaged),
        (500, b'{"code": "internal", "error": "no"}', StoreError),
    ],
)
def test_an_answer_that_no_repeat_mends_becomes_the_right_error_at_once(
    status: int, content: bytes, kind: type[StrongroomError]
) -> None:
    with pytest.raises(kind):
        tries().answered(status, {}, content)


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("wrong", path="a.b"),
        NotFound("none", kind="run", id="r"),
        Conflict("lost", expected=1, actual=2, key=Key("s", "k", "i")),
        BudgetExceeded("over", limit=1, needed=2),
        Damaged("bad", reason="checksum"),
        Damaged("bad", reason="checksum", place="7", id="r"),
        CommitUnknown("perhaps", reason="io", commit_id="c"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_is_the_same_on_the_other_side(error: StrongroomError) -> None:
    again = revive(error.code, str(error), facts(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_every_error_can_travel() -> None:
    def below(kind: type[StrongroomError]) -> set[type[StrongroomError]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__() if one.__module__ == "strongroom.errors"))

    assert {kind for kind, _ in ERRORS.values()} == below(StrongroomError) - {StrongroomError}


def test_files_that_changed_places_are_erased_through_a_server(server: Served) -> None:
    with strongroom.connect(server.url) as ctx:
        ctx.files.write("/s/a", "secret one")
        ctx.files.write("/s/b", "secret two")
        for path, to in (("/s/a", "/s/t"), ("/s/b", "/s/a"), ("/s/t", "/s/b")):
            ctx.files.rename(path, to)
        assert [ctx.files.erase(path).elsewhere for path in ("/s/a", "/s/b", "/s/t")] == [("/s/b",), (), ()]
        assert [one.change for path in "abt" for one in ctx.files.history(f"/s/{path}")].count("written") == 0
