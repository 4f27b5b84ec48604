"""One thread of a context buffer, by the names its users know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from strongroom.blocking.threads import Thread
from strongroom.compat.xml_pipeline.memory.slots import BufferSlot, stored_slot

if TYPE_CHECKING:
    from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer


class ThreadContext:
    """One thread of a buffer. Every call asks the buffer's store."""

    def __init__(self, thread_id: str, buffer: ContextBuffer | None = None) -> None:
        self.thread_id = thread_id
        if buffer is None:
            from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer

            buffer = ContextBuffer()
        self._buffer = buffer

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
        self._buffer.enlist(self)
        return self._buffer.append(
            self.thread_id, payload, from_id, to_id, own_name, is_self_call, usage_instructions, todo_nudge
        )

    def __len__(self) -> int:
        return len(self._thread)

    @overload
    def __getitem__(self, index: int) -> BufferSlot: ...
    @overload
    def __getitem__(self, index: slice) -> list[BufferSlot]: ...
    def __getitem__(self, index: int | slice) -> BufferSlot | list[BufferSlot]:
        if isinstance(index, slice):
            return self.get_slice()[index]
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"thread {self.thread_id!r:.80} has no slot {index}; it has {length}")
        return stored_slot(self._thread[index if index < 0 else self._first(length) + index])

    def __iter__(self) -> Iterator[BufferSlot]:
        return iter(self.get_slice())

    def get_slice(self, start: int = 0, end: int | None = None) -> list[BufferSlot]:
        """Return some slots by their place, as a slice of a list would."""
        length = len(self)
        low, high, _ = slice(start, end).indices(length)
        if low >= high:
            return []
        first = self._first(length)
        return [stored_slot(slot) for slot in self._thread.slice(first + low, first + high)]

    def get_by_type(self, payload_type: str) -> list[BufferSlot]:
        """Return the slots whose payload's class has this name."""
        return [stored_slot(slot) for slot in self._thread.by_type(payload_type)]

    def get_from(self, from_id: str) -> list[BufferSlot]:
        """Return the slots of one sender."""
        return [stored_slot(slot) for slot in self._thread.sent_by(from_id)]

    def _first(self, length: int) -> int:
        # A thread that ended and came back goes on counting, so its oldest slot need not be number 0.
        return self._thread[-1].index + 1 - length

    @property
    def _thread(self) -> Thread:
        return self._buffer.thread(self.thread_id)
