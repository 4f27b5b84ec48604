"""Backends of the user's own: the fifteen documented methods, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer, get_context_buffer, reset_context_buffer
from strongroom.compat.xml_pipeline.memory.shared_backend import SharedBackend
from strongroom.compat.xml_pipeline.message_bus.thread_registry import ThreadRegistry
from strongroom.errors import InvalidInput
from strongroom.services.threads.payloads import Inert


@dataclass
class Text:
    message: str


class Mine:
    """What somebody wrote for the older system."""

    def __init__(self) -> None:
        self.threads: dict[str, list[bytes]] = {}
        self.chains: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def buffer_append(self, thread_id: str, slot_data: bytes) -> int:
        self.threads.setdefault(thread_id, []).append(slot_data)
        return len(self.threads[thread_id]) - 1

    def buffer_get_thread(self, thread_id: str) -> list[bytes]:
        return list(self.threads.get(thread_id, []))

    def buffer_get_slot(self, thread_id: str, index: int) -> bytes | None:
        slots = self.threads.get(thread_id, [])
        return slots[index] if index < len(slots) else None

    def buffer_thread_len(self, thread_id: str) -> int:
        return len(self.threads.get(thread_id, []))

    def buffer_thread_exists(self, thread_id: str) -> bool:
        return thread_id in self.threads

    def buffer_delete_thread(self, thread_id: str) -> bool:
        return self.threads.pop(thread_id, None) is not None

    def buffer_list_threads(self) -> list[str]:
        return list(self.threads)

    def buffer_clear(self) -> None:
        self.threads.clear()

    def registry_set(self, chain: str, uuid: str) -> None:
        self.ids[chain], self.chains[uuid] = uuid, chain

    def registry_get_uuid(self, chain: str) -> str | None:
        return self.ids.get(chain)

    def registry_get_chain(self, uuid: str) -> str | None:
        return self.chains.get(uuid)

    def registry_delete(self, uuid: str) -> bool:
        chain = self.chains.pop(uuid, None)
        return chain is not None and self.ids.pop(chain, None) is not None

    def registry_list_all(self) -> dict[str, str]:
        return dict(self.chains)

    def registry_clear(self) -> None:
        self.chains.clear()
        self.ids.clear()

    def close(self) -> None:
        pass


@pytest.fixture
def mine() -> Mine:
    return Mine()


@pytest.fixture
def buffer(mine: Mine) -> ContextBuffer:
    return ContextBuffer(backend=mine)


def test_it_is_a_shared_backend(mine: Mine, buffer: ContextBuffer) -> None:
    assert isinstance(mine, SharedBackend)
    assert buffer.is_shared


def test_messages_are_kept_as_bytes_and_come_back_as_themselves(mine: Mine, buffer: ContextBuffer) -> None:
    payload = Text("hello")
    slot = buffer.append("t", payload, "a", "b", own_name="b", is_self_call=True, todo_nudge="n")
    assert (slot.payload is payload, slot.index, len(mine.threads["t"])) == (True, 0, 1)
    thread = buffer.get_thread("t")
    assert thread is not None
    assert thread[0] == slot
    assert [one.payload.message for one in thread] == ["hello"]
    assert thread.get_by_type("Text") == thread.get_from("a") == [slot]


def test_an_index_is_the_one_that_the_backend_gave(mine: Mine, buffer: ContextBuffer) -> None:
    class Raced(Mine):
        def buffer_thread_len(self, thread_id: str) -> int:
            return 0  # as long as somebody else appends between the look and the append

    raced = ContextBuffer(Raced())
    assert [raced.append("t", Text("x"), "a", "b").index for _ in range(3)] == [0, 1, 2]
    assert [slot.index for slot in raced.get_thread_slots("t")] == [0, 1, 2]


def test_another_process_gets_data_until_it_names_the_class(mine: Mine, buffer: ContextBuffer) -> None:
    buffer.append("t", Text("hello"), "a", "b")
    other = ContextBuffer(mine)
    assert isinstance(other.get_thread_slots("t")[0].payload, Inert)
    other.register(Text)
    assert other.get_thread_slots("t")[0].payload == Text("hello")


def test_threads_are_listed_counted_and_removed(buffer: ContextBuffer) -> None:
    for name in "ab":
        buffer.append(name, Text("x"), "a", "b")
    assert buffer.get_stats()["total_slots"] == 2
    assert sorted(buffer.get_stats()["threads"]) == ["a", "b"]
    assert (buffer.delete_thread("a"), buffer.delete_thread("a"), buffer.get_thread("a")) == (True, False, None)
    buffer.clear()
    assert buffer.get_stats()["thread_count"] == 0


def test_both_limits_hold(buffer: ContextBuffer) -> None:
    buffer.max_slots_per_thread, buffer.max_threads = 1, 2
    for name in "abc":
        buffer.append(name, Text("x"), "a", "b")
    assert sorted(buffer.get_stats()["threads"]) == ["b", "c"]
    with pytest.raises(MemoryError, match="exceeded max slots"):
        buffer.append("c", Text("x"), "a", "b")


def test_an_entry_that_is_no_slot_does_not_hide_its_neighbours(mine: Mine, buffer: ContextBuffer) -> None:
    buffer.append("t", Text("before"), "a", "b")
    mine.buffer_append("t", b"\x80\x04 not a slot")
    assert [slot.metadata.payload_type for slot in buffer.get_thread_slots("t")] == ["Text", "bytes"]


def test_what_cannot_leave_the_process_is_refused(mine: Mine, buffer: ContextBuffer) -> None:
    with pytest.raises(InvalidInput, match="cannot leave this process"):
        buffer.append("t", {"made": object()}, "a", "b")
    assert mine.threads == {}


def test_chains_are_kept_with_it(mine: Mine) -> None:
    registry = ThreadRegistry(backend=mine)
    first, second = registry.start_chain("console", "calc.add"), registry.start_chain("console", "calc.add")
    assert first != second
    further = registry.extend_chain(first, "printer")
    assert registry.extend_chain(first, "printer") == further != registry.extend_chain(second, "printer")
    assert registry.lookup(further) == "console.calc.add.printer"
    assert registry.prune_for_response(further) == ("calc.add", first)
    assert registry.prune_for_response(first)[0] == "console"
    assert ThreadRegistry(backend=mine).lookup(first) == "console.calc.add"
    assert registry.register_thread("my-id", "a", "b") == "my-id"
    assert registry.debug_dump()["my-id"] == "a.b"
    registry.cleanup(first)
    assert (registry.lookup(first), registry.lookup(further)) == (None, None)
    assert registry.lookup(second) == "console.calc.add"
    assert registry.initialize_root() == registry.initialize_root()
    assert (registry.lookup("nobody"), registry.prune_for_response("nobody")) == (None, (None, None))


def test_it_may_be_the_backend_of_the_process(mine: Mine) -> None:
    reset_context_buffer()
    buffer = get_context_buffer(backend=mine)
    assert get_context_buffer(backend=mine) is buffer
    reset_context_buffer()


def test_what_lacks_a_method_is_no_backend() -> None:
    half: Any = object()
    with pytest.raises(InvalidInput, match="SharedBackend"):
        ContextBuffer(backend=half)
