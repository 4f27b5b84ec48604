"""ContextStore's memory backends by their own names."""

from __future__ import annotations

import asyncio
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from strongroom.compat.contextstore import InMemoryMemory, Interaction, MemoryBackend, SQLiteMemory
from strongroom.errors import Unavailable
from strongroom.store import Key, Range, Scan


@pytest.fixture(params=["in memory", "sqlite", "sqlite :memory:"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryBackend:
    if request.param == "in memory":
        return InMemoryMemory()
    return SQLiteMemory(str(tmp_path / "chat.db") if request.param == "sqlite" else ":memory:")


def said(history: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in history]


def chat(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


async def test_a_chat_message_comes_back_as_it_went_in(memory: MemoryBackend) -> None:
    await memory.save_context("s", [{"role": "user", "content": "Hello!"}])
    [message] = await memory.load_context("s")
    assert (message["role"], message["content"]) == ("user", "Hello!")
    assert set(message) == {"role", "content", "id", "timestamp"}


async def test_what_is_missing_is_filled_in(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("Hello!"))
    [message] = await memory.load_context("s")
    assert len(message["id"]) == 36
    assert datetime.fromisoformat(message["timestamp"]).tzinfo is not None


async def test_an_id_that_is_filled_in_is_a_uuid_of_its_own_at_every_load(memory: MemoryBackend) -> None:
    for session_id in ("one", "two"):
        await memory.save_context(session_id, chat("a", "b"))
        await memory.append_context(session_id, chat("c"))
    ids = [one["id"] for session_id in ("one", "two") for one in await memory.load_context(session_id)]
    assert [str(UUID(one)) for one in ids] == ids
    assert len(set(ids)) == 6
    assert [one["id"] for one in await memory.load_context("two", 2)] == ids[-2:]


async def test_an_id_that_is_filled_in_costs_no_document(memory: Any) -> None:
    await memory.save_context("s", chat("a"))
    await memory.append_context("s", chat("b"))
    [noted] = await memory._context().store.read([Scan("default", "mid")])
    assert noted.documents == ()


async def test_a_message_is_deleted_by_an_id_that_was_filled_in(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("a", "b", "c"))
    history = await memory.load_context("s")
    await memory.delete_interaction("s", history[1]["id"])
    assert said(await memory.load_context("s")) == ["a"]
    with pytest.raises(ValueError, match="not found"):
        await memory.delete_interaction("s", history[2]["id"])


async def test_an_id_that_was_filled_in_stays_with_its_message_when_the_history_is_edited(
    memory: MemoryBackend,
) -> None:
    await memory.save_context("s", chat("a", "b", "c"))
    a, _, c = await memory.load_context("s")
    await memory.save_context("s", [{**a, "content": "A"}, c])
    await memory.append_context("s", chat("d"))
    history = await memory.load_context("s")
    assert said(history) == ["A", "c", "d"]
    assert [one["id"] for one in history[:2]] == [a["id"], c["id"]]
    await memory.delete_interaction("s", c["id"])
    assert said(await memory.load_context("s")) == ["A"]


async def test_an_id_that_was_filled_in_is_taken(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("a"))
    [a] = await memory.load_context("s")
    with pytest.raises(ValueError, match="already"):
        await memory.append_context("s", [a])
    assert said(await memory.load_context("s")) == ["a"]


async def test_messages_copied_from_another_store_keep_their_ids_apart_from_new_ones(memory: MemoryBackend) -> None:
    other = InMemoryMemory()
    await other.save_context("s", chat("a", "b", "c"))
    copied = (await other.load_context("s"))[1:]
    await memory.save_context("s", copied)
    await memory.append_context("s", chat("d", "e"))
    history = await memory.load_context("s")
    assert history[:2] == copied
    assert len({one["id"] for one in history}) == 4


async def test_ids_times_and_metadata_that_were_given_are_kept(memory: MemoryBackend) -> None:
    given = {"id": "1", "content": {"text": "x"}, "metadata": {"n": 1}, "timestamp": "2024-01-01T00:00:00Z"}
    await memory.save_context("s", [given])
    assert await memory.load_context("s") == [given]


async def test_an_outer_name_and_the_same_inner_name_are_both_kept(memory: MemoryBackend) -> None:
    await memory.save_context("s", [{"role": "user", "content": {"role": "inner", "text": "x"}}])
    [message] = await memory.load_context("s")
    assert (message["role"], message["content"]) == ("user", {"role": "inner", "text": "x"})


async def test_something_that_is_no_mapping_is_kept_under_data(memory: MemoryBackend) -> None:
    await memory.save_context("s", ["just text", 7])  # type: ignore[list-item]
    assert said(await memory.load_context("s")) == [{"data": "just text"}, {"data": 7}]


async def test_a_mapping_that_is_no_message_becomes_the_content_of_one(memory: MemoryBackend) -> None:
    await memory.save_context("s", [{"event": "login", "id": "1"}])
    [message] = await memory.load_context("s")
    assert (message["id"], message["content"]) == ("1", {"event": "login"})


async def test_an_interaction_can_be_saved(memory: MemoryBackend) -> None:
    one = Interaction(content={"text": "x"})
    await memory.save_context("s", [one])  # type: ignore[list-item]
    assert await memory.load_context("s") == [one.to_dict()]


async def test_k_limits_to_the_newest(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("a", "b", "c"))
    assert said(await memory.load_context("s", k=2)) == ["b", "c"]
    assert said(await memory.load_context("s", k=9)) == ["a", "b", "c"]
    assert said(await memory.load_context("s", k=2**40)) == ["a", "b", "c"]
    assert await memory.load_context("s", k=0) == await memory.load_context("s", k=-1) == []


async def test_order_is_kept_over_appends(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("0"))
    for number in range(1, 6):
        await memory.append_context("s", chat(str(number)))
    assert said(await memory.load_context("s")) == [str(number) for number in range(6)]


async def test_saving_replaces(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("old", "older"))
    await memory.save_context("s", chat("new"))
    assert said(await memory.load_context("s")) == ["new"]


async def test_what_was_loaded_can_be_extended_and_saved_again(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("a"))
    history = await memory.load_context("s")
    await memory.save_context("s", [*history, *chat("b")])
    after = await memory.load_context("s")
    assert after[0] == history[0]
    assert said(after) == ["a", "b"]


async def test_saving_replaces_what_others_saved_meanwhile(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("a"))
    history = await memory.load_context("s")
    await memory.append_context("s", chat("appended"))
    await memory.save_context("s", [*history, *chat("mine")])
    assert said(await memory.load_context("s")) == ["a", "mine"]


async def test_saving_a_growing_history_stores_each_message_once(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "chat.db")
    for number in range(20):
        await memory.save_context("s", [*await memory.load_context("s"), *chat(str(number))])
    assert said(await memory.load_context("s")) == [str(number) for number in range(20)]
    stream = await memory._context().scope.get(Range(Key("default", "message", "s"), 0, 0))
    assert stream.length == 20


async def test_a_value_of_another_type_is_another_message(memory: MemoryBackend) -> None:
    await memory.save_context("s", [{"id": "1", "timestamp": "2024-01-01T00:00:00Z", "content": {"n": 1}}])
    await memory.save_context("s", [{"id": "1", "timestamp": "2024-01-01T00:00:00Z", "content": {"n": True}}])
    [message] = await memory.load_context("s")
    assert message["content"]["n"] is True


async def test_an_unknown_session_is_empty(memory: MemoryBackend) -> None:
    assert await memory.load_context("nobody") == []


async def test_appending_to_an_unknown_session_is_refused(memory: MemoryBackend) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        await memory.append_context("nobody", chat("x"))
    assert await memory.load_context("nobody") == []


async def test_deleting_removes_a_session_once(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("x"))
    await memory.delete_session("s")
    assert await memory.load_context("s") == []
    with pytest.raises(ValueError, match="does not exist"):
        await memory.delete_session("s")


async def test_deleting_an_interaction_removes_all_after_it(memory: MemoryBackend) -> None:
    await memory.save_context("s", [{"id": str(number), "content": str(number)} for number in range(4)])
    await memory.delete_interaction("s", "2")
    assert said(await memory.load_context("s")) == ["0", "1"]


async def test_deleting_an_unknown_interaction_is_refused(memory: MemoryBackend) -> None:
    await memory.save_context("s", chat("x"))
    with pytest.raises(ValueError, match="not found"):
        await memory.delete_interaction("s", "nothing")
    with pytest.raises(ValueError, match="does not exist"):
        await memory.delete_interaction("nobody", "nothing")
    assert said(await memory.load_context("s")) == ["x"]


async def test_readers_and_writers_hold_copies(memory: MemoryBackend) -> None:
    given = [{"id": "1", "content": {"list": [1]}}]
    await memory.save_context("s", given)
    given[0]["content"]["list"].append(2)  # type: ignore[index]
    loaded = await memory.load_context("s")
    loaded[0]["content"]["list"].append(3)
    loaded.clear()
    assert said(await memory.load_context("s")) == [{"list": [1]}]


async def test_fifty_concurrent_appends_are_all_kept(memory: MemoryBackend) -> None:
    await memory.save_context("s", [])
    await asyncio.gather(*(memory.append_context("s", chat(str(number))) for number in range(50)))
    assert sorted(said(await memory.load_context("s")), key=int) == [str(number) for number in range(50)]


async def test_concurrent_saves_of_a_new_session_leave_one_of_them(memory: MemoryBackend) -> None:
    await asyncio.gather(*(memory.save_context("s", chat(f"{number}a", f"{number}b")) for number in range(8)))
    first, second = said(await memory.load_context("s"))
    assert (first[0], first[1:], second[1:]) == (second[0], "a", "b")


@pytest.mark.parametrize("value", [datetime.now(UTC), float("nan"), object()])
async def test_what_is_not_json_is_refused_everywhere_and_changes_nothing(memory: MemoryBackend, value: object) -> None:
    await memory.save_context("s", chat("x"))
    with pytest.raises(ValueError, match=r"."):
        await memory.append_context("s", [{"content": {"value": value}}])
    assert said(await memory.load_context("s")) == ["x"]


async def test_a_session_is_not_made_for_what_cannot_be_saved(memory: MemoryBackend) -> None:
    with pytest.raises(ValueError, match=r"."):
        await memory.save_context("s", [{"content": object()}])
    with pytest.raises(ValueError, match="does not exist"):
        await memory.delete_session("s")


@pytest.mark.parametrize("ids", [[7], ["a", "a"], [""], ["taken"]])
async def test_an_id_that_is_none_or_taken_is_refused(memory: MemoryBackend, ids: list[Any]) -> None:
    await memory.save_context("s", [{"id": "taken", "content": "x"}])
    with pytest.raises(ValueError, match=r"id|message"):
        await memory.append_context("s", [{"id": one, "content": "y"} for one in ids])
    assert said(await memory.load_context("s")) == ["x"]


async def test_appending_and_loading_the_newest_read_no_more_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = InMemoryMemory()
    await memory.save_context("s", chat(*map(str, range(500))))
    store = memory._context().store
    read, seen = store.read, 0

    async def counting(questions: Any) -> list[Any]:
        nonlocal seen
        answers = await read(questions)
        seen += sum(len(getattr(answer, "records", ())) for answer in answers)
        return answers

    monkeypatch.setattr(store, "read", counting)
    await memory.append_context("s", chat("new"))
    assert seen == 0
    await memory.load_context("s", k=3)
    assert seen == 3


async def test_a_session_is_created_empty(memory: MemoryBackend) -> None:
    await memory.save_context("s", [])
    await memory.append_context("s", chat("x"))
    assert said(await memory.load_context("s")) == ["x"]


def test_one_object_serves_several_event_loops(memory: MemoryBackend) -> None:
    asyncio.run(memory.save_context("s", chat("a")))
    asyncio.run(memory.append_context("s", chat("b")))
    assert said(asyncio.run(memory.load_context("s"))) == ["a", "b"]


def test_a_file_is_seen_by_the_next_instance(tmp_path: Path) -> None:
    asyncio.run(SQLiteMemory(str(tmp_path / "chat.db")).save_context("s", chat("a")))
    assert said(asyncio.run(SQLiteMemory(tmp_path / "chat.db").load_context("s"))) == ["a"]


def test_a_short_message_takes_little_room_whatever_its_script(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "chat.db")
    asyncio.run(memory.save_context("s", chat("日本語")))
    memory.close()
    assert "日本語".encode() in (tmp_path / "chat.db").read_bytes()


def test_without_create_db_a_missing_file_is_not_made(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "chat.db", create_db=False)
    with pytest.raises(Unavailable, match="create_db"):
        asyncio.run(memory.load_context("s"))
    assert list(tmp_path.iterdir()) == []


def _append_many(path: str, name: str, count: int) -> None:
    async def work() -> None:
        memory = SQLiteMemory(path)
        for number in range(count):
            await memory.append_context("s", chat(f"{name}{number}"))

    asyncio.run(work())


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "chat.db")
    memory = SQLiteMemory(path)
    asyncio.run(memory.save_context("s", []))
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append_many, args=(path, name, 100)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = said(asyncio.run(memory.load_context("s")))
    assert [[one for one in found if one[0] == name] for name in "ab"] == [
        [f"{name}{number}" for number in range(100)] for name in "ab"
    ]


def test_an_object_made_before_a_fork_serves_both_processes(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "chat.db")
    assert (tmp_path / "chat.db").exists()

    def child() -> None:
        asyncio.run(memory.save_context("s", chat("child")))

    worker = multiprocessing.get_context("fork").Process(target=child)
    worker.start()
    worker.join()
    asyncio.run(memory.append_context("s", chat("parent")))
    assert said(asyncio.run(memory.load_context("s"))) == ["child", "parent"]


def test_an_interaction_makes_itself_whole() -> None:
    made = Interaction.from_dict({"role": "user", "content": "Hello", "metadata": {"n": 1}})
    assert made.content == {"data": "Hello", "role": "user"}
    assert made.metadata == {"n": 1}
    assert len(made.id) == 36
    assert "metadata" not in Interaction().to_dict()


def test_an_interaction_loses_no_name_that_is_given_twice() -> None:
    made = Interaction.from_dict({"role": "outer", "content": {"role": "inner"}})
    assert made.content == {"role": "outer", "data": {"role": "inner"}}
