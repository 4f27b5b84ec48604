"""A deleted session: gone at once, also if the deletion was killed, and nothing to its successor."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, Conflict, NotFound, Unavailable
from strongroom.scope import Scope
from strongroom.services.sessions import erasure
from strongroom.services.sessions import writes as session_writes
from strongroom.store import Answer, AnyQuestion, Commit, Key, Range, Receipt, Scan, Slice
from strongroom.tokens import Custom
from tests.services.test_sessions import HELLO, contents, named, said


async def test_a_deleted_session_is_gone_and_can_be_opened_anew(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{"role": "system", "content": "old", "id": "a", "priority": 5}])
    old = await session.append(said("b"))
    await session.delete()
    with pytest.raises(NotFound):
        await session.append(HELLO)
    with pytest.raises(NotFound):
        await session.load()
    with pytest.raises(NotFound):
        await ctx.sessions.get("s")
    fresh = await ctx.sessions.open("s")
    assert await fresh.load() == []
    new = await fresh.append([{"role": "system", "content": "new", "id": "a"}, *said("c")])
    assert await contents(fresh) == ["new", "c"]
    assert new[1].id != old[0].id
    assert (await fresh.get("a"))["content"] == "new"
    window = await fresh.window(max_tokens=100)
    assert [message["content"] for message in window.messages] == ["new", "c"]


class Killed(Exception):
    pass


async def half_deleted(ctx: Any, monkeypatch: pytest.MonkeyPatch, commit_id: str | None = None) -> Any:
    """Delete a session of ten messages, three at a time, and die after the first step; return its handle."""
    monkeypatch.setattr(session_writes, "DELETED_AT_ONCE", 3)
    session = await ctx.sessions.open("s", user_id="ana")
    await session.append([{**HELLO, "id": f"m{n}"} for n in range(10)])

    async def die(*_: Any) -> None:
        raise Killed

    # A server that dies leaves its caller in doubt.
    with monkeypatch.context() as patch, pytest.raises((Killed, CommitUnknown)):
        patch.setattr(erasure, "_rest", die)
        await session.delete(commit_id=commit_id)
    return session


async def test_a_deletion_that_fails_half_way_says_that_part_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(MemoryStore):
        commits = 0

        def commit(self, commit: Commit) -> Receipt:
            self.commits += 1
            if self.commits == 4:  # the second of those that the deletion makes
                raise Unavailable("the disk is full; nothing changed", reason="disk_full")
            return super().commit(commit)

    ctx: Any = AsyncContext(Scope(Inline(Failing())))
    monkeypatch.setattr(session_writes, "DELETED_AT_ONCE", 3)
    session = await ctx.sessions.open("s", user_id="ana")
    await session.append([HELLO] * 10)
    with pytest.raises(Unavailable, match=r"^the disk is full; part of it is done, and a repeat goes on$"):
        await session.delete()
    await session.delete()
    assert await stored(ctx) == 0


async def stored(ctx: Any) -> int:
    """Return how many records there are of session s, seen or not."""
    found = ctx.store.read([Range(Key("default", "message", "s"))])
    [part] = await found if inspect.isawaitable(found) else found
    return len(part.records)


async def rests(ctx: Any) -> tuple[Any, ...]:
    """Return what deletions have still to do."""
    found = ctx.store.read([Scan("default", "session_rest")])
    [part] = await found if inspect.isawaitable(found) else found
    documents: tuple[Any, ...] = part.documents
    return documents


async def test_a_long_session_is_gone_at_once_and_its_messages_before_delete_returns(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_writes, "DELETED_AT_ONCE", 3)
    session = await ctx.sessions.open("s")
    await session.append([HELLO] * 10)
    await session.delete()
    assert await stored(ctx) == 0


async def test_what_a_killed_deletion_left_is_not_seen_by_a_successor(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await half_deleted(ctx, monkeypatch)
    assert await stored(ctx) == 7
    successor = await ctx.sessions.open("s")
    assert await successor.load() == []
    await successor.append([{**HELLO, "content": "new", "id": "m5"}])
    assert await contents(successor) == ["new"]
    assert (await successor.get("m5"))["content"] == "new"
    assert (await successor.info()).messages == 1
    await successor.delete()
    assert await stored(ctx) == 0


async def test_a_killed_deletion_is_finished_by_deleting_once_more(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await half_deleted(ctx, monkeypatch)
    await session.delete()
    assert await stored(ctx) == 0
    with pytest.raises(NotFound):
        await session.delete()
    with pytest.raises(NotFound, match="no session 's'; nothing changed"):
        await ctx.sessions.delete("s")


async def test_a_killed_deletion_is_finished_by_whoever_deletes_next(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await half_deleted(ctx, monkeypatch)
    await ctx.sessions.open("other", user_id="ben")
    assert await stored(ctx) == 4  # whoever creates one goes on a little
    await ctx.sessions.open("other")
    assert await stored(ctx) == 4
    await ctx.sessions.delete("other")
    assert await stored(ctx) == 0
    assert await rests(ctx) == ()


async def test_whoever_creates_sessions_finishes_a_killed_deletion_too(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await half_deleted(ctx, monkeypatch)
    for _ in range(4):
        await ctx.sessions.open()
    assert await stored(ctx) == 0
    assert await rests(ctx) == ()


async def test_what_a_killed_deletion_left_goes_with_its_owner(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await half_deleted(ctx, monkeypatch)
    assert (await ctx.erase(user_id="ana", by="ben")).messages == 7
    assert await stored(ctx) == 0
    assert await rests(ctx) == ()


async def test_a_session_deleted_twice_leaves_nothing_though_both_were_killed(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await half_deleted(ctx, monkeypatch)
    await half_deleted(ctx, monkeypatch)
    (await ctx.sessions.open("other"), await ctx.sessions.delete("other"))
    assert await stored(ctx) == 0
    assert await rests(ctx) == ()


async def test_what_a_killed_deletion_left_is_erased_with_the_whole_session(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await half_deleted(ctx, monkeypatch)
    assert (await session.erase(all=True)).messages == 7
    assert await stored(ctx) == 0


async def test_a_killed_deletion_repeated_by_its_id_is_finished_and_spares_a_successor(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await half_deleted(ctx, monkeypatch, "bye")
    successor = await ctx.sessions.open("s")
    await successor.append(said("new"))
    await ctx.sessions.delete("s", commit_id="bye")
    assert await stored(ctx) == 1
    assert await contents(successor) == ["new"]


async def test_what_a_handle_of_a_deleted_session_names_is_counted_anew_by_a_successor(ctx: Any) -> None:
    old = await ctx.sessions.open("s", tokenizer=Custom(lambda text: text[:1], name="one-each"))
    await ctx.sessions.delete("s")
    successor = await ctx.sessions.open("s")
    told = await old.append({**HELLO, "id": "late", "content": "word " * 200})
    assert (await successor.get("late")).tokens > 100 > told[0].tokens


async def test_an_id_of_a_session_that_was_deleted_says_nothing_about_the_next_of_its_name(ctx: Any) -> None:
    first = await ctx.sessions.open("q")
    await first.append({"role": "user", "content": "hello"}, commit_id="turn-1")
    await first.delete()
    again = await ctx.sessions.open("q")
    await again.append({"role": "user", "content": "hello"}, commit_id="turn-1")
    assert [message["content"] for message in await again.load()] == ["hello"]


def test_ids_of_a_session_that_was_deleted_cost_its_successor_nothing() -> None:
    with strongroom.open("memory://") as ctx:
        plain, seen = ctx.store.read, 0

        def counted(questions: Sequence[AnyQuestion]) -> list[Answer]:
            nonlocal seen
            answers = plain(questions)
            seen += sum(len(answer.records) for answer in answers if isinstance(answer, Slice))
            return answers

        ctx.store.read = counted  # type: ignore[method-assign]
        for _ in range(2):
            chat, seen = ctx.sessions.open("chat"), 0
            for number in range(20):
                chat.append(named(f"m{number}"))
            assert seen == 0
            assert chat.get("m7").index % 20 == 7
            chat.delete()


def test_an_id_is_in_use_although_the_session_was_deleted_and_opened_while_its_message_was_on_its_way() -> None:
    with strongroom.open("memory://") as ctx:
        chat, plain = ctx.sessions.open("chat"), ctx.store.commit

        def meanwhile(commit: Commit) -> Receipt:
            ctx.store.commit = plain  # type: ignore[method-assign]
            chat.append(said("a", "b"))
            chat.delete()
            ctx.sessions.open("chat")
            return plain(commit)

        ctx.store.commit = meanwhile  # type: ignore[method-assign]
        chat.append(named("mine"))
        assert chat.get("mine")["content"] == "Hello!"
        with pytest.raises(Conflict):
            chat.append(named("mine"))
