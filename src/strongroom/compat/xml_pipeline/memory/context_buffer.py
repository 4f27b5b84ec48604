"""The context buffer: threads of messages that only ever grow.

A buffer keeps its threads in this process, or, given a backend, where other processes reach them too. A `ThreadContext`
is a name and a way to the buffer, so it never goes stale, whoever holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, overload
from weakref import WeakValueDictionary

from strongroom.compat.stores import LOCK
from strongroom.compat.xml_pipeline.memory.backend_config import MAX_SLOTS, MAX_THREADS, SharedBackend
from strongroom.compat.xml_pipeline.memory.local_threads import LocalThreads, Storage
from strongroom.compat.xml_pipeline.memory.shared_threads import ForeignThreads, StoredThreads
from strongroom.compat.xml_pipeline.memory.slots import (
    BufferSlot,
    Header,
    SlotMetadata,
    header_of,
    slot_to_handler_metadata,
)
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.compat.xml_pipeline.messages import HandlerMetadata
from strongroom.errors import InvalidInput

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


class ThreadContext:
    """One thread of a buffer. Every call asks the buffer."""

    def __init__(self, thread_id: str, buffer: ContextBuffer | None = None) -> None:
        self.thread_id = thread_id
        self._buffer = buffer or ContextBuffer()

    def append(
        self,
        payload: Any,
        from_id: str,
        to_id: str,
        own_name: str | None = None,
        is_self_call: bool = False,
        usage_instructions: str = "",
        todo_nudge: str = "",
    ) -> BufferSlot:
        """Add a message to this thread and return its slot."""
        header = Header(from_id, to_id, own_name, is_self_call, usage_instructions, todo_nudge)
        return self._buffer.write(self, payload, header)

    def __len__(self) -> int:
        return self._buffer.storage.length(self.thread_id)

    @overload
    def __getitem__(self, index: int) -> BufferSlot: ...
    @overload
    def __getitem__(self, index: slice) -> list[BufferSlot]: ...
    def __getitem__(self, index: int | slice) -> BufferSlot | list[BufferSlot]:
        if isinstance(index, slice):
            return self.get_slice()[index]
        found = self.get_slice(index, index + 1 if index != -1 else None)
        if not found:
            raise IndexError(f"thread {self.thread_id!r:.80} has no slot {index}; it has {len(self)}")
        return found[0]

    def __iter__(self) -> Iterator[BufferSlot]:
        return iter(self.get_slice())

    def get_slice(self, start: int = 0, end: int | None = None) -> list[BufferSlot]:
        """Return some slots by their place, as a slice of a list would."""
        return self._buffer.storage.slots(self.thread_id, start, end)

    def get_by_type(self, payload_type: str) -> list[BufferSlot]:
        """Return the slots whose payload's class has this name."""
        return [slot for slot in self if slot.metadata.payload_type == payload_type]

    def get_from(self, from_id: str) -> list[BufferSlot]:
        """Return the slots of one sender."""
        return [slot for slot in self if slot.from_id == from_id]


class ContextBuffer:
    """All threads. Over `max_threads`, the one that waited longest for a message leaves: it is logged, and given to
    `archive` (such as `strongroom.archives.FolderArchive`) if there is one."""

    def __init__(self, backend: SharedBackend | None = None, *, archive: Archive | None = None) -> None:
        self._archive = archive
        self.max_slots_per_thread = MAX_SLOTS
        self.max_threads = MAX_THREADS
        self.attach(backend)

    def attach(self, backend: SharedBackend | None) -> None:
        """Keep threads with a backend from now on."""
        if backend is not None and not isinstance(backend, SharedBackend):
            raise InvalidInput("a backend must have the methods of SharedBackend")
        self.backend = backend
        self.storage: Storage = LocalThreads()
        # In process a thread exists once it was asked for. Elsewhere these are only kept so that whoever asks twice
        # gets the same object.
        self._handles: MutableMapping[str, ThreadContext] = {} if backend is None else WeakValueDictionary()
        if isinstance(backend, StoreBackend):
            self.storage = StoredThreads(backend)
            self.max_slots_per_thread = backend.config.max_slots_per_thread
            self.max_threads = backend.config.max_threads
        elif backend is not None:
            self.storage = ForeignThreads(backend)

    @property
    def is_shared(self) -> bool:
        return self.backend is not None

    def register(self, cls: type) -> type:
        """Let payloads of this class come back as themselves in this process, whichever process appended them."""
        self.storage.register(cls)
        return cls

    def get_or_create_thread(self, thread_id: str) -> ThreadContext:
        """Return a thread. The same object each time."""
        return self._enlist(ThreadContext(thread_id, self))

    def append(
        self,
        thread_id: str,
        payload: Any,
        from_id: str | SlotMetadata | HandlerMetadata,
        to_id: str | None = None,
        own_name: str | None = None,
        is_self_call: bool = False,
        usage_instructions: str = "",
        todo_nudge: str = "",
    ) -> BufferSlot:
        """Add a message to a thread and return its slot. `MemoryError` if the thread is full.

        In the place of `from_id` may stand the metadata of another message, which then is this one's too.
        """
        if isinstance(from_id, (SlotMetadata, HandlerMetadata)):
            header = header_of(from_id)
        elif to_id is None:
            raise TypeError("append() needs a to_id, or metadata in the place of from_id")
        else:
            header = Header(from_id, to_id, own_name, is_self_call, usage_instructions, todo_nudge)
        return self.storage.append(thread_id, payload, header, self)

    def write(self, thread: ThreadContext, payload: Any, header: Header) -> BufferSlot:
        """Add a message to a thread that somebody holds, also if it has left this buffer meanwhile."""
        slot = self.storage.append(thread.thread_id, payload, header, self)
        self._enlist(thread)
        return slot

    def get_thread(self, thread_id: str) -> ThreadContext | None:
        """Return a thread, or None if there is none."""
        return self.get_or_create_thread(thread_id) if self.thread_exists(thread_id) else None

    def get_thread_slots(self, thread_id: str) -> list[BufferSlot]:
        """Return the slots of a thread; none if there is no such thread."""
        return self.storage.slots(thread_id)

    def thread_exists(self, thread_id: str) -> bool:
        return self.storage.exists(thread_id)

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread. False if there was none."""
        with LOCK:
            self._handles.pop(thread_id, None)
        return self.storage.delete(thread_id)

    def get_stats(self) -> dict[str, Any]:
        """Count threads and slots."""
        names = self.storage.names()
        return {
            "thread_count": len(names),
            "total_slots": sum(map(self.storage.length, names)),
            "max_threads": self.max_threads,
            "max_slots_per_thread": self.max_slots_per_thread,
            "threads": names,
            "backend": "shared" if self.is_shared else "local",
        }

    def clear(self) -> None:
        """Remove every thread."""
        with LOCK:
            self._handles.clear()
        self.storage.clear()

    def _enlist(self, thread: ThreadContext) -> ThreadContext:
        """Make a thread one of this buffer's, unless there is one of its name; return the one there is."""
        self.storage.create(thread.thread_id, self)
        with LOCK:
            return self._handles.setdefault(thread.thread_id, thread)

    def evicted(self, thread_id: str, pack: Callable[[], bytes]) -> None:
        """See a thread off for which there is no room: log it, and archive it if there is an archive."""
        if self._archive is not None:
            self._archive(thread_id, pack())
        log.warning("thread %r left the buffer: there may be %d threads", thread_id, self.max_threads)
        with LOCK:
            self._handles.pop(thread_id, None)


_buffer: ContextBuffer | None = None


def get_context_buffer(backend: SharedBackend | None = None) -> ContextBuffer:
    """Return this process's buffer: the one that is there, or a new one over this backend.

    A backend that comes later is taken on as long as nothing was written; after that it is not used, which is logged.
    """
    global _buffer
    with LOCK:
        if _buffer is None:
            _buffer = ContextBuffer(backend)
        elif backend is not None and not _same(backend, _buffer.backend):
            if _buffer.is_shared or _buffer.storage.names():
                log.warning("this process's buffer is in use with another backend; reset_context_buffer() ends that")
            else:
                _buffer.attach(backend)
        return _buffer


def reset_context_buffer() -> None:
    """Let the next `get_context_buffer` make a new one. What other processes share stays."""
    global _buffer
    with LOCK:
        if _buffer is not None and not _buffer.is_shared:
            _buffer.clear()
        _buffer = None


def _same(one: SharedBackend, other: SharedBackend | None) -> bool:
    if isinstance(one, StoreBackend) and isinstance(other, StoreBackend):
        return one.config == other.config
    return one is other
