"""Payloads: from a caller's object to canonical bytes, and back without ever running what was stored.

A payload is a JSON value, a msgspec struct, a dataclass or a pydantic model. The bytes are the truth: they are made
when a slot is appended and never again. A type that was registered comes back as itself; any other comes back as
`Inert`, which is data and a name. Nothing is imported by name and nothing is unpickled, so a hostile record is only odd
data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from strongroom.codec import INT_MAX, INT_MIN, Json, encode
from strongroom.errors import Damaged, InvalidInput, said_by, shown
from strongroom.store import MAX_NAME

T = TypeVar("T", bound=type)

PLAIN: dict[type, str] = {
    dict: "dict",
    list: "list",
    tuple: "list",
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    NoneType: "NoneType",
}
_PLAIN_NAMES = frozenset(PLAIN.values())
_IMMUTABLE = (str, int, float, bool, NoneType)
SAFE = frozenset({str, bool, NoneType})

encode_body = msgspec.json.Encoder(order="sorted").encode


class Inert(Struct, frozen=True):
    """A payload whose type nobody registered: its type's name and its data, frozen."""

    type: str
    raw: Json

    @property
    def data(self) -> Any:
        """The stored JSON, as fresh objects at each access."""
        return self.raw.load()

    def __repr__(self) -> str:
        return f"Inert({self.type!r}, {self.raw.decode(errors='replace'):.200})"


def is_name(name: object) -> bool:
    """Say whether somebody can be called so."""
    return type(name) is str and 0 < len(name) <= MAX_NAME and name.isprintable()


CHAIN = "chain"  # the one key of a slot's metadata that is not its sender's: along which calls it came


class Opened(Struct, array_like=True):
    """A slot's body as it is stored, `[payload]` or `[payload, metadata]`, with the payload still closed."""

    payload: Raw
    metadata: dict[str, Any] = {}

    @property
    def chain(self) -> tuple[str, ...]:
        found = self.metadata.get(CHAIN, [])
        if not isinstance(found, list) or not all(map(is_name, found)):
            raise Damaged("the call chain of a slot is not one", reason="corrupt")
        return tuple(found)


_opener = msgspec.json.Decoder(Opened)


def seal(payload: Any, metadata: Mapping[str, Any] | None = None) -> Json:
    """Encode a slot, or raise `InvalidInput` saying what in it cannot be stored."""
    body = (payload, Raw(encode(dict(metadata), depth=1))) if metadata else (payload,)
    _, fields = kinds.get(type(payload)) or learn(type(payload))
    try:
        # msgspec writes a struct in C, but lets through what would come back changed: NaN, huge integers, bottomless
        # nesting. So look at the values first; only what is not plainly harmless is walked in full.
        for value in fields(payload):
            kind = type(value)
            if kind in SAFE or (kind is list and {*map(type, value)} <= SAFE):
                continue
            if kind is not int or not INT_MIN <= value <= INT_MAX:
                body = (Raw(encode(_plain(payload))), *body[1:])
                break
        return Json(encode_body(body))
    except InvalidInput:
        raise
    except UnicodeEncodeError:
        raise InvalidInput("the payload or its metadata holds a lone surrogate; nothing changed") from None
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"a {type(payload).__name__} cannot be stored: {problem}; nothing changed") from None
    except Exception as problem:  # whatever an object of somebody else's raises when it is looked at
        told = said_by(problem)
        raise InvalidInput(f"a {type(payload).__name__} cannot be stored: {told}; nothing changed") from None


def unseal(body: Json) -> Opened:
    """Open a slot's bytes, or raise `Damaged`."""
    try:
        return _opener.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Damaged(f"a slot's record is not what was written: {problem}", reason="corrupt") from None


def type_name(payload: Any) -> str:
    """Return the name a payload is filed under: its class's, or the JSON type's."""
    cls = type(payload)
    return payload.type if cls is Inert else PLAIN.get(cls) or cls.__name__


def unedited(payload: object, raw: Raw) -> bool:
    """Say whether an object still is what was appended."""
    if type(payload) in _IMMUTABLE:
        return True
    try:
        return bytes(raw) == bytes(unseal(seal(payload)).payload)
    except InvalidInput:
        return False


class PayloadTypes:
    """The types that come back as themselves, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, type] = {}

    def register(self, cls: T) -> T:
        """Let payloads of this class come back as themselves. Returns it, so it can be a decorator."""
        if not isinstance(cls, type) or not _is_typed(cls):
            told = "only a msgspec struct, a dataclass or a pydantic model can be registered"
            raise InvalidInput(f"{told}, not {shown(cls)}")
        known = self._by_name.setdefault(cls.__name__, cls)
        if known is not cls or cls.__name__ in _PLAIN_NAMES:
            raise InvalidInput(f"another payload type is already called {cls.__name__!r}; rename one of them")
        return cls

    def build(self, name: str, raw: Raw) -> Any:
        """Turn stored bytes into what the caller sees."""
        if name in _PLAIN_NAMES:
            return _load(raw)
        cls = self._by_name.get(name)
        return Inert(name, Json(bytes(raw))) if cls is None else build(cls, raw)


def build(cls: type, raw: Raw) -> Any:
    """Make an instance of a registered class from stored bytes."""
    try:
        if hasattr(cls, "model_validate_json"):
            return cls.model_validate_json(bytes(raw))
        return msgspec.json.decode(raw, type=cls)
    except (msgspec.MsgspecError, ValueError, TypeError) as problem:
        raise InvalidInput(f"what is stored does not fit the registered type {cls.__name__}: {problem}") from None


def _load(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Damaged(f"a slot's record is not what was written: {problem}", reason="corrupt") from None


Fields = Callable[[Any], Iterable[Any]]

# The name a class is filed under, and how to get at its values. Looked up on every append.
kinds: dict[type, tuple[str, Fields]] = {str: ("str", lambda _: ())}


def learn(cls: type) -> tuple[str, Fields]:
    """Find out how payloads of a class are stored, or raise `InvalidInput` if they cannot be."""
    if cls in PLAIN or cls is Inert or hasattr(cls, "model_validate_json"):
        fields: Fields = _unsafe
    elif issubclass(cls, Struct):
        fields = msgspec.structs.astuple
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        # attrgetter is the quickest way, and answers with a tuple for two names or more.
        fields = attrgetter(*names, *names[:1]) if names else lambda _: ()
    else:
        raise InvalidInput(
            "a payload must be a JSON value, a msgspec struct, a dataclass or a pydantic model, "
            f"not {cls.__name__}; nothing changed"
        )
    kind = PLAIN.get(cls) or cls.__name__, fields
    if cls is not Inert:  # which has the name of another class in each instance
        kinds[cls] = kind
    return kind


def _unsafe(payload: Any) -> tuple[object]:
    return (kinds,)  # a value that is never harmless, so that the payload is walked in full


def _plain(payload: Any) -> Any:
    if type(payload) in PLAIN:
        return payload
    if type(payload) is Inert:
        return payload.data
    return payload.model_dump(mode="json") if hasattr(payload, "model_dump") else msgspec.to_builtins(payload)


def _is_typed(cls: type) -> bool:
    return issubclass(cls, Struct) or dataclasses.is_dataclass(cls) or hasattr(cls, "model_validate_json")
