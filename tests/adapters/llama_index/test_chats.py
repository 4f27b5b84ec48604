"""StrongroomChatStore: the same answers as LlamaIndex's own store, and what a store adds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import strongroom
from strongroom import Conflict, InvalidInput
from strongroom.adapters.llama_index import StrongroomChatStore, chats
from strongroom.services.sessions import session
from tests.adapters.processes import TURNS, both, lines_of, started

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
PICTURE = ImageBlock(image=b"\x89PNG", image_mimetype="image/png")
CALL = ToolCallBlock(tool_name="f", tool_kwargs={"n": 2**70})
MESSAGES = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", blocks=[TextBlock(text="Look:"), PICTURE]),
    ChatMessage(
        role="assistant",
        blocks=[ThinkingBlock(content="hm"), TextBlock(text="A cat."), CALL],
        additional_kwargs={"session_id": "7", "deep": [{"a": None}]},
    ),
    ChatMessage(role="tool", content="zwölf \0", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="user", content="lone \ud800"),
    ChatMessage(role="chatbot", content=None),
]  # fmt: skip


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


@pytest.fixture
def store(address: str) -> Iterator[StrongroomChatStore]:
    with StrongroomChatStore(address) as made:
        yield made


@pytest.fixture
def everywhere(every_address: str) -> Iterator[StrongroomChatStore]:
    with StrongroomChatStore(every_address) as made:
        yield made


async def said(store: AsyncDBChatStore, key: str, status: MessageStatus | None = ACTIVE) -> list[str | None]:
    return [one.content for one in await store.get_messages(key, status)]


async def test_messages_come_back_exactly_and_in_order(everywhere: StrongroomChatStore) -> None:
    await everywhere.add_messages("k", MESSAGES)
    found = await everywhere.get_messages("k")
    assert found == MESSAGES
    assert [one.model_dump() for one in found] == [one.model_dump() for one in MESSAGES]


async def steps(store: AsyncDBChatStore, seed: int) -> list[Any]:
    """Do random things, and return what was told."""
    dice, told = random.Random(seed), list[Any]()
    for number in range(40):
        key, n, status = dice.choice("ab"), dice.randint(0, 3), dice.choice([ACTIVE, ACTIVE, ARCHIVED])
        new = [user(f"{number}.{place}") for place in range(1, n + 1)]
        match dice.randint(0, 9):
            case 0 | 1 | 2:
                await store.add_message(key, user(f"{number}"), status)
            case 3 | 4 if new:
                await store.add_messages(key, new, status)
            case 5:
                told.append([one.content for one in await store.archive_oldest_messages(key, n)])
            case 6:
                told.append([one.content for one in await store.delete_oldest_messages(key, n)])
            case 7 if dice.random() < 0.3:
                await store.set_messages(key, new, status)
            case 8 if dice.random() < 0.3:
                await store.delete_messages(key, dice.choice([None, ACTIVE, ARCHIVED]))
        for one in (ACTIVE, ARCHIVED, None):
            told += [await said(store, key, one), await store.count_messages(key, one)]
        told.append([one.content for one in await store.get_messages(key, None, limit=n, offset=1)])
        told.append(sorted(await store.get_keys()))
    return told


@pytest.mark.parametrize("seed", range(3))
async def test_random_steps_are_answered_as_by_the_frameworks_own_store(
    everywhere: StrongroomChatStore, seed: int
) -> None:
    theirs = SQLAlchemyChatStore(table_name="messages")
    assert await steps(everywhere, seed) == await steps(theirs, seed)
    engine = theirs._async_engine
    assert engine is not None
    await engine.dispose()


async def test_a_message_is_deleted_by_its_index_once(store: StrongroomChatStore) -> None:
    await store.add_messages("k", [user("one"), user("two")])
    [_, two] = store.opened.ctx.sessions.get("llama_index/k").load()
    assert (await store.delete_message("k", two.index)) == user("two")
    assert await store.delete_message("k", two.index) is None and await store.delete_message("none", 0) is None
    assert await said(store, "k") == ["one"]


async def test_a_limit_below_nothing_is_refused(store: StrongroomChatStore) -> None:
    with pytest.raises(InvalidInput):
        await store.get_messages("k", limit=-1)


async def test_two_who_archive_at_once_archive_different_messages(store: StrongroomChatStore) -> None:
    await store.add_messages("k", [user(str(number)) for number in range(10)])
    told = await asyncio.gather(*[store.archive_oldest_messages("k", 1) for _ in range(6)])
    assert sorted(str(one.content) for part in told for one in part) == [str(number) for number in range(6)]
    assert await said(store, "k") == ["6", "7", "8", "9"]


async def test_two_who_delete_at_once_delete_different_messages(store: StrongroomChatStore) -> None:
    await store.add_messages("k", [user(str(number)) for number in range(6)])
    told = await asyncio.gather(*[store.delete_oldest_messages("k", 1) for _ in range(4)])
    assert sorted(str(one.content) for part in told for one in part) == ["0", "1", "2", "3"]


async def test_archived_messages_can_still_be_found_and_deleted_ones_cannot(store: StrongroomChatStore) -> None:
    await store.add_messages("k", [user("My scraper gets HTTP 429."), user("My password is swordfish.")])
    await store.archive_oldest_messages("k", 1)
    session = store.opened.ctx.sessions.get("llama_index/k")
    assert session.search("scraper", k=1)[0].message.content == "My scraper gets HTTP 429."
    await store.delete_oldest_messages("k", 1)
    assert session.search("swordfish", k=1) == []
    assert session.window(max_tokens=1000).total_tokens > 0


async def test_what_others_say_in_the_session_is_seen(store: StrongroomChatStore) -> None:
    await store.add_message("k", user("one"))
    store.opened.ctx.sessions.get("llama_index/k").append([{"role": "assistant", "content": "two"}])
    assert await store.get_messages("k") == [user("one"), ChatMessage(role="assistant", content="two")]


def test_two_processes_add_to_one_memory(address: str) -> None:
    both("chat", address)
    with StrongroomChatStore(address) as store:
        kept = [str(one.content) for one in asyncio.run(store.get_messages("s", None))]
    assert len(kept) == 2 * TURNS and set(kept) == lines_of()


def test_the_frameworks_own_store_keeps_what_it_acknowledged_in_the_same_test(tmp_path: Path) -> None:
    # Its table has to be there before two processes come, and a process that waits too long for the other one fails.
    address = f"sqlite+aiosqlite:///{tmp_path / 'theirs.db'}"
    theirs = SQLAlchemyChatStore(table_name="messages", async_database_uri=address)

    async def count() -> int:
        found: int = await theirs.count_messages("s", None)
        engine = theirs._async_engine
        assert engine is not None
        await engine.dispose()
        return found

    assert asyncio.run(count()) == 0
    file = str(tmp_path / "theirs.db")
    running = [started("their_chat", file, name, TURNS) for name in ("one", "two")]
    told = sum(len(process.communicate(timeout=600)[0].split()) for process in running)
    assert told <= asyncio.run(count()) <= 2 * TURNS


async def test_messages_are_erased_with_their_user_and_the_next_ones_are_the_same_users() -> None:
    with strongroom.open("memory://") as ctx:
        store = StrongroomChatStore(ctx, user_id="ana")
        for _ in range(2):
            await store.add_messages("k", [user("I am Ana"), user("again")])
            await store.archive_oldest_messages("k", 1)
            assert ctx.erase(user_id="ana").sessions == 1
            assert await store.get_messages("k", None) == []


async def test_the_messages_of_somebody_else_are_refused() -> None:
    with strongroom.open("memory://") as ctx:
        eve, bob = (StrongroomChatStore(ctx, user_id=name) for name in ("eve", "bob"))
        await eve.add_message("k", user("private"))
        for call in (
            bob.get_messages("k"),
            bob.count_messages("k"),
            bob.add_message("k", user("mine")),
            bob.set_messages("k", []),
            bob.archive_oldest_messages("k", 1),
            bob.delete_oldest_messages("k", 1),
            bob.delete_message("k", 0),
            bob.delete_messages("k"),
            bob.delete_messages("k", ACTIVE),
        ):
            with pytest.raises(Conflict, match="of another user"):
                await call
        assert [one.content for one in await eve.get_messages("k")] == ["private"]


async def test_the_keys_of_somebody_else_are_not_listed() -> None:
    with strongroom.open("memory://") as ctx:
        for name, key in (("eve", "of eve"), ("bob", "of bob"), (None, "of nobody")):
            await StrongroomChatStore(ctx, user_id=name).add_message(key, user("hello"))
        assert sorted(await StrongroomChatStore(ctx, user_id="bob").get_keys()) == ["of bob", "of nobody"]
        assert sorted(await StrongroomChatStore(ctx).get_keys()) == ["of bob", "of eve", "of nobody"]


async def test_more_messages_are_erased_than_one_call_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "PAGE", 2)
    monkeypatch.setattr(session, "DELETED_AT_ONCE", 2)
    with strongroom.open("memory://") as ctx:
        store = StrongroomChatStore(ctx)
        await store.add_messages("k", [user(str(number)) for number in range(5)])
        await store.delete_messages("k", ACTIVE)
        assert await said(store, "k", None) == []
