"""Slots: one message each, frozen. What a slot shows is computed when asked for, so that appending costs little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import msgspec

from strongroom.compat.xml_pipeline.message_bus.message_state import HandlerMetadata
from strongroom.errors import Damaged
from strongroom.services.threads.payloads import PayloadTypes, seal, type_name, unseal
from strongroom.services.threads.values import Slot


@dataclass(frozen=True)
class SlotMetadata:
    """What is known about a message besides its payload."""

    thread_id: str
    from_id: str
    to_id: str
    slot_index: int
    timestamp: str
    payload_type: str
    own_name: str | None = None
    is_self_call: bool = False
    usage_instructions: str = ""
    todo_nudge: str = ""


@dataclass(frozen=True)
class BufferSlot:
    """A message of a thread. It never changes."""

    payload: Any
    metadata: SlotMetadata

    @property
    def thread_id(self) -> str:
        return self.metadata.thread_id

    @property
    def from_id(self) -> str:
        return self.metadata.from_id

    @property
    def to_id(self) -> str:
        return self.metadata.to_id

    @property
    def index(self) -> int:
        return self.metadata.slot_index


class _StoredSlot(BufferSlot):
    """A slot over a slot of the store, which guards its payload against edits."""

    __slots__ = ("_slot",)
    _slot: Slot

    @property
    def payload(self) -> Any:
        return self._slot.payload

    @property
    def metadata(self) -> SlotMetadata:
        slot = self._slot
        known = (slot.thread_id, slot.from_id, slot.to_id, slot.index, slot.at.isoformat(), slot.type)
        return SlotMetadata(*known, **slot.metadata)

    @property
    def index(self) -> int:
        return self._slot.index

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return BufferSlot, (self.payload, self.metadata)


_StoredSlot.__qualname__ = BufferSlot.__qualname__  # to its users it is one
_new = object.__new__
_fill: Callable[[BufferSlot, Slot], None] = vars(_StoredSlot)["_slot"].__set__


def stored_slot(slot: Slot) -> BufferSlot:
    """Show a slot of the store by the names of this package."""
    made = _new(_StoredSlot)
    _fill(made, slot)  # the frozen class's own __init__ takes several times as long
    return made


def told_of(
    own_name: str | None, is_self_call: bool, usage_instructions: str, todo_nudge: str
) -> dict[str, Any] | None:
    """Return the metadata that is stored with a message: what is not as usual, None if everything is."""
    if own_name is None and not (is_self_call or usage_instructions or todo_nudge):
        return None
    told = {
        "own_name": own_name,
        "is_self_call": is_self_call,
        "usage_instructions": usage_instructions,
        "todo_nudge": todo_nudge,
    }
    return {name: value for name, value in told.items() if value}


def told_in(metadata: SlotMetadata | HandlerMetadata) -> dict[str, Any]:
    """Return what another message's metadata says about a new one."""
    names = ("from_id", "own_name", "is_self_call", "usage_instructions", "todo_nudge")
    told = {name: getattr(metadata, name) for name in names}
    return {**told, "to_id": getattr(metadata, "to_id", metadata.own_name or "")}


def serialize_slot(slot: BufferSlot) -> bytes:
    """Return a slot as JSON."""
    payload = msgspec.Raw(unseal(seal(slot.payload)).payload)
    return msgspec.json.encode({"type": type_name(slot.payload), "payload": payload, "metadata": slot.metadata})


def deserialize_slot(data: bytes, types: PayloadTypes | None = None) -> BufferSlot:
    """Return the slot of some JSON, or raise `Damaged`. A type that was not registered comes back as `Inert`."""
    try:
        found = msgspec.json.decode(data, type=_Slot)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Damaged(f"this is not a slot: {problem}", reason="corrupt") from None
    return BufferSlot((types or PayloadTypes()).build(found.type, found.payload), found.metadata)


class _Slot(msgspec.Struct):
    type: str
    payload: msgspec.Raw
    metadata: SlotMetadata


def slot_to_handler_metadata(slot: BufferSlot) -> HandlerMetadata:
    """Return what a handler is told about a message."""
    told = slot.metadata
    return HandlerMetadata(
        thread_id=told.thread_id,
        from_id=told.from_id,
        own_name=told.own_name,
        is_self_call=told.is_self_call,
        usage_instructions=told.usage_instructions,
        todo_nudge=told.todo_nudge,
    )
