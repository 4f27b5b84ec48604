"""Threads of this process: what a storage must do, and lists that do it.

A payload comes back as the very object that was appended, of whatever kind. If it is data (JSON, a dataclass, a struct,
a model), its bytes are kept too: once somebody has edited it, the slot shows a fresh one made of those bytes, so an
edit never shows in the history. Anything else is shown as it is.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Raw, Struct

from strongroom.codec import Json
from strongroom.compat.stores import LOCK
from strongroom.compat.xml_pipeline.memory.slots import BufferSlot, Header, SlotMetadata, shown_type
from strongroom.errors import InvalidInput
from strongroom.services.threads.packs import pack_thread
from strongroom.services.threads.payloads import PayloadTypes, build, seal, type_name
from strongroom.services.threads.values import Slot
from strongroom.store import Record


class Limits(Protocol):
    """How much a buffer may hold. `evicted` is told of a thread that has to go: its name, and how to pack it."""

    max_slots_per_thread: int
    max_threads: int

    def evicted(self, thread_id: str, pack: Callable[[], bytes]) -> None: ...


def full(thread_id: str, limits: Limits) -> MemoryError:
    return MemoryError(f"Thread {thread_id} exceeded max slots ({limits.max_slots_per_thread})")


class Storage(Protocol):
    """What a buffer needs of the place where its threads are. Slots are counted from the oldest that is there."""

    def append(self, thread_id: str, payload: Any, header: Header, limits: Limits) -> BufferSlot: ...
    def slots(self, thread_id: str, start: int = 0, stop: int | None = None) -> list[BufferSlot]: ...
    def length(self, thread_id: str) -> int: ...
    def exists(self, thread_id: str) -> bool: ...
    def create(self, thread_id: str, limits: Limits) -> None: ...
    def delete(self, thread_id: str) -> bool: ...
    def names(self) -> list[str]: ...
    def clear(self) -> None: ...
    def register(self, cls: type) -> None: ...


class _LocalSlot(Struct, frozen=True):
    """A message in this process. `body` is what it was when it was appended, if it is data."""

    thread_id: str
    index: int
    at: int
    native: Any
    body: Json | None
    header: Header

    def payload(self) -> Any:
        if self.body is None or self.body == _body(self.native):
            return self.native
        raw = Raw(self.body[1:-1])
        try:
            return build(type(self.native), raw)
        except InvalidInput:
            return PayloadTypes().build(type_name(self.native), raw)

    def metadata(self) -> SlotMetadata:
        return self.header.metadata(self.thread_id, self.index, self.at, shown_type(self.native))

    def archived(self) -> Slot:
        """Return the slot as an archive keeps it. What is no data cannot leave this process, and is not in it."""
        kind, header = type_name(self.native), self.header
        people = (header.from_id, header.to_id or None)
        record = Record(self.index, kind, self.body, 0, self.at, *people, None, None, None)
        return Slot(self.thread_id, record, PayloadTypes())


class _LocalThread:
    def __init__(self, first: int) -> None:
        self.first = first
        self.slots: list[_LocalSlot] = []


class LocalThreads:
    """Threads as lists, the one that was written to last at the end."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, _LocalThread] = OrderedDict()
        # Where the index of a thread that ended goes on, so that nobody mistakes new slots for old ones.
        self._ended: dict[str, int] = {}

    def append(self, thread_id: str, payload: Any, header: Header, limits: Limits) -> BufferSlot:
        body = _body(payload)
        with LOCK:
            if thread_id not in self._threads:
                self.create(thread_id, limits)
            thread = self._threads[thread_id]
            if len(thread.slots) >= limits.max_slots_per_thread:
                raise full(thread_id, limits)
            index = thread.first + len(thread.slots)
            slot = _LocalSlot(thread_id, index, time.time_ns() // 1000, payload, body, header)
            thread.slots.append(slot)
            self._threads.move_to_end(thread_id)
        return BufferSlot.of(slot)

    def slots(self, thread_id: str, start: int = 0, stop: int | None = None) -> list[BufferSlot]:
        with LOCK:
            thread = self._threads.get(thread_id)
            return [] if thread is None else [BufferSlot.of(slot) for slot in thread.slots[start:stop]]

    def length(self, thread_id: str) -> int:
        with LOCK:
            thread = self._threads.get(thread_id)
            return 0 if thread is None else len(thread.slots)

    def exists(self, thread_id: str) -> bool:
        return thread_id in self._threads

    def create(self, thread_id: str, limits: Limits) -> None:
        """Make a thread unless it is there. For one too many another leaves: an empty one, or the longest idle."""
        with LOCK:
            if thread_id in self._threads:
                return
            while self._threads and len(self._threads) >= limits.max_threads:
                self._leave(limits)
            self._threads[thread_id] = _LocalThread(self._ended.pop(thread_id, 0))

    def delete(self, thread_id: str) -> bool:
        with LOCK:
            thread = self._threads.pop(thread_id, None)
            if thread is not None and thread.slots:
                self._ended[thread_id] = thread.first + len(thread.slots)
            return thread is not None

    def names(self) -> list[str]:
        with LOCK:
            return list(self._threads)

    def clear(self) -> None:
        with LOCK:
            self._threads.clear()
            self._ended.clear()

    def register(self, cls: type) -> None:
        """Nothing has to be known about a class whose objects never leave."""

    def _leave(self, limits: Limits) -> None:
        empty = (name for name, thread in self._threads.items() if not thread.slots)
        name = next(empty, None) or next(iter(self._threads))
        slots = self._threads[name].slots
        limits.evicted(name, lambda: pack_thread(name, [slot.archived() for slot in slots]))
        self.delete(name)


def _body(payload: Any) -> Json | None:
    try:
        return seal(payload)
    except InvalidInput:
        return None
