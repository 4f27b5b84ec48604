"""Envelopes: messages as XML, `message/meta{from, to?, thread}` and one payload. Pure: bytes in, values out.

A payload's element has the name of its class, and one child for each field, whose name is compared without regard to
case, `_` and `-`. Whatever is sent is escaped; a document type, which could make a small message large, is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct

from strongroom.compat.xml_pipeline.messages import MessageState
from strongroom.errors import InvalidInput

NAMESPACE = "https://xml-pipeline.org/ns/envelope/v1"
MAX_BYTES = 8 * 1024 * 1024
_IN = f"{{{NAMESPACE}}}"


class Envelope(Struct, frozen=True):
    """A message as it came in. The payload is still an element."""

    from_id: str
    to_id: str
    thread_id: str
    payload: Any

    @property
    def tag(self) -> str:
        return str(self.payload.tag).rpartition("}")[2]


def read(raw: bytes) -> Envelope:
    """Read an envelope, or raise `InvalidInput` saying what is wrong with it."""
    if len(raw) > MAX_BYTES:
        raise InvalidInput(f"a message may have {MAX_BYTES} bytes, and this one has {len(raw)}")
    if b"<!DOCTYPE" in raw:
        raise InvalidInput("a message must not declare a document type")
    try:
        root = ET.fromstring(raw)
    except ET.ParseError as problem:
        raise InvalidInput(f"the message is not XML: {problem}") from None
    meta = root.find(f"{_IN}meta")
    if root.tag != f"{_IN}message" or meta is None:
        raise InvalidInput(f"a message is a <message> of {NAMESPACE} with <meta> and one payload")
    payloads = [child for child in root if child is not meta]
    if len(payloads) != 1:
        raise InvalidInput(f"a message has one payload, and this one has {len(payloads)}")
    told = {name: (meta.findtext(f"{_IN}{name}") or "").strip() for name in ("from", "to", "thread")}
    return Envelope(told["from"], told["to"], told["thread"], payloads[0])


def write(payload: Any, *, from_id: str, to_id: str, thread_id: str) -> bytes:
    """Write an envelope around a payload."""
    root = ET.Element("message", xmlns=NAMESPACE)
    meta = ET.SubElement(root, "meta")
    for name, text in (("from", from_id), ("to", to_id), ("thread", thread_id)):
        ET.SubElement(meta, name).text = text
    try:
        inner = _element(type(payload).__name__, msgspec.to_builtins(payload))
    except TypeError as problem:
        raise InvalidInput(f"a {type(payload).__name__} cannot be written as XML: {problem}") from None
    inner.set("xmlns", "")
    root.append(inner)
    return bytes(ET.tostring(root, encoding="utf-8"))


def message(payload: Any, from_id: str, to_id: str, thread_id: str) -> MessageState:
    """Return a payload on its way to somebody, as bytes too if it can leave this process."""
    try:
        raw = write(payload, from_id=from_id, to_id=to_id, thread_id=thread_id)
    except InvalidInput:
        raw = None
    return MessageState(raw_bytes=raw, payload=payload, thread_id=thread_id, from_id=from_id, to_id=to_id)


def load(cls: type, element: Any) -> Any:
    """Make a payload of an element, or raise `InvalidInput` if it does not fit the class."""
    return _made(cls, lambda: _value(cls, element))


def fitted(cls: type, payload: Any) -> Any:
    """Return a payload as its listener takes it: sender and listener may each have a class of that name."""
    return payload if isinstance(payload, cls) else _made(cls, lambda: msgspec.to_builtins(payload))


def _made(cls: type, value: Callable[[], Any]) -> Any:
    try:
        return msgspec.convert(value(), cls, strict=False)
    except (msgspec.ValidationError, TypeError, ValueError) as problem:
        raise InvalidInput(f"the payload does not fit {cls.__name__}: {problem}") from None


def _element(name: str, value: Any) -> ET.Element:
    made = ET.Element(name)
    if isinstance(value, dict):
        made.extend(_element(_pascal(str(key)), each) for key, each in value.items() if each is not None)
    elif isinstance(value, (list, tuple)):
        made.extend(_element("Item", each) for each in value)
    elif value is not None:
        made.text = str(value).lower() if isinstance(value, bool) else str(value)
    return made


def _value(cls: Any, element: Any) -> Any:
    """Return what an element says, in the shape its class needs."""
    if get_origin(cls) in (list, tuple, set, frozenset):
        [inner, *_] = get_args(cls) or (str,)
        return [_value(inner, child) for child in element]
    if not dataclasses.is_dataclass(cls):
        return (
            (element.text or "").strip() if len(element) == 0 else {child.tag: _value(str, child) for child in element}
        )
    types = get_type_hints(cls)
    names = {_plain(field.name): field.name for field in dataclasses.fields(cls)}
    found = {}
    for child in element:
        name = names.get(_plain(str(child.tag).rpartition("}")[2]))
        if name is None:
            raise InvalidInput(f"{cls} has no field {child.tag!r:.60}")
        found[name] = _value(types[name], child)
    return found


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
