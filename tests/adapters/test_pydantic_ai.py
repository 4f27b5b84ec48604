"""StrongroomConversationStore under Pydantic AI: the rules of its contract, its own agent, and what a store adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

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
from strongroom.adapters.pydantic_ai import StrongroomConversationStore

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


async def test_a_conversation_is_not_begun_in_the_session_of_another_user(everywhere: Any) -> None:
    session = everywhere.opened.ctx.sessions.open("pydantic_ai/c", user_id="ana")
    with pytest.raises(ConversationConflict):
        await everywhere.save(talk("c", asked("a secret of Bob's")), scope="bob")
    assert session.load() == []
