"""JSON as this project stores it: strict on the way in, canonical bytes at rest.

Canonical means UTF-8, object keys sorted, no white space, shortest numbers: equal values have equal bytes, so they
can be hashed and compared. Strict means that whatever would come back changed is refused now, not found out later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, NoReturn

import msgspec

from strongroom.errors import BudgetExceeded, InvalidInput

MAX_DEPTH = 100
ENVELOPE = 8  # levels that ledgers, packs and the wire put around what a caller gave, at most
MAX_VALUES = 500_000  # texts, numbers, lists, objects in what a caller of a server sends
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def _hook(value: object) -> object:
    """Return the text of a subclass of `str` in one of our own values: a caller's text is what it says."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_hook)
_decoder = msgspec.json.Decoder()


class Json(bytes):
    """Canonical JSON bytes. Only this module makes them, so holding one proves that it is valid."""

    __slots__ = ()

    def load(self) -> Any:
        """Return the value as fresh Python objects."""
        return _decoder.decode(self)


def encode(value: object, *, depth: int = 0) -> Json:
    """Turn plain data into canonical bytes, or raise `InvalidInput` naming the path of what cannot be stored.

    `depth` is how many levels deep it will stand in something larger, which must not be nested too deep either. Of what
    holds something that was accepted before, `-ENVELOPE`: a value that fitted must fit ever after.
    """
    if not _storable(value, depth):
        _explain(value, "$", depth)
    try:
        return Json(_encoder.encode(value))
    except UnicodeEncodeError:
        _explain(value, "$", depth)


def pack(value: msgspec.Struct | dict[str, Any]) -> Json:
    """Encode one of our own values, which are already known to hold nothing but plain JSON."""
    try:
        return Json(_encoder.encode(value))
    except UnicodeEncodeError:
        # What is raw was encoded before, so it is not that.
        _explain(
            msgspec.to_builtins(value, enc_hook=lambda one: None if type(one) is msgspec.Raw else _hook(one)), "$", 0
        )


def parse(raw: bytes | str, *, depth: int = 0) -> Any:
    """Read JSON written by somebody else, refusing what parsers let slip (duplicate keys, NaN, lone surrogates).

    `depth` is as in `encode`.
    """
    if type(raw) is bytes and b"\\" not in raw:
        try:
            value = _decoder.decode(raw)
            # Nothing is escaped: each text has two quotation marks, and a key given twice left fewer texts than that.
            if 2 * _count_texts(value, depth) == raw.count(b'"'):
                return value
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass  # the slow way says what is wrong
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        value = _strict.decode(text)
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput(f"JSON is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as problem:
        raise InvalidInput(f"not valid JSON: {problem}") from None
    encode(value, depth=depth)
    return value


def count_values(raw: bytes) -> int:
    """Return how many values JSON holds at most: commas and brackets within texts are counted as well."""
    first_items = raw.count(b"[") + raw.count(b"{") - raw.count(b"[]") - raw.count(b"{}")
    return 1 + raw.count(b",") + first_items


def require_few_values(raw: bytes, most: int = MAX_VALUES) -> None:
    """Refuse JSON of more than `most` values before it is parsed: a value of two bytes can take seventy in memory."""
    if count_values(raw) <= most:
        return
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = plain.count(b'"') // 2
    if texts <= most and count_values(b"".join(plain.split(b'"')[::2])) <= most:
        return
    raise BudgetExceeded(f"at most {most} values at once; nothing changed", limit=most, needed=most + 1)


def trusted(raw: bytes) -> Json:
    """Mark bytes read back from a store, where `encode` put them, as canonical."""
    return Json(raw)


def _count_texts(value: Any, depth: int) -> int:
    """Return how many texts, keys among them, there are in parsed JSON; less than none if it cannot be stored."""
    kind = type(value)
    if kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            return _TOO_FEW
        texts, items = (len(value), value.values()) if kind is dict else (0, value)
        for item in items:
            texts += 1 if type(item) is str else _count_texts(item, depth + 1)
        return texts
    if kind is str:
        return 1
    if kind is int:
        return 0 if INT_MIN <= value <= INT_MAX else _TOO_FEW
    return 0 if kind is not float or isfinite(value) else _TOO_FEW


_TOO_FEW = -(2**62)  # whatever is added to it


def _storable(value: Any, depth: int) -> bool:
    # Exact types, the frequent ones first: this runs on every write, `_explain` only on the way to an error.
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is dict:
        if depth >= MAX_DEPTH:
            return False
        for key, item in value.items():
            if type(key) is not str or not (type(item) is str or _storable(item, depth + 1)):
                return False
        return True
    if kind is list or kind is tuple:
        if depth >= MAX_DEPTH:
            return False
        for item in value:  # noqa: SIM110 - all() with a generator is half as fast
            if not (type(item) is str or _storable(item, depth + 1)):
                return False
        return True
    if kind is int:
        return bool(INT_MIN <= value <= INT_MAX)
    return kind is float and isfinite(value)


def _explain(value: Any, path: str, depth: int) -> NoReturn:
    problem = _problem(value, path, depth)
    assert problem is not None, "refused a value without finding what is wrong with it"
    raise problem


def _problem(value: Any, path: str, depth: int) -> InvalidInput | None:
    kind = type(value)
    if kind in (dict, list, tuple):
        if depth >= MAX_DEPTH:
            return InvalidInput(f"JSON is nested deeper than {MAX_DEPTH} levels", path=path[:60] + "...")
        pairs: Iterable[tuple[Any, Any]] = value.items() if kind is dict else enumerate(value)
        for key, item in pairs:
            if kind is dict and type(key) is not str:
                return InvalidInput(f"an object key must be a string, not {type(key).__name__}", path=path)
            if kind is dict and not _is_unicode(key):
                return InvalidInput("an object key holds a lone surrogate", path=path)
            found = _problem(item, f"{path}.{key}" if kind is dict else f"{path}[{key}]", depth + 1)
            if found is not None:
                return found
        return None
    if kind is str:
        return None if _is_unicode(value) else InvalidInput("text holds a lone surrogate", path=path)
    if kind is int:
        fits = INT_MIN <= value <= INT_MAX
        return None if fits else InvalidInput("integer does not fit in 64 bits; store it as a string", path=path)
    if kind is float:
        return None if isfinite(value) else InvalidInput(f"{value} is not a JSON number", path=path)
    if value is None or kind is bool:
        return None
    return InvalidInput(f"{kind.__name__} is not JSON data; convert it first", path=path)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in pairs:
        if key in found:
            raise InvalidInput(f"duplicate key {key[:60]!r} in a JSON object")
        found[key] = item
    return found


def _no_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not a JSON number")


def _int(digits: str) -> int:
    if len(digits) > 20:  # before int(): ten megabytes of digits must not cost a quadratic conversion
        raise InvalidInput("integer does not fit in 64 bits; store it as a string")
    return int(digits)


_strict = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_int)
