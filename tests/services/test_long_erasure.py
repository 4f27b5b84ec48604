"""Erasing many messages, or events, at once: in bounded commits, each of which may be the last before a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.services.runs import erasure as run_erasure
from strongroom.services.sessions import writes as session_writes
from strongroom.store import Commit, Erase, Key, Range, Receipt, Store, ask

CANARY = "canary-7f3a"
AT_ONCE = 3
COUNT = 14


class Killed(BaseException): ...


class Watched:
    """A store that notes how much each commit erases, does something before one of them, or kills its caller after."""

    def __init__(self, store: Any, *, kill: int = 0) -> None:
        self._store, self._kill = store, kill
        self.erased: list[int] = []
        self.before: Callable[[Commit], None] = lambda commit: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> Receipt:
        self.before(commit)
        receipt: Receipt = self._store.commit(commit)
        self.erased.append(sum(write.stop - write.start for write in commit.writes if isinstance(write, Erase)))
        if len(self.erased) == self._kill:
            raise Killed
        return receipt


@contextmanager
def over(store: Any, space: str = "default") -> Iterator[strongroom.Context]:
    yield strongroom.Context(AsyncContext(Scope(Inline(cast("Store", store)), space)))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_writes, "DELETED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(run_erasure, "MAX_TOMBSTONES", AT_ONCE)


def talked(ctx: strongroom.Context) -> strongroom.Session:
    """Return a session in which every other message has an id of its own, and some were hidden."""
    session = ctx.sessions.open("s")
    said: list[Any] = [{"role": "user", "content": CANARY, **({"id": f"m{n}"} if n % 2 else {})} for n in range(COUNT)]
    session.append(said)
    session.truncate_from("m11")
    session.append({"role": "user", "content": "stays", "id": "last"})
    return session


def canaries(ctx: strongroom.Context, kind: str, id: str) -> int:
    part = ask(ctx.store, Range(Key(ctx.space, kind, id)))
    return sum(CANARY in str(record.body) for record in part.records)


def test_no_commit_erases_more_messages_than_others_can_wait_for(store: Store) -> None:
    watched = Watched(store)
    with over(watched) as ctx:
        session = talked(ctx)
        watched.erased.clear()
        assert (session.erase(before="last").messages, canaries(ctx, "message", "s")) == (COUNT, 0)
    assert (max(watched.erased), sum(watched.erased)) == (AT_ONCE, COUNT)


@pytest.mark.parametrize("commit_id", [None, "erase-7"])
def test_an_erasure_of_messages_that_is_killed_after_any_commit_is_finished_by_a_repeat(
    store: Store, commit_id: str | None
) -> None:
    for kill in range(1, 20):
        with over(store, f"kill-{kill}") as ctx, over(Watched(store, kill=kill), f"kill-{kill}") as dying:
            session = talked(ctx)
            try:
                dying.sessions.get("s").erase(["m3", "m5"], before="last", commit_id=commit_id)
            except Killed:
                shown = [message["content"] for message in session.load()]
                assert shown == ["stays"]
            else:
                assert kill > 5
                return
            told = session.erase(before="last") if commit_id is None else None
            told = told or session.erase(["m3", "m5"], before="last", commit_id=commit_id)
            assert (told.messages, told.complete) == (COUNT, True)
            assert canaries(ctx, "message", "s") == 0
            session.restore()
            assert [message["content"] for message in session.load()] == ["stays"]
            session.append([{"role": "user", "content": "new", "id": f"m{n}"} for n in range(1, COUNT, 2)])
    raise AssertionError("it never came to its end")


def test_an_id_that_is_used_again_while_its_message_is_erased_stays_with_the_new_one() -> None:
    watched = Watched(MemoryStore())
    with over(watched) as ctx:
        session = talked(ctx)

        def use_again(commit: Commit) -> None:
            if any(isinstance(write, Erase) and write.stop for write in commit.writes):
                watched.before = lambda commit: None
                ctx.sessions.get("s").append({"role": "user", "content": "new", "id": "m1"})

        watched.before = use_again
        session.erase(before="last")
        assert session.get("m1")["content"] == "new"


def worked(ctx: strongroom.Context, user_id: str | None = None) -> strongroom.Run:
    run = ctx.runs.create(objective=CANARY, run_id="r", user_id=user_id)
    for n in range(COUNT):
        run.record("TOOL_RESULT", {"tool_name": "t", "ok": True, "result": CANARY})
        if n % 5 == 0:
            run.update(next_action=f"{CANARY} {n}")
    run.attach(CANARY.encode(), type="note", path="a.txt")
    run.milestone(CANARY)
    return run


def test_no_commit_erases_more_events_than_others_can_wait_for(store: Store) -> None:
    watched = Watched(store)
    with over(watched) as ctx:
        run = worked(ctx)
        length = run.head().length
        watched.erased.clear()
        told = ctx.runs.erase("r", reason="asked to")
        assert (told.events, told.episodes, told.artifacts) == (length, 1, 1)
        assert told.sequence_id == run.head().length
        assert canaries(ctx, "ledger", "r") == 0
    assert (max(watched.erased), sum(watched.erased)) == (AT_ONCE, length)


@pytest.mark.parametrize("whose", [None, "ana"])
def test_an_erasure_of_a_run_that_is_killed_after_any_commit_verifies_and_is_finished_by_a_repeat(
    store: Store, whose: str | None
) -> None:
    def erase(ctx: strongroom.Context) -> Any:
        return ctx.runs.erase("r", reason="asked to") if whose is None else ctx.erase(user_id=whose)

    for kill in range(1, 40):
        with over(store, f"kill-{kill}") as ctx, over(Watched(store, kill=kill), f"kill-{kill}") as dying:
            kept = worked(ctx, whose).head()
            try:
                erase(dying)
            except Killed:
                run = ctx.runs.get("r")
                assert run.verify(head=kept).ok
            else:
                assert kill > 5
                return
            assert erase(ctx).complete
            assert canaries(ctx, "ledger", "r") == 0
            assert (run.verify(head=kept).ok, ctx.runs.get("r").working_set.objective) == (True, "(erased)")
    raise AssertionError("it never came to its end")


def test_a_version_that_a_killed_erasure_left_can_still_be_reached() -> None:
    store = MemoryStore()
    with over(store) as ctx, over(Watched(store, kill=3)) as dying:
        run = worked(ctx)
        with pytest.raises(Killed):
            dying.runs.erase("r", reason="asked to")
        assert run.at(1).next_action == f"{CANARY} 0"
