"""Slots: one message each, as frozen as a dataclass can be.

What a slot shows is worked out when it is asked for, so that appending costs little, and a payload that was edited
since can be told from one that was not. To its users a slot is a plain frozen dataclass: it is compared, replaced,
copied and pickled like one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from strongroom.compat.xml_pipeline.messages import HandlerMetadata
from strongroom.errors import Damaged, InvalidInput
from strongroom.services.threads.payloads import Inert, PayloadTypes, seal, type_name
from strongroom.values import moment


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


class Source(Protocol):
    """What a slot of a buffer is made of."""

    def payload(self) -> Any: ...
    def metadata(self) -> SlotMetadata: ...


@dataclass(frozen=True)
class BufferSlot:
    """A message of a thread. It never changes."""

    payload: Any
    metadata: SlotMetadata

    @classmethod
    def of(cls, source: Source) -> BufferSlot:
        """Make a slot that asks its source; the class's own __init__ takes several times as long."""
        made = object.__new__(cls)
        vars(made)["_source"] = source
        return made

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is not in the instance: the fields of a slot that has a source.
        source = vars(self).get("_source")
        if name == "payload" and source is not None:
            return source.payload()
        if name == "metadata" and source is not None:
            return vars(self).setdefault("metadata", source.metadata())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return BufferSlot, (self.payload, self.metadata)

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


# What a thread's metadata holds for this package.
HEADER_FIELDS = ("own_name", "is_self_call", "usage_instructions", "todo_nudge")


class Header(Struct, frozen=True):
    """What whoever appends a message says about it."""

    from_id: str
    to_id: str
    own_name: str | None = None
    is_self_call: bool = False
    usage_instructions: str = ""
    todo_nudge: str = ""

    def stored(self) -> dict[str, Any] | None:
        """Return the metadata that is stored with a message: what is not as usual, None if everything is."""
        return {name: value for name in HEADER_FIELDS if (value := getattr(self, name))} or None

    def metadata(self, thread_id: str, index: int, at: int, payload_type: str) -> SlotMetadata:
        """Say all that is known about a slot, made at so many microseconds after 1970."""
        return SlotMetadata(
            thread_id,
            self.from_id,
            self.to_id,
            index,
            moment(at).isoformat(),
            payload_type,
            self.own_name,
            self.is_self_call,
            self.usage_instructions,
            self.todo_nudge,
        )


def header_of(metadata: SlotMetadata | HandlerMetadata) -> Header:
    """Return what another message's metadata says about a new one."""
    to_id = getattr(metadata, "to_id", metadata.own_name or "")
    rest = (metadata.own_name, metadata.is_self_call, metadata.usage_instructions, metadata.todo_nudge)
    return Header(metadata.from_id, to_id, *rest)


def slot_to_handler_metadata(slot: BufferSlot) -> HandlerMetadata:
    """Return what a handler is told about a message."""
    metadata = slot.metadata
    return HandlerMetadata(
        thread_id=metadata.thread_id,
        from_id=metadata.from_id,
        own_name=metadata.own_name,
        is_self_call=metadata.is_self_call,
        usage_instructions=metadata.usage_instructions,
        todo_nudge=metadata.todo_nudge,
    )


def shown_type(payload: Any) -> str:
    """Return the name of a payload's class, as a slot tells it."""
    return payload.type if type(payload) is Inert else type(payload).__name__


# ---- leaving the process --------------------------------------------------------------------------------------------


class _Slot(Struct):
    type: str
    payload: msgspec.Raw
    metadata: SlotMetadata


# The classes that this process was given to serialize, by name; of two of one name, the one that came last.
_given: dict[str, type] = {}


def serialize_slot(slot: BufferSlot) -> bytes:
    """Return a slot as JSON, or raise `InvalidInput` saying which field of its payload is no data."""
    name, payload = type_name(slot.payload), msgspec.Raw(portable(slot.payload))
    if type(slot.payload) is not Inert:
        _given[name] = type(slot.payload)
    return msgspec.json.encode({"type": name, "payload": payload, "metadata": slot.metadata})


def deserialize_slot(data: bytes, types: PayloadTypes | None = None) -> BufferSlot:
    """Return the slot of some JSON, or raise `Damaged`.

    Its payload is of its class if that is one of `types`, or, without those, if this process has serialized one of it;
    otherwise it is `Inert`.
    """
    try:
        found = msgspec.json.decode(data, type=_Slot)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Damaged(f"this is not a slot: {problem}", reason="corrupt") from None
    if types is None:
        types = PayloadTypes()
        with suppress(InvalidInput):  # JSON's own types need not be known
            types.register(_given.get(found.type, Inert))
    try:
        payload = types.build(found.type, found.payload)
    except InvalidInput:  # data of another class of that name
        payload = PayloadTypes().build(found.type, found.payload)
    return BufferSlot(payload, found.metadata)


def portable(payload: Any) -> bytes:
    """Return a payload as JSON, or raise `InvalidInput` saying which field of it cannot leave this process."""
    try:
        return seal(payload)[1:-1]
    except InvalidInput as problem:
        field = _unportable_field(payload)
        where = f"the payload's field {field[0]!r}, a {type(field[1]).__name__}," if field else "the payload"
        raise InvalidInput(f"{where} cannot leave this process: {problem}", path=field[0] if field else "") from None


def _unportable_field(payload: Any) -> tuple[str, Any] | None:
    """Return the first field that is no data, if the payload has fields."""
    fields = payload if isinstance(payload, dict) else getattr(payload, "__dict__", None)
    for name, value in (fields or {}).items():
        try:
            seal({str(name): value} if isinstance(name, str) else {name: value})
        except InvalidInput:
            return str(name), value
    return None
