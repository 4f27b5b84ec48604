"""A conversation of Pydantic AI that is deleted or erased: nothing is left, whoever is killed or saves meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord
from pydantic_ai.messages import ModelMessage

import strongroom
from strongroom import Conflict, NotFound
from strongroom.adapters.contexts import Opened
from strongroom.adapters.pydantic_ai import StrongroomConversationStore
from strongroom.codec import encode
from strongroom.scope import Scope
from strongroom.services.sessions import layouts, writes
from strongroom.services.sessions.erasure import delete
from strongroom.services.sessions.state import MESSAGE, REST, SESSION
from strongroom.store import AsyncStore, Commit, Delete, Key, Page, Put, Range, Scan, Slice, new_id
from strongroom.testing.explore import explore
from tests.adapters.test_pydantic_ai import MESSAGES, asked, loaded, said, talk


@pytest.fixture
def store(address: str) -> Iterator[StrongroomConversationStore]:
    with StrongroomConversationStore(address) as made:
        yield made


@pytest.fixture
def everywhere(every_context: strongroom.Context) -> StrongroomConversationStore:
    return StrongroomConversationStore(every_context)


async def test_a_deleted_conversation_leaves_nothing(store: StrongroomConversationStore) -> None:
    [entry] = await store.save(talk("c", MESSAGES[1]))
    await store.delete("c")
    with pytest.raises(LookupError):
        await store.read_entry(entry.id)
    with pytest.raises(NotFound):
        store.opened.ctx.sessions.get("pydantic_ai/c")


class Killed(BaseException):
    """A process died."""


async def broken_off(store: StrongroomConversationStore, monkeypatch: pytest.MonkeyPatch, commits: int) -> bool:
    """Delete a conversation and die after so many commits; tell whether there was time enough."""
    port, left = type(store.opened.awaitable.store), [True] * commits
    commit = port.commit

    async def dying(self: Any, given: Any) -> Any:
        if not left:
            raise Killed
        left.pop()
        return await commit(self, given)

    with monkeypatch.context() as patch:
        patch.setattr(port, "commit", dying)
        try:
            await store.delete("c")
        except Killed:
            return False
    return True


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 2)


LONG = [asked(f"canaria {number}") for number in range(7)]


@pytest.mark.usefixtures("short_steps")
async def test_a_deletion_that_broke_off_is_hidden_at_once_and_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StrongroomConversationStore(tmp_path / "agent.db") as store:
        entries = await store.save(talk("c", *LONG))
        assert not await broken_off(store, monkeypatch, commits=1)
        assert await store.load("c") is None and await store.list_conversations() == []
        for entry in entries:
            with pytest.raises(LookupError):
                await store.read_entry(entry.id)
        assert left_of(store.opened.ctx) == {MESSAGE, layouts.CONVERSATION_ENTRY, REST}
        await store.delete("c")
        assert left_of(store.opened.ctx) == set()


def left_of(ctx: strongroom.Context) -> set[str]:
    """Return what is still there of conversations, by its kind."""
    scans = [Scan(ctx.space, kind) for kind in (layouts.CONVERSATION, layouts.CONVERSATION_ENTRY, REST, SESSION)]
    said, *pages = ctx.store.read([Range(Key(ctx.space, MESSAGE, "pydantic_ai/c")), *scans])
    assert isinstance(said, Slice)
    found = {one.key.kind for page in pages if isinstance(page, Page) for one in page.documents}
    return found | ({MESSAGE} if said.records else set())


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("then", ["the person is erased", "the session is deleted", "it is deleted again", "others"])
async def test_what_a_deletion_left_that_was_killed_at_any_commit_is_found(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commits in range(1, 20):
        with strongroom.open("memory://") as ctx, StrongroomConversationStore(ctx) as store:
            await store.save(talk("c", *LONG), scope="ana")
            done = await broken_off(store, monkeypatch, commits)
            if then == "the person is erased":
                left = MESSAGE in left_of(ctx)
                told = ctx.erase(user_id="ana")
                assert (told.complete, told.found) == (True, left)
            elif then == "it is deleted again":
                await store.delete("c")
            elif then == "others":
                for number in range(len(LONG)):
                    ctx.sessions.open(f"s{number}")
                    ctx.sessions.delete(f"s{number}")
            elif left_of(ctx):
                ctx.sessions.delete("pydantic_ai/c")
            assert left_of(ctx) == set()
        if done:
            break
    assert done and commits > 3


@pytest.mark.usefixtures("short_steps")
async def test_a_fork_begun_anew_keeps_its_places_while_the_one_before_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with strongroom.open("memory://") as ctx, StrongroomConversationStore(ctx) as store:
        await store.save(talk("a", *LONG))
        await store.fork("a", new_conversation_id="c")
        assert not await broken_off(store, monkeypatch, commits=1)
        await store.fork("a", new_conversation_id="c")  # the same entries, at other places
        ctx.sessions.open("other")
        ctx.sessions.delete("other")  # whoever deletes a session finishes it
        assert await said(store, "c") == LONG
        assert len(await store.load_entries("c") or []) == len(LONG)


@pytest.mark.parametrize("erases", [False, True])
async def test_a_record_without_its_session_is_deleted_and_erased_by_its_name(erases: bool) -> None:
    with strongroom.open("memory://") as ctx, StrongroomConversationStore(ctx) as store:
        await store.save(talk("c", *LONG))
        session = ctx.sessions.get("pydantic_ai/c")
        nowhere = layouts.of_conversation(session.id)
        stray = Put(Key(ctx.space, layouts.CONVERSATION_ENTRY, "stray"), encode({"index": 99}), nowhere)
        ctx.store.commit(Commit(new_id(), (), (stray, Delete(Key(ctx.space, SESSION, session.id)))))
        if erases:
            assert session.erase(all=True).messages == len(LONG)
        else:
            session.delete()
        assert left_of(ctx) == set()
        with pytest.raises(NotFound):
            session.delete()


async def test_a_record_without_its_session_is_erased_with_its_owner() -> None:
    with strongroom.open("memory://") as ctx, StrongroomConversationStore(ctx) as store:
        await store.save(talk("c", *LONG), scope="ana")
        ctx.store.commit(Commit(new_id(), (), (Delete(Key(ctx.space, SESSION, "pydantic_ai/c")),)))
        assert ctx.erase(user_id="ana").found
        assert left_of(ctx) == set()


async def test_whoever_adds_to_a_conversation_that_is_deleted_loses_nothing(
    everywhere: StrongroomConversationStore,
) -> None:
    await everywhere.save(talk("c", MESSAGES[1]))
    seen = await loaded(everywhere, "c")
    seen.messages.append(MESSAGES[3])
    await everywhere.save(seen)
    stale = (await everywhere._stored("c")).record
    assert stale is not None
    with pytest.raises(Conflict):
        await delete(everywhere._scope, "pydantic_ai/c", None, stale.version - 1)
    assert await said(everywhere, "c") == [MESSAGES[1], MESSAGES[3]]


def over(store: AsyncStore) -> StrongroomConversationStore:
    made = StrongroomConversationStore.__new__(StrongroomConversationStore)
    made.opened = cast("Opened", SimpleNamespace(awaitable=Scope(store)))
    return made


@pytest.mark.usefixtures("short_steps")
def test_a_conversation_is_deleted_or_goes_on_whatever_else_is_saved_meanwhile() -> None:
    async def setup(store: AsyncStore) -> None:
        await over(store).save(talk("c", *LONG[:3]), scope="ana")

    async def deleting(store: AsyncStore) -> Any:
        record = await over(store).read_record("c")
        assert record is not None
        try:
            await over(store).delete_record("c", expected_revision=record.revision)
        except ConversationConflict as problem:
            return problem

    async def saying(store: AsyncStore) -> Any:
        there = await over(store).load("c") or talk("c")
        there.messages.append(LONG[6])
        try:
            await over(store).save(there, scope="ana")
        except ConversationConflict as problem:
            return problem

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        there, space = await over(store).load("c"), Scope(store)
        places = await space.get(Scan(space.space, layouts.CONVERSATION_ENTRY))
        messages = await space.get(Range(space.key(MESSAGE, "pydantic_ai/c")))
        assert len(places.documents) == len(messages.records) == (0 if there is None else len(there.messages))
        if there is not None:
            whole = [*LONG[:3], LONG[6]] if isinstance(results[0], ConversationConflict) else [LONG[6]]
            assert list(there.messages) == whole
        assert sum(isinstance(one, ConversationConflict) for one in results) < 2

    found = explore([deleting, saying], check, setup=setup, reads_in_order=True)
    assert found.failure is None, str(found.failure)
    assert found.schedules > 5


async def test_a_conversation_whose_session_was_deleted_begins_anew(store: StrongroomConversationStore) -> None:
    await store.save(talk("c", *MESSAGES))
    store.opened.ctx.sessions.delete("pydantic_ai/c")
    assert await store.load("c") is None and await store.list_conversations() == []
    await store.save(talk("c", MESSAGES[3]))
    assert await said(store, "c") == [MESSAGES[3]]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_an_erased_message_is_missing_and_the_rest_stays(store: StrongroomConversationStore, place: int) -> None:
    many: list[ModelMessage] = [asked("one"), asked("two"), asked("three")]
    entries = await store.save(talk("c", *many))
    session = store.opened.ctx.sessions.get("pydantic_ai/c")
    session.erase([session.load()[place].id])
    left = many[:place] + many[place + 1 :]
    assert await said(store, "c") == left
    with pytest.raises(LookupError):
        await store.read_entry(entries[place].id)
    fork = await store.fork("c", new_conversation_id="d")
    fork.messages.append(asked("four"))
    await store.save(fork)
    assert await said(store, "d") == [*left, *fork.messages[-1:]]


async def test_a_conversation_is_erased_with_the_user_that_is_its_scope() -> None:
    with strongroom.open("memory://") as ctx:
        store = StrongroomConversationStore(ctx)
        record = ConversationRecord(conversation_id="c", head_id=None, scope="ana", revision="1")
        await store.write_record(record, expected_revision=None)
        assert ctx.erase(user_id="ana").sessions == 1
        assert await store.read_record("c") is None and await store.read_records() == []
        left: Any = ctx.store
        kinds = {one.key.kind for one in left.unload(None, 1000).items if one.alive and not one.stream}
        assert not {kind for kind in kinds if kind.startswith("pydantic_ai")}
        with pytest.raises(ConversationConflict):
            await store.write_record(record, expected_revision="1")
