"""An operation that a caller asked for, and how a method of a service is called with the arguments that came."""

from __future__ import annotations

import inspect
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from struct import calcsize, unpack
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import Json
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.server.keys import Caller, Right
from strongroom.server.settings import Settings


class Invocation(Struct, frozen=True):
    """An operation that somebody asked for. `besides` is None where the caller has not decided yet. `life` tells
    its target from what had that name before, as whoever asks knows it (see `operations.Operation`)."""

    ctx: AsyncContext
    caller: Caller
    settings: Settings
    name: str
    id: str
    content: Json
    arguments: dict[str, Any]
    besides: dict[str, Any] | None
    commit_id: str
    file: Path | None = None
    life: str = ""

    @property
    def more(self) -> dict[str, Any]:
        return self.besides or {}


Make = Callable[[Invocation], Awaitable[object]]


class Row(Struct, frozen=True):
    """A right, the arguments that say who did it, how it is made, and what naming some argument takes besides."""

    right: Right
    who: tuple[str, ...]
    make: Make
    also: Mapping[str, Right] = {}
    takes_file: bool = False

    def needs(self, op: Invocation) -> set[Right]:
        """Return the rights that it takes."""
        named = {**op.arguments, **op.more}
        return {self.right, *(right for name, right in self.also.items() if named.get(name) is not None)}


def said(caller: Caller, given: object) -> str:
    """Return who is recorded: the key, and after it whom it says it acts for."""
    if given in (None, ""):
        return caller.name
    return str(given) if caller.may("admin") else f"{caller.name}/{given}"


def named(row: Row, op: Invocation) -> Invocation:
    """Return what was asked for under the caller's own name."""
    who = {name: said(op.caller, op.arguments.get(name)) for name in row.who}
    return msgspec.structs.replace(op, arguments=op.arguments | who)


@cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


async def call(
    op: Invocation, method: Callable[..., Awaitable[object]], *given: object, named: Mapping[str, Any]
) -> object:
    named = {**named, "commit_id": op.commit_id}
    try:
        _signature(method).bind(*given, **named)
    except TypeError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="content") from None
    return await method(*given, **named)


def of(part: str, method: Callable[..., Awaitable[object]], target: str | None = None) -> Make:
    """Call a method of a service; `target` names the argument that the target is."""

    async def made(op: Invocation) -> object:
        here = {} if target is None else {target: op.id}
        return await call(op, method, getattr(op.ctx, part), named=op.arguments | here)

    return made


def expected(op: Invocation, name: str) -> dict[str, Any]:
    """Return what the caller saw, where it says so: that is no part of what the id stands for."""
    return {name: op.more[name]} if name in op.more else {}


def understood(kind: type[Any], value: object) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="content") from None


# Vectors come from callers: what is none, or could stand before all others, is refused before it is kept.
LARGEST = 1e4


def require_numbers(text: str, kind: str, rows: int) -> int:
    """Refuse what is not base 64 of so many rows of ordinary numbers; return how many a row has."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        raise InvalidInput("vectors are numbers in base 64; nothing changed") from None
    count, odd = divmod(len(raw), calcsize(kind))
    if not rows or not count or odd or count % rows:
        raise InvalidInput("vectors have as many numbers each as their embedder makes; nothing changed")
    if not all(isfinite(number) and abs(number) < LARGEST for number in unpack(f"<{count}{kind}", raw)):
        raise InvalidInput(f"vectors are of finite numbers below {LARGEST:g}; nothing changed")
    return count // rows
