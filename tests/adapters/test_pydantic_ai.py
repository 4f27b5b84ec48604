"""StrongroomConversationStore under Pydantic AI: the rules of its contract, its own agent, and what a store adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

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

ATTACHED = BinaryContent(b"\0\xff", media_type="application/pdf")
MESSAGES: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart(["Look:", ATTACHED])]),
    ModelResponse(
        parts=[ThinkingPart("hm", signature="s"), TextPart("A cat."), ToolCallPart("f", {"n": 2**70, "x": 1.0}, "c1")],
        usage=RequestUsage(input_tokens=3, details={"cached": 1}),
        model_name="m",
        provider_details={"deep": [{"a": None}]},
    ),
    ModelRequest(
        parts=[ToolReturnPart("f", {"rows": [1, "zwölf"]}, "c1"), ToolReturnPart("g", "no", "c2", outcome="failed")]
    ),
    ModelResponse(parts=[TextPart("zero \0 in it")]),
]  # fmt: skip


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def talk(id: str, *messages: ModelMessage) -> Conversation:
    return Conversation(conversation_id=id, messages=list(messages))


def texts(store: StrongroomConversationStore, id: str) -> list[str]:
    return [str(one.content) for one in store.opened.ctx.sessions.get(f"pydantic_ai/{id}").load()]


async def loaded(store: ConversationStore, id: str, **more: Any) -> Conversation:
    found = await store.load(id, **more)
    assert found is not None
    return found


async def said(store: ConversationStore, id: str) -> list[ModelMessage]:
    return list((await loaded(store, id)).messages)


@pytest.fixture
def store(address: str) -> Iterator[StrongroomConversationStore]:
    with StrongroomConversationStore(address) as made:
        yield made


@pytest.fixture
def everywhere(every_context: strongroom.Context) -> StrongroomConversationStore:
    return StrongroomConversationStore(every_context)


async def test_messages_come_back_exactly(everywhere: StrongroomConversationStore) -> None:
    await everywhere.save(talk("c", *MESSAGES))
    assert await said(everywhere, "c") == MESSAGES


# ---- revisions ------------------------------------------------------------------------------------------------------


async def test_whoever_saves_an_old_copy_is_refused_and_nothing_changes(
    everywhere: StrongroomConversationStore,
) -> None:
    await everywhere.save(talk("c", *MESSAGES[:2]))
    first, second = await loaded(everywhere, "c"), await loaded(everywhere, "c")
    first.messages.append(MESSAGES[2])
    await everywhere.save(first)
    second.messages.append(asked("late"))
    with pytest.raises(ConversationConflict):
        await everywhere.save(second)
    assert await said(everywhere, "c") == MESSAGES[:3]


async def test_a_conversation_that_is_there_is_not_created_again(store: StrongroomConversationStore) -> None:
    await store.save(talk("c", MESSAGES[0]))
    with pytest.raises(ConversationConflict):
        await store.save(talk("c", MESSAGES[0]))


async def test_a_head_that_nobody_has_is_a_conflict(store: StrongroomConversationStore) -> None:
    with pytest.raises(ConversationConflict):
        await store.write_record(ConversationRecord(conversation_id="c", head_id="gone"), expected_revision=None)
    assert await store.read_record("c") is None


async def test_a_copy_from_before_a_deletion_is_refused(store: StrongroomConversationStore) -> None:
    await store.save(talk("c", MESSAGES[0]))
    old = await loaded(store, "c")
    await store.delete("c")
    await store.save(talk("c", MESSAGES[0]))
    with pytest.raises(ConversationConflict):
        await store.save(old)
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision="another")


# ---- entries --------------------------------------------------------------------------------------------------------


async def test_an_entry_is_stored_once_however_often_its_conversation_is_saved(
    everywhere: StrongroomConversationStore,
) -> None:
    conversation = talk("c")
    stored = []
    for message in MESSAGES:
        conversation.messages.append(message)
        stored += await everywhere.save(conversation)
        assert await everywhere.save(conversation) == []
    assert [entry.message for entry in stored] == MESSAGES
    assert await everywhere.load_entries("c") == stored
    assert everywhere.opened.ctx.sessions.get("pydantic_ai/c").info().messages == len(MESSAGES)


async def test_an_entry_is_found_by_its_id_and_is_missing_otherwise(store: StrongroomConversationStore) -> None:
    [entry] = await store.save(talk("c", MESSAGES[1]))
    assert await store.read_entry(entry.id) == entry
    with pytest.raises(LookupError):
        await store.read_entry("none")


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
async def test_a_limit_is_of_the_newest_and_saving_goes_on(store: StrongroomConversationStore, limit: int) -> None:
    await store.save(talk("c", *MESSAGES))
    window = await loaded(store, "c", limit=limit)
    assert list(window.messages) == (MESSAGES[-limit:] if limit else [])
    newest = asked("and on")
    window.messages.append(newest)
    await store.save(window)
    assert await said(store, "c") == [*MESSAGES, newest]


async def test_a_history_longer_than_a_page_is_whole(store: StrongroomConversationStore) -> None:
    many = [asked(f"number {number}") for number in range(1201)]
    await store.save(talk("c", *many))
    assert await said(store, "c") == many
    assert await said_last(store, 700) == many[-700:]
    await store.delete("c")
    assert await store.load("c") is None


async def said_last(store: ConversationStore, limit: int) -> list[ModelMessage]:
    return list((await loaded(store, "c", limit=limit)).messages)


# ---- branches and forks: the same answers as the framework's own store ----------------------------------------------


async def story(store: ConversationStore) -> list[Any]:
    """Do a bit of everything and return what was told."""
    told: list[Any] = []
    first = talk("a", asked("one"), asked("two"), asked("three"))
    entries = await store.save(first, scope="ana")
    places = {entry.id: place for place, entry in enumerate(entries)}
    branched = await store.branch("a", at=1, expected_revision=first.revision or "")
    branched.messages.append(asked("two again"))
    [left] = await store.save(branched)
    places[left.id] = 3
    told.append(words(await said(store, "a")))
    record = await store.read_record("a")
    assert record is not None
    told += [[places[tip] for tip in record.branches], record.scope, record.head_id == left.id]
    back = await store.branch("a", from_entry=entries[2].id, expected_revision=branched.revision or "")
    told.append(words(list(back.messages)))
    fork = await store.fork("a", at=2, new_conversation_id="b", scope="bob")
    fork.messages.append(asked("three of a fork"))
    await store.save(fork)
    told += [words(await said(store, "b")), words(await said(store, "a"))]
    told.append([places.get(entry.id, "new") for entry in await store.load_entries("b") or []])
    whole = await store.fork("b", new_conversation_id="c")
    told.append(words(list(whole.messages)))
    rewritten = Conversation(conversation_id="c", messages=[asked("summary"), asked("four")], revision=whole.revision)
    await store.save(rewritten)
    told.append(words(await said(store, "c")))
    told.append([one.conversation_id for one in await store.list_conversations()])
    told.append([one.conversation_id for one in await store.list_conversations(scope="bob", limit=1)])
    told += [await store.load("a", scope="bob"), await store.load_entries("none")]
    try:
        await store.fork("a", new_conversation_id="b")
    except ConversationConflict as problem:
        told.append(problem.conversation_id)
    await store.delete("a", scope="bob")
    told.append((await store.read_record("a")) is not None)
    await store.delete("a")
    told += [await store.load("a"), words(await said(store, "b")), words(await said(store, "c"))]
    for id in (entries[0].id, entries[2].id, left.id):
        try:
            told.append(words([(await store.read_entry(id)).message]))
        except LookupError:
            told.append("gone")
    return told


def words(messages: list[ModelMessage]) -> list[Any]:
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


async def test_branches_forks_and_deletions_answer_as_the_frameworks_own_store(
    everywhere: StrongroomConversationStore,
) -> None:
    assert await story(everywhere) == await story(InMemoryConversationStore())


async def test_the_session_shows_the_history_of_the_head(store: StrongroomConversationStore) -> None:
    first = talk("a", asked("one"), asked("two"))
    entries = await store.save(first)
    branched = await store.branch("a", at=1, expected_revision=first.revision or "")
    assert texts(store, "a") == ["one"]
    branched.messages.append(asked("other"))
    await store.save(branched)
    assert texts(store, "a") == ["one", "other"]
    await store.branch("a", from_entry=entries[1].id, expected_revision=branched.revision or "")
    assert texts(store, "a") == ["one", "two"]
    await store.fork("a", new_conversation_id="b")
    assert texts(store, "b") == ["one", "two"]


async def test_a_fork_of_what_is_deleted_meanwhile_is_refused_or_whole(store: StrongroomConversationStore) -> None:
    await store.save(talk("a", *MESSAGES))
    results = await asyncio.gather(store.fork("a", new_conversation_id="b"), store.delete("a"), return_exceptions=True)
    if isinstance(results[0], BaseException):
        assert await store.load("b") is None
    else:
        assert await said(store, "b") == MESSAGES
    assert await store.load("a") is None


# ---- what a store adds ----------------------------------------------------------------------------------------------


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


async def test_any_id_names_a_conversation(store: StrongroomConversationStore) -> None:
    for number, id in enumerate(["", "a/b", "x" * 1000, "\n"]):
        await store.save(talk(id, asked(f"number {number}")))
    assert [words(await said(store, id)) for id in ["", "a/b", "x" * 1000, "\n"]] == [
        [f"number {number}"] for number in range(4)
    ]


async def test_a_conversation_can_be_searched_and_put_into_a_window(store: StrongroomConversationStore) -> None:
    await store.save(talk("c", asked("My scraper gets HTTP 429."), *MESSAGES))
    session = store.opened.ctx.sessions.get("pydantic_ai/c")
    assert session.search("scraper", k=1)[0].message.content == "My scraper gets HTTP 429."
    assert [one.role for one in session.load()] == ["user", "user", "assistant", "tool", "assistant"]
    assert session.window(max_tokens=1000).total_tokens > 0


# ---- the framework's own agent --------------------------------------------------------------------------------------


async def test_an_agent_goes_on_with_what_was_stored(everywhere: StrongroomConversationStore) -> None:
    agent = Agent(TestModel(custom_output_text="three"))

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    for text in ("what is 1 + 2?", "and again?"):
        conversation = await everywhere.load("c") or Conversation(conversation_id="c")
        result = await agent.run(text, conversation=conversation)
        await everywhere.save(result)
    found = await loaded(everywhere, "c")
    assert found.usage == result.conversation.usage and found.messages == result.conversation.messages
    assert len(found.messages) == len(texts(everywhere, "c")) == 6


def test_blocking_code_uses_the_same_object_in_a_loop_of_its_own(store: StrongroomConversationStore) -> None:
    agent = Agent(TestModel(custom_output_text="hi"))
    for _ in range(2):

        async def turn() -> None:
            conversation = await store.load("c") or Conversation(conversation_id="c")
            await store.save(await agent.run("hello", conversation=conversation))

        asyncio.run(turn())
    assert len(texts(store, "c")) == 4


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
