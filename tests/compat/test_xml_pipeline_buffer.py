"""The context buffer by its own names, in this process."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import logging
import pickle
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from strongroom.archives import FolderArchive
from strongroom.compat.xml_pipeline.memory import context_buffer as later
from strongroom.compat.xml_pipeline.memory.context_buffer import (
    BufferSlot,
    ContextBuffer,
    SlotMetadata,
    ThreadContext,
    get_context_buffer,
    reset_context_buffer,
    slot_to_handler_metadata,
)
from strongroom.compat.xml_pipeline.memory.shared_backend import BackendConfig, get_shared_backend
from strongroom.compat.xml_pipeline.message_bus.message_state import HandlerMetadata, HandlerResponse

# Its modules are those of xml_pipeline under another name, which a type checker cannot see.
earlier: Any = importlib.import_module("strongroom.compat.agentserver.memory.context_buffer")


@dataclass
class Greeting:
    message: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Farewell:
    message: str


@pytest.fixture
def buffer() -> ContextBuffer:
    return ContextBuffer()


@pytest.fixture
def singleton() -> Iterator[None]:
    reset_context_buffer()
    yield
    reset_context_buffer()


def fill(buffer: ContextBuffer, thread_id: str, count: int) -> None:
    for number in range(count):
        buffer.append(thread_id, Greeting(str(number)), "user", "router")


# ---- slots ----------------------------------------------------------------------------------------------------------


def test_a_message_needs_to_be_for_somebody(buffer: ContextBuffer) -> None:
    with pytest.raises(TypeError, match="to_id"):
        buffer.append("t", Greeting("hello"), "user")
    assert not buffer.thread_exists("t")


def test_nobody_may_have_sent_a_message_that_stays_in_its_process(buffer: ContextBuffer) -> None:
    nobody: Any = None
    slot = buffer.append("t", Greeting("hello"), nobody, "router")
    assert (slot.from_id, slot.to_id) == (nobody, "router")


def test_a_slot_tells_everything_about_its_message(buffer: ContextBuffer) -> None:
    payload = Greeting("hello")
    slot = buffer.append("t", payload, "user", "router", "router", True, "use it", "do it")
    assert slot.payload is payload
    assert (slot.thread_id, slot.from_id, slot.to_id, slot.index) == ("t", "user", "router", 0)
    told = slot.metadata
    assert (told.slot_index, told.payload_type, told.own_name) == (0, "Greeting", "router")
    assert (told.is_self_call, told.usage_instructions, told.todo_nudge) == (True, "use it", "do it")
    assert datetime.fromisoformat(told.timestamp).tzinfo is not None


@pytest.mark.parametrize("name", ["payload", "metadata", "index", "anything"])
def test_a_slot_cannot_be_changed(buffer: ContextBuffer, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(buffer.append("t", Greeting("x"), "a", "b"), name, None)


def test_metadata_cannot_be_changed(buffer: ContextBuffer) -> None:
    slot = buffer.append("t", Greeting("x"), "a", "b")
    with pytest.raises(FrozenInstanceError):
        slot.metadata.from_id = "mallory"  # type: ignore[misc]


def test_slots_can_be_made_by_hand_and_are_as_frozen() -> None:
    metadata = SlotMetadata("t", "a", "b", 3, "2024-01-01T00:00:00+00:00", "Greeting")
    slot = BufferSlot(payload=Greeting("x"), metadata=metadata)
    assert (slot.thread_id, slot.from_id, slot.to_id, slot.index) == ("t", "a", "b", 3)
    with pytest.raises(FrozenInstanceError):
        slot.payload = None  # type: ignore[misc]


def test_an_edit_of_the_payload_never_shows_in_the_history(buffer: ContextBuffer) -> None:
    payload = Greeting("original", ["x"])
    slot = buffer.append("t", payload, "a", "b")
    payload.message = "TAMPERED"
    payload.tags.append("y")
    thread = buffer.get_thread("t")
    assert thread is not None
    assert slot.payload == thread[0].payload == Greeting("original", ["x"])


def test_a_slot_is_compared_like_a_frozen_dataclass(buffer: ContextBuffer) -> None:
    slot = buffer.append("t", Greeting("x"), "a", "b")
    thread = buffer.get_thread("t")
    assert thread is not None
    assert thread[0] == slot == BufferSlot(slot.payload, slot.metadata)
    assert slot != buffer.append("t", Greeting("x"), "a", "b")
    assert repr(slot).startswith("BufferSlot(payload=Greeting")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda slot: pickle.loads(pickle.dumps(slot))])
def test_a_slot_is_copied_like_a_frozen_dataclass(buffer: ContextBuffer, copied: Any) -> None:
    slot = buffer.append("t", Greeting("x", ["tag"]), "a", "b", todo_nudge="n")
    again: Any = copied(slot)
    assert again == slot
    assert type(again) is type(slot) is BufferSlot
    with pytest.raises(FrozenInstanceError):
        setattr(again, "payload", None)  # noqa: B010


def test_a_slot_is_replaced_like_a_frozen_dataclass(buffer: ContextBuffer) -> None:
    slot = buffer.append("t", Greeting("x"), "a", "b")
    other = dataclasses.replace(slot, payload=Greeting("y"))
    assert (other.payload, other.metadata) == (Greeting("y"), slot.metadata)
    assert [each.name for each in dataclasses.fields(slot)] == ["payload", "metadata"]
    assert dataclasses.asdict(slot)["payload"] == {"message": "x", "tags": []}


def test_a_slot_of_a_frozen_payload_can_be_hashed(buffer: ContextBuffer) -> None:
    slot = buffer.append("t", "text", "a", "b")
    assert {slot: 1}[BufferSlot("text", slot.metadata)] == 1


def test_a_slot_has_no_attributes_but_its_own(buffer: ContextBuffer) -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = buffer.append("t", "text", "a", "b").nothing_like_it


# ---- threads --------------------------------------------------------------------------------------------------------


def test_indexes_count_from_nothing(buffer: ContextBuffer) -> None:
    fill(buffer, "t", 3)
    thread = buffer.get_thread("t")
    assert thread is not None
    assert [slot.index for slot in thread] == [0, 1, 2]
    assert (len(thread), thread[1].index, thread[-1].index) == (3, 1, 2)
    assert [slot.index for slot in thread[1:]] == [1, 2]


@pytest.mark.parametrize("index", [3, -4])
def test_there_is_nothing_beyond_the_ends(buffer: ContextBuffer, index: int) -> None:
    fill(buffer, "t", 3)
    with pytest.raises(IndexError):
        buffer.get_or_create_thread("t")[index]


def test_slices_are_those_of_a_list(buffer: ContextBuffer) -> None:
    fill(buffer, "t", 5)
    thread = buffer.get_or_create_thread("t")
    everything = list(thread)
    for start in (-6, -2, 0, 1, 4, 5, 9):
        for end in (None, -6, -1, 0, 2, 5, 9):
            assert thread.get_slice(start, end) == everything[start:end]


def test_slots_are_found_by_type_and_sender(buffer: ContextBuffer) -> None:
    buffer.append("t", Greeting("a"), "ana", "bob")
    buffer.append("t", Farewell("b"), "bob", "ana")
    thread = buffer.get_or_create_thread("t")
    assert [slot.index for slot in thread.get_by_type("Farewell")] == [1]
    assert [slot.index for slot in thread.get_from("ana")] == [0]
    assert thread.get_from("nobody") == thread.get_by_type("Nothing") == []


def test_iterating_ends_although_the_thread_grows(buffer: ContextBuffer) -> None:
    fill(buffer, "t", 2)
    thread = buffer.get_or_create_thread("t")
    for _ in thread:
        thread.append(Greeting("more"), "a", "b")
    assert len(thread) == 4


def test_a_thread_is_the_same_object_each_time(buffer: ContextBuffer) -> None:
    first = buffer.get_or_create_thread("t")
    assert len(first) == 0
    assert buffer.get_or_create_thread("t") is first
    buffer.append("t", Greeting("x"), "a", "b")
    assert buffer.get_thread("t") is first


def test_threads_do_not_see_each_other(buffer: ContextBuffer) -> None:
    fill(buffer, "a", 2)
    fill(buffer, "b", 1)
    assert [len(buffer.get_or_create_thread(name)) for name in "ab"] == [2, 1]


def test_a_thread_nobody_asked_for_does_not_exist(buffer: ContextBuffer) -> None:
    assert buffer.get_thread("t") is None
    assert not buffer.thread_exists("t")
    assert buffer.get_thread_slots("t") == []
    assert not buffer.delete_thread("t")
    buffer.get_or_create_thread("t")
    assert buffer.thread_exists("t")


def test_deleting_removes_a_thread_once(buffer: ContextBuffer) -> None:
    fill(buffer, "t", 2)
    assert buffer.delete_thread("t")
    assert not buffer.delete_thread("t")
    assert buffer.get_thread("t") is None


def test_a_thread_can_stand_alone() -> None:
    thread = ThreadContext("t")
    slot = thread.append(Greeting("x"), from_id="a", to_id="b")
    assert (slot.index, len(thread), thread[0].payload) == (0, 1, Greeting("x"))


def test_stats_count(buffer: ContextBuffer) -> None:
    fill(buffer, "a", 2)
    fill(buffer, "b", 3)
    assert buffer.get_stats() == {
        "thread_count": 2,
        "total_slots": 5,
        "max_threads": 1000,
        "max_slots_per_thread": 10000,
        "threads": ["a", "b"],
        "backend": "local",
    }


def test_clearing_removes_everything_and_begins_anew(buffer: ContextBuffer) -> None:
    fill(buffer, "t", 2)
    held = buffer.get_or_create_thread("t")
    buffer.clear()
    assert (buffer.get_stats()["thread_count"], len(held)) == (0, 0)
    assert buffer.append("t", Greeting("x"), "a", "b").index == 0


class Color(Enum):
    RED = "red"


ANYTHING = [
    object(),
    ValueError("no"),
    b"\x00\xff",
    {1, 2},
    datetime(2024, 1, 1),
    Decimal("1.10"),
    UUID(int=7),
    Path("/tmp/x"),
    Color.RED,
    float("nan"),
    {1: "int key"},
    (1, [2]),
    lambda: None,
    2**80,
]


@pytest.mark.parametrize("payload", ANYTHING, ids=lambda payload: type(payload).__name__)
def test_any_object_is_handed_back_as_it_is_in_its_process(buffer: ContextBuffer, payload: Any) -> None:
    slot = buffer.append("t", payload, "a", "b")
    thread = buffer.get_thread("t")
    assert thread is not None
    assert slot.payload is thread[0].payload is payload
    assert slot.metadata.payload_type == type(payload).__name__
    assert thread.get_by_type(type(payload).__name__) == [slot] or payload != payload


def test_a_class_nobody_registered_comes_back_as_itself(buffer: ContextBuffer) -> None:
    for number in range(3):
        buffer.append("t", Greeting(str(number)), "a", "b")
    thread = buffer.get_thread("t")
    assert thread is not None
    assert [slot.payload.message for slot in thread] == ["0", "1", "2"]
    assert thread[1].payload.message == thread.get_slice(1, 2)[0].payload.message == "1"


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_a_full_thread_takes_no_more(buffer: ContextBuffer) -> None:
    buffer.max_slots_per_thread = 3
    fill(buffer, "t", 3)
    with pytest.raises(MemoryError, match=r"exceeded max slots \(3\)"):
        buffer.append("t", Greeting("one more"), "a", "b")
    with pytest.raises(MemoryError, match="exceeded max slots"):
        buffer.get_or_create_thread("t").append(Greeting("one more"), "a", "b")
    assert len(buffer.get_thread_slots("t")) == 3


def test_the_limit_holds_whoever_appends(buffer: ContextBuffer) -> None:
    buffer.max_slots_per_thread = 200

    def work() -> None:
        for _ in range(100):
            try:
                buffer.append("t", Greeting("x"), "a", "b")
            except MemoryError:
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [slot.index for slot in buffer.get_thread_slots("t")] == list(range(200))


def test_the_thread_that_waited_longest_leaves_and_it_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    buffer = ContextBuffer(archive=FolderArchive(tmp_path))
    buffer.max_threads = 3
    for name in ("first", "second", "third", "first"):
        fill(buffer, name, 1)
    with caplog.at_level(logging.WARNING):
        fill(buffer, "fourth", 1)
    assert sorted(buffer.get_stats()["threads"]) == ["first", "fourth", "third"]
    assert buffer.get_thread("second") is None
    assert "'second' left" in caplog.text
    assert len(list(tmp_path.iterdir())) == 1


def test_the_oldest_of_threads_without_messages_leaves(buffer: ContextBuffer) -> None:
    buffer.max_threads = 3
    for name in "abcd":
        buffer.get_or_create_thread(name)
    assert [buffer.thread_exists(name) for name in "abcd"] == [False, True, True, True]


def test_whoever_holds_a_thread_that_left_appends_to_the_real_one(buffer: ContextBuffer) -> None:
    buffer.max_threads = 2
    fill(buffer, "held", 2)
    held = buffer.get_or_create_thread("held")
    fill(buffer, "b", 1)
    fill(buffer, "c", 1)
    assert not buffer.thread_exists("held")
    slot = held.append(Greeting("back"), "a", "b")
    assert slot.index == 2
    assert buffer.get_thread("held") is held
    assert (len(held), held[0].payload, [one.index for one in held]) == (1, Greeting("back"), [2])


# ---- the rest -------------------------------------------------------------------------------------------------------


def test_handlers_are_told_what_concerns_them(buffer: ContextBuffer) -> None:
    slot = buffer.append("t", Greeting("x"), "user", "router", own_name="router", is_self_call=True, todo_nudge="n")
    assert slot_to_handler_metadata(slot) == HandlerMetadata("t", "user", "router", True, "", "n")


def test_responses_go_to_the_caller_or_to_a_name() -> None:
    assert HandlerResponse.respond("x").is_response
    assert not HandlerResponse("x", to="router").is_response


@pytest.mark.usefixtures("singleton")
def test_a_process_has_one_buffer() -> None:
    assert get_context_buffer() is get_context_buffer()
    before = get_context_buffer()
    fill(before, "t", 1)
    reset_context_buffer()
    assert get_context_buffer() is not before
    assert get_context_buffer().get_stats()["thread_count"] == 0


@pytest.mark.usefixtures("singleton")
def test_a_backend_that_comes_before_anything_was_written_is_taken_on() -> None:
    early = get_context_buffer()
    backend = get_shared_backend(BackendConfig("memory"))
    assert get_context_buffer(backend=backend) is early
    assert early.is_shared
    assert get_context_buffer(backend=backend) is early


@pytest.mark.usefixtures("singleton")
def test_a_backend_that_comes_later_is_not_used_and_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fill(get_context_buffer(), "t", 1)
    with caplog.at_level(logging.WARNING):
        assert get_context_buffer(backend=get_shared_backend()) is get_context_buffer()
    assert len(get_context_buffer().get_thread_slots("t")) == 1
    assert "reset_context_buffer" in caplog.text


@pytest.mark.usefixtures("singleton")
def test_an_equal_configuration_is_the_backend_that_is_there(caplog: pytest.LogCaptureFixture) -> None:
    first = get_context_buffer(backend=get_shared_backend(BackendConfig("memory")))
    with caplog.at_level(logging.WARNING):
        assert get_context_buffer(backend=get_shared_backend(BackendConfig("memory"))) is first
    assert caplog.text == ""


@pytest.mark.usefixtures("singleton", "zone")
@pytest.mark.parametrize("module", [earlier, later])
@pytest.mark.parametrize("times", [1, 2])
def test_the_documented_usage(module: Any, times: int) -> None:
    for time in range(times):
        documented_usage(module, before=time)


def documented_usage(module: Any, before: int) -> None:
    thread_id, payload, metadata = "t", Greeting("hello"), HandlerMetadata("t", "user", own_name="router")
    seen: list[Any] = []

    def handler(*told: Any) -> None:
        seen.append(told)

    buffer = module.get_context_buffer()
    ref = buffer.append(thread_id, payload, metadata)
    handler(ref.payload, ref.metadata)
    history = buffer.get_thread(thread_id)

    assert seen[0][0] is payload
    assert (ref.from_id, ref.to_id, ref.metadata.own_name) == ("user", "router", "router")
    assert [slot.payload for slot in history] == [payload] * (before + 1)
