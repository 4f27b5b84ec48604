"""One stream for each tab says what changed, whoever changed it, and says so if something was missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.server import changes
from strongroom.server.bounded import BoundedStore
from strongroom.server.changes import Feed
from tests.server.conftest import client
from tests.server.samples import MCR
from tests.server.serving import Served, served


class Tab:
    """What a page of the console sees."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()
        self.last = ""

    def next(self) -> dict[str, Any]:
        for line in self._lines:
            if line.startswith("id: "):
                self.last = line[4:]
            if line.startswith("data: "):
                told: dict[str, Any] = json.loads(line[6:])
                return told
        raise AssertionError("the stream ended")

    def until(self, **wanted: str) -> dict[str, Any]:
        while True:
            told = self.next()
            if wanted.items() <= told.items():
                return told


@contextmanager
def tab(http: httpx.Client, last: str | None = None, **query: Any) -> Iterator[Tab]:
    headers = {} if last is None else {"Last-Event-ID": last}
    with http.stream("GET", "/changes", headers=headers, params=query) as answer:
        assert answer.status_code == 200
        yield Tab(answer)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(changes, "LOOK_SECONDS", 0.02)
    with served(str(tmp_path / "agent.db")) as started:
        yield started


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with client(server.url) as made:
        yield made


WRITES: dict[str, Any] = {
    "runs": lambda http: http.post("/runs", json={"objective": "x", "run_id": "r"}),
    "sessions": lambda http: http.post("/sessions/s/messages", json={"messages": [{"role": "user", "content": "x"}]}),
    "threads": lambda http: http.post("/threads/t/slots", json={"payload": "x", "from_id": "a"}),
    "review": lambda http: http.post("/memories/propose", json={"requests": [MCR], "batch_id": "b"}),
    "files": lambda http: http.put("/files", json={"path": "/a.md", "text": "x"}),
}


@pytest.mark.parametrize("topic", WRITES)
def test_what_a_worker_commits_is_told(http: httpx.Client, topic: str) -> None:
    with client(str(http.base_url)) as other, tab(http) as seen:
        assert seen.next() == {"topic": "start"}
        assert WRITES[topic](other).status_code == 200
        told = seen.until(topic=topic)
        assert told["id"] in ("r", "s", "t", "b", "/a.md") and told["at"]


def test_a_memory_that_is_accepted_is_told_with_its_batch(http: httpx.Client) -> None:
    with client(str(http.base_url)) as other, tab(http) as seen:
        other.post("/memories/propose", json={"requests": [{**MCR, "memory_id": "known"}], "batch_id": "b"})
        other.post("/memories/batches/b/commit", json={"reviewer": "ana"})
        assert seen.until(topic="memories") | {"at": ""} == {
            "topic": "memories",
            "kind": "memory",
            "id": "known",
            "at": "",
        }


def test_what_another_process_commits_is_told(server: Served, http: httpx.Client, tmp_path: Path) -> None:
    """The store is opened a second time, as a program of its own would: this server is told nothing."""
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run, session = ctx.runs.create(objective="x", run_id="r"), ctx.sessions.open("s")
        ctx.threads.append("t", "x", from_id="a")
        with tab(http) as seen:
            assert seen.next() == {"topic": "start"}
            server.do(_looked(server))
            for topic, id, write in (
                ("runs", "r", lambda: run.record("ERROR", {"error_type": "e", "message": "m"})),
                ("runs", "r", lambda: run.update(next_action="n")),
                ("sessions", "s", lambda: session.append([{"role": "user", "content": "x"}])),
                ("threads", "t", lambda: ctx.threads.append("t", "x", from_id="a")),
                ("review", "b", lambda: ctx.memories.propose([MCR], proposer="ana", batch_id="b")),
                ("files", "/a.md", lambda: ctx.files.write("/a.md", "x")),
                ("sessions", "s", lambda: ctx.sessions.delete("s")),
            ):
                write()
                assert seen.until(topic=topic)["id"] == id


async def _looked(server: Served) -> None:
    """Wait until the feed knows how things are."""
    await server.app.state.changes.of("default").look()


def test_a_thing_that_is_named_is_looked_at_however_old_it_is(
    server: Served, http: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "NEWEST", 1)
    with strongroom.open(tmp_path / "agent.db") as ctx:
        old = ctx.sessions.open("old")
        ctx.sessions.open("new")
        with tab(http, watch=["session:old"]) as seen:
            seen.next()
            server.do(_looked(server))
            old.append([{"role": "user", "content": "x"}])
            assert seen.until(topic="sessions")["id"] == "old"


def test_whoever_comes_back_gets_what_came_meanwhile(http: httpx.Client) -> None:
    with client(str(http.base_url)) as other:
        with tab(http) as seen:
            seen.next()
            WRITES["runs"](other)
            seen.until(topic="runs")
            last = seen.last
        for number in range(3):
            other.post("/runs", json={"objective": "x", "run_id": f"later-{number}"})
        with tab(http, last) as seen:
            assert seen.next() == {"topic": "start"}
            assert [seen.until(topic="runs")["id"]] and seen.until(id="later-2")


@pytest.mark.parametrize("last", ["00000000-1", "x", "7", "00000000-" + "9" * 40, "-"])
def test_whoever_comes_back_to_a_server_that_does_not_know_is_told_so(http: httpx.Client, last: str) -> None:
    with tab(http, last) as seen:
        assert seen.next() == {"topic": "reset"}


def test_nobody_hears_of_another_space(server: Served) -> None:
    with (
        client(server.url, server.key("ours", "reader")) as reader,
        client(server.url, server.key("ours", "writer")) as ours,
        client(server.url, server.key("theirs", "writer")) as theirs,
        tab(reader) as seen,
    ):
        seen.next()
        WRITES["sessions"](theirs)
        WRITES["runs"](ours)
        assert seen.next()["topic"] == "runs"


@pytest.mark.parametrize("watch", ["run:", "memory:m", "r", "run"])
def test_what_cannot_be_named_is_refused(http: httpx.Client, watch: str) -> None:
    assert http.get("/changes", params={"watch": watch}).status_code == 422
    assert http.get("/changes", params={"watch": [f"run:{number}" for number in range(9)]}).status_code == 422


# ---- the feed itself ------------------------------------------------------------------------------------------------


class Counting(BoundedStore):
    """A store that counts what is asked."""

    asked = 0

    async def read(self, questions: Any) -> list[Any]:
        self.asked += len(questions)
        return await super().read(questions)


async def test_a_look_costs_the_same_whatever_the_history() -> None:
    store = OnLoop(MemoryStore())
    counting = Counting(store, 8 * 1024 * 1024)
    made = AsyncContext(Scope(store))
    costs = []
    for _ in range(3):
        for _ in range(changes.NEWEST + 10):
            session = await made.sessions.open()
            await session.append([{"role": "user", "content": "x"}])
        feed, counting.asked = Feed(counting, "default", 8 * 1024 * 1024), 0
        await feed.look()
        costs.append(counting.asked)
    assert costs[0] == costs[1] == costs[2] < 100


async def _everything(ctx: AsyncContext) -> None:
    run = await ctx.runs.create(objective="x", run_id="r")
    await run.record("ERROR", {"error_type": "e", "message": "m"})
    await run.update(next_action="n")
    await (await ctx.sessions.open("s")).append([{"role": "user", "content": "x"}])
    await ctx.threads.append("t", "x", from_id="a")
    await ctx.memories.propose([{**MCR, "memory_id": "known"}], proposer="ana", batch_id="b")
    await ctx.memories.commit("b", reviewer="bea")
    await ctx.files.write("/a.md", "x")
    await ctx.sessions.delete("s")


async def test_a_look_does_not_tell_again_what_was_told_when_it_was_committed() -> None:
    bounded = BoundedStore(OnLoop(MemoryStore()), 8 * 1024 * 1024)
    feed, ctx = Feed(bounded, "default", 8 * 1024 * 1024), AsyncContext(Scope(bounded))
    bounded.on_commit = feed.committed
    await feed.look()
    await _everything(ctx)
    told = {(change.kind, change.id) for change in feed._events}
    assert told >= {("run", "r"), ("session", "s"), ("thread", "t"), ("batch", "b"), ("memory", "known")}
    count = feed._number
    await feed.look()
    await (await ctx.runs.get("r")).update(next_action="again")
    await feed.look()
    assert [change.id for change in list(feed._events)[count:]] == ["r"]


async def test_a_look_tells_what_somebody_else_did_to_a_thing_after_us() -> None:
    store = OnLoop(MemoryStore())
    bounded = BoundedStore(store, 8 * 1024 * 1024)
    feed, ours, theirs = (
        Feed(bounded, "default", 8 * 1024 * 1024),
        AsyncContext(Scope(bounded)),
        AsyncContext(Scope(store)),
    )
    bounded.on_commit = feed.committed
    await feed.look()
    await _everything(ours)
    await (await theirs.runs.get("r")).update(next_action="theirs")
    await theirs.threads.append("t", "theirs", from_id="a")
    await theirs.files.write("/a.md", "theirs")
    await theirs.memories.propose([MCR], proposer="ana", batch_id="c")
    count = feed._number
    await feed.look()
    assert {change.id for change in list(feed._events)[count:]} == {"r", "t", "/a.md", "c"}
    count = feed._number
    await feed.look()
    assert feed._number == count


async def test_nobody_looks_while_nobody_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(changes, "KEEP_SECONDS", -1.0)
    feeds = changes.Changes(Counting(OnLoop(MemoryStore()), 1024 * 1024), 1024 * 1024)
    feeds.of("default")
    [task] = feeds._tasks.values()
    await asyncio.wait_for(task, 60)
    assert feeds._feeds == {}


async def test_a_follower_that_is_too_slow_is_told_to_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(BoundedStore(OnLoop(MemoryStore()), 1024 * 1024), "default", 1024 * 1024)
    following = feed.follow(None, [])
    assert (await anext(following))[1] == "start"
    feed._tell([("runs", "run", str(number)) for number in range(changes.REMEMBERED + 1)])
    assert (await anext(following))[1] == "reset"
    feed._tell([("runs", "run", "one more")])
    assert (await anext(following))[2].id == "one more"
    await following.aclose()  # type: ignore[attr-defined]
    assert feed.followers == 0
