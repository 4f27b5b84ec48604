"""The context buffer: threads of messages that only ever grow, over `ctx.threads`.

A buffer keeps its threads in this process's memory, or, given a backend, in a store that other processes share. It is
the same code over both: a `ThreadContext` is a name and a way to the store, so it never goes stale, whoever holds it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import strongroom
from strongroom.blocking.threads import Thread, Threads
from strongroom.compat.xml_pipeline.memory.backend_config import MAX_SLOTS, MAX_THREADS
from strongroom.compat.xml_pipeline.memory.shared_backend import StoreBackend, live_threads
from strongroom.compat.xml_pipeline.memory.slots import (
    BufferSlot,
    SlotMetadata,
    slot_to_handler_metadata,
    stored_slot,
    told_in,
    told_of,
)
from strongroom.compat.xml_pipeline.memory.thread_context import ThreadContext
from strongroom.compat.xml_pipeline.message_bus.message_state import HandlerMetadata
from strongroom.errors import BudgetExceeded, InvalidInput

__all__ = [
    "BufferSlot",
    "ContextBuffer",
    "SlotMetadata",
    "ThreadContext",
    "get_context_buffer",
    "reset_context_buffer",
    "slot_to_handler_metadata",
]

log = logging.getLogger(__name__)
Archive = Callable[[str, bytes], None]


class ContextBuffer:
    """All threads. Over `max_threads`, the one that waited longest for a message leaves: it is logged, recorded in the
    store, and given to `archive` (such as `strongroom.archives.FolderArchive`) if there is one."""

    def __init__(self, backend: StoreBackend | None = None, *, archive: Archive | None = None) -> None:
        self._lock = threading.RLock()
        self._archive = archive
        self._known: set[type] = set()
        self._attach(backend)

    def _attach(self, backend: StoreBackend | None) -> None:
        if backend is not None and not isinstance(backend, StoreBackend):
            raise InvalidInput("a backend must come from get_shared_backend(); your own would be a Strongroom store")
        self._backend = backend
        # In process a thread exists once it was asked for. Elsewhere the store alone knows, and these are only kept
        # so that whoever asks twice gets the same object.
        self._handles: MutableMapping[str, ThreadContext] = {} if backend is None else WeakValueDictionary()
        self._empty: dict[str, None] = {}
        self._base = strongroom.open("memory://").threads if backend is None else backend.context.threads
        self._max_slots = MAX_SLOTS if backend is None else backend.config.max_slots_per_thread
        self._max_threads = MAX_THREADS if backend is None else backend.config.max_threads
        self._limit()

    def _limit(self) -> None:
        self._threads: Threads = self._base.limited(
            max_slots_per_thread=self._max_slots, max_threads=self._max_threads, archive=self._left
        )
        self._append = self._threads.append

    @property
    def is_shared(self) -> bool:
        return self._backend is not None

    @property
    def max_slots_per_thread(self) -> int:
        return self._max_slots

    @max_slots_per_thread.setter
    def max_slots_per_thread(self, limit: int) -> None:
        self._max_slots = limit
        self._limit()

    @property
    def max_threads(self) -> int:
        return self._max_threads

    @max_threads.setter
    def max_threads(self, limit: int) -> None:
        self._max_threads = limit
        self._limit()

    def register(self, cls: type) -> type:
        """Let payloads of this class come back as themselves in this process, whichever process appended them."""
        return self._base.register(cls)

    def _learn(self, cls: type) -> None:
        """Read back what this process wrote as what it was. Other processes have to ask for it by `register`."""
        self._known.add(cls)
        with suppress(InvalidInput):
            self.register(cls)

    def get_or_create_thread(self, thread_id: str) -> ThreadContext:
        """Return a thread. The same object each time."""
        known = self._handles.get(thread_id)
        return self.enlist(ThreadContext(thread_id, self)) if known is None else known

    def thread(self, thread_id: str) -> Thread:
        """Return the store's own handle on a thread."""
        return self._threads.get(thread_id)

    def enlist(self, thread: ThreadContext) -> ThreadContext:
        """Make a thread one of this buffer's, unless there is one of its name; return the one there is."""
        with self._lock:
            known = self._handles.get(thread.thread_id)
            if known is not None:
                return known
            self._handles[thread.thread_id] = thread
            if self._backend is None:
                while len(self._handles) > self._max_threads and self._make_room():
                    pass
                self._empty[thread.thread_id] = None
            return thread

    def _make_room(self) -> bool:
        """Let a thread go that nobody wrote to, or else the one that has waited longest for a message."""
        for thread_id in self._empty:
            self._empty.pop(thread_id, None)
            self._handles.pop(thread_id, None)
            return True
        return self._threads.make_room() is not None

    def _left(self, thread_id: str, pack: bytes) -> None:
        if self._archive is not None:
            self._archive(thread_id, pack)
        log.warning("thread %r left the buffer: there may be %d threads", thread_id, self._max_threads)
        with self._lock:
            self._handles.pop(thread_id, None)

    def append(
        self,
        thread_id: str,
        payload: Any,
        from_id: str | SlotMetadata | HandlerMetadata,
        to_id: str = "",
        own_name: str | None = None,
        is_self_call: bool = False,
        usage_instructions: str = "",
        todo_nudge: str = "",
    ) -> BufferSlot:
        """Add a message to a thread and return its slot. `MemoryError` if the thread is full.

        In the place of `from_id` may stand the metadata of another message, which then is this one's too.
        """
        if not isinstance(from_id, str):
            return self.append(thread_id, payload, **told_in(from_id))
        if thread_id not in self._handles:
            self.get_or_create_thread(thread_id)
        if self._backend is not None and type(payload) not in self._known:
            self._learn(type(payload))
        try:
            metadata = told_of(own_name, is_self_call, usage_instructions, todo_nudge)
            slot = self._append(thread_id, payload, from_id=from_id, to_id=to_id, metadata=metadata)
        except BudgetExceeded:
            raise MemoryError(f"Thread {thread_id} exceeded max slots ({self._max_slots})") from None
        if self._empty:
            self._empty.pop(thread_id, None)
        if thread_id not in self._handles:  # it had to leave meanwhile, and this message brought it back
            self.get_or_create_thread(thread_id)
        return stored_slot(slot)

    def get_thread(self, thread_id: str) -> ThreadContext | None:
        """Return a thread, or None if there is none."""
        return self.get_or_create_thread(thread_id) if self.thread_exists(thread_id) else None

    def get_thread_slots(self, thread_id: str) -> list[BufferSlot]:
        """Return the slots of a thread; none if there is no such thread."""
        return [stored_slot(slot) for slot in self._threads.get(thread_id)]

    def thread_exists(self, thread_id: str) -> bool:
        return thread_id in self._handles if self._backend is None else len(self._threads.get(thread_id)) > 0

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread. False if there was none."""
        with self._lock:
            self._empty.pop(thread_id, None)
            known = self._handles.pop(thread_id, None) is not None and self._backend is None
            return self._threads.delete(thread_id) or known

    def get_stats(self) -> dict[str, Any]:
        """Count threads and slots."""
        names = list(self._handles) if self._backend is None else [one.thread_id for one in live_threads(self._base)]
        return {
            "thread_count": len(names),
            "total_slots": self._threads.stats().total_slots,
            "max_threads": self._max_threads,
            "max_slots_per_thread": self._max_slots,
            "threads": names,
            "backend": "local" if self._backend is None else "shared",
        }

    def clear(self) -> None:
        """Remove every thread."""
        with self._lock:
            self._handles.clear()
            self._empty.clear()
            if self._backend is None:
                self._base = strongroom.open("memory://").threads
                self._limit()
            else:
                self._backend.buffer_clear()


_buffer: ContextBuffer | None = None
_buffer_lock = threading.Lock()


def get_context_buffer(backend: StoreBackend | None = None) -> ContextBuffer:
    """Return this process's buffer. A backend is taken on as long as nothing has been written elsewhere."""
    global _buffer
    with _buffer_lock:
        if _buffer is None:
            _buffer = ContextBuffer(backend)
        elif backend is not None and backend is not _buffer._backend:
            if _buffer.is_shared or _buffer.get_stats()["thread_count"]:
                raise InvalidInput("the buffer is in use with another backend; call reset_context_buffer() first")
            _buffer._attach(backend)
        return _buffer


def reset_context_buffer() -> None:
    """Let the next `get_context_buffer` make a new one. What other processes share stays."""
    global _buffer
    with _buffer_lock:
        if _buffer is not None and not _buffer.is_shared:
            _buffer.clear()
        _buffer = None
