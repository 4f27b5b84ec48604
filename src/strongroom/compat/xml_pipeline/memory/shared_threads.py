"""Threads that other processes share: in a Strongroom store, or with a backend of the user's own.

What leaves a process is data. It comes back as its type where that process knows the class, by having appended one or
by `register`; otherwise as `Inert`. Nothing is imported by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from strongroom.blocking.threads import Threads
from strongroom.codec import encode
from strongroom.compat.xml_pipeline.memory.backend_config import SharedBackend
from strongroom.compat.xml_pipeline.memory.local_threads import Limits, full
from strongroom.compat.xml_pipeline.memory.slots import (
    BufferSlot,
    Header,
    deserialize_slot,
    portable,
    serialize_slot,
    shown_type,
)
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend, stored_slot
from strongroom.errors import BudgetExceeded, Damaged, InvalidInput
from strongroom.services.threads.payloads import Inert, PayloadTypes


class StoredThreads:
    """Threads of a store. Limits are checked by the store, inside the commit that would pass them."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        self._known: set[type] = set()

    def append(self, thread_id: str, payload: Any, header: Header, limits: Limits) -> BufferSlot:
        portable(payload)
        learn(self._known, self._backend.register, type(payload))
        with self._limited(limits) as threads:
            try:
                return stored_slot(self._backend.append(threads, thread_id, payload, header))
            except BudgetExceeded:
                raise full(thread_id, limits) from None

    def slots(self, thread_id: str, start: int = 0, stop: int | None = None) -> list[BufferSlot]:
        with self._backend.threads() as threads:
            thread = threads.get(thread_id)
            length = len(thread)
            low, high, _ = slice(start, stop).indices(length)
            if low >= high:
                return []
            # A thread that ended and came back goes on counting, so its oldest slot need not be number 0.
            first = thread[-1].index + 1 - length
            return [stored_slot(slot) for slot in thread.slice(first + low, first + high)]

    def length(self, thread_id: str) -> int:
        return self._backend.buffer_thread_len(thread_id)

    def exists(self, thread_id: str) -> bool:
        return self._backend.buffer_thread_exists(thread_id)

    def create(self, thread_id: str, limits: Limits) -> None:
        """A thread of a store begins with its first message."""

    def delete(self, thread_id: str) -> bool:
        return self._backend.buffer_delete_thread(thread_id)

    def names(self) -> list[str]:
        return self._backend.buffer_list_threads()

    def clear(self) -> None:
        self._backend.buffer_clear()

    def register(self, cls: type) -> None:
        self._backend.register(cls)

    def _limited(self, limits: Limits) -> AbstractContextManager[Threads]:
        self._evicted = limits.evicted
        return self._backend.threads(limits.max_slots_per_thread, limits.max_threads, self._archive)

    def _archive(self, thread_id: str, pack: bytes) -> None:
        self._evicted(thread_id, lambda: pack)


class ForeignThreads:
    """Threads that a backend keeps as bytes, by the documented methods and no others.

    Such a backend counts for itself, so limits are looked at before an append, not inside it.
    """

    def __init__(self, backend: SharedBackend) -> None:
        self._backend = backend
        self._types = PayloadTypes()
        self._known: set[type] = set()

    def append(self, thread_id: str, payload: Any, header: Header, limits: Limits) -> BufferSlot:
        length = self._backend.buffer_thread_len(thread_id)
        if length >= limits.max_slots_per_thread:
            raise full(thread_id, limits)
        metadata = header.metadata(thread_id, length, time.time_ns() // 1000, shown_type(payload))
        data = serialize_slot(BufferSlot(payload, metadata))
        if not length:
            self._make_room(limits)
        learn(self._known, self._types.register, type(payload))
        index = self._backend.buffer_append(thread_id, data)
        return BufferSlot(payload, replace(metadata, slot_index=index))

    def slots(self, thread_id: str, start: int = 0, stop: int | None = None) -> list[BufferSlot]:
        found = self._backend.buffer_get_thread(thread_id)
        low, high, _ = slice(start, stop).indices(len(found))
        return [self._slot(thread_id, index, found[index]) for index in range(low, high)]

    def length(self, thread_id: str) -> int:
        return self._backend.buffer_thread_len(thread_id)

    def exists(self, thread_id: str) -> bool:
        return self._backend.buffer_thread_exists(thread_id)

    def create(self, thread_id: str, limits: Limits) -> None:
        """A thread of a backend begins with its first message."""

    def delete(self, thread_id: str) -> bool:
        return self._backend.buffer_delete_thread(thread_id)

    def names(self) -> list[str]:
        return list(self._backend.buffer_list_threads())

    def clear(self) -> None:
        self._backend.buffer_clear()

    def register(self, cls: type) -> None:
        self._types.register(cls)

    def _slot(self, thread_id: str, index: int, data: bytes) -> BufferSlot:
        """Read a slot. Its index is its place, whatever was thought when it was written."""
        try:
            found = deserialize_slot(data, self._types)
        except Damaged:  # an entry that is no slot does not hide its neighbours
            return BufferSlot(Inert("bytes", encode(None)), Header("", "").metadata(thread_id, index, 0, "bytes"))
        return BufferSlot(found.payload, replace(found.metadata, thread_id=thread_id, slot_index=index))

    def _make_room(self, limits: Limits) -> None:
        """Let threads go that waited longest for a message, until there is room for one more."""
        names = self.names()
        if len(names) < limits.max_threads:
            return
        waiting = sorted(
            names, key=lambda name: max((slot.metadata.timestamp for slot in self.slots(name)), default="")
        )
        for name in waiting[: len(names) - limits.max_threads + 1]:
            held = self._backend.buffer_get_thread(name)
            limits.evicted(name, lambda held=held: b"\n".join(held))  # type: ignore[misc]
            self._backend.buffer_delete_thread(name)


def learn(known: set[type], register: Callable[[type], object], cls: type) -> None:
    """Read back what this process wrote as what it was."""
    if cls in known:
        return
    known.add(cls)
    try:
        register(cls)
    except InvalidInput:
        pass  # JSON's own types need not be known; of two classes of one name, the first one is
