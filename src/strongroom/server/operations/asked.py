"""What somebody asks for, and how a method of a service is called with the arguments that came."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import Json
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.server.keys import Caller, Right
from strongroom.server.settings import Settings
from strongroom.services.runs.runs import ACTOR


class Asked(Struct, frozen=True):
    """An operation that somebody asked for. `besides` is None where the caller has not decided yet."""

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

    @property
    def more(self) -> dict[str, Any]:
        return self.besides or {}


Make = Callable[[Asked], Awaitable[object]]


class Row(Struct, frozen=True):
    """A right, the arguments that say who did it, how it is made, and what naming some argument takes besides."""

    right: Right
    who: tuple[str, ...]
    make: Make
    also: Mapping[str, Right] = {}
    takes_file: bool = False

    def needs(self, asked: Asked) -> set[Right]:
        """Return the rights that it takes."""
        named = {**asked.arguments, **asked.more}
        return {self.right, *(right for name, right in self.also.items() if named.get(name) is not None)}


def said(caller: Caller, given: object) -> str:
    """Return who is recorded: the key, and after it whom it says it acts for."""
    if given in (None, "", ACTOR):
        return caller.name
    return str(given) if caller.may("admin") else f"{caller.name}/{given}"


@cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


async def call(
    asked: Asked, method: Callable[..., Awaitable[object]], *given: object, named: Mapping[str, Any]
) -> object:
    named = {**named, "commit_id": asked.commit_id}
    try:
        _signature(method).bind(*given, **named)
    except TypeError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="content") from None
    return await method(*given, **named)


def of(part: str, method: Callable[..., Awaitable[object]], target: str | None = None) -> Make:
    """Call a method of a service; `target` names the argument that the target is."""

    async def made(asked: Asked) -> object:
        here = {} if target is None else {target: asked.id}
        return await call(asked, method, getattr(asked.ctx, part), named=asked.arguments | here)

    return made


def understood(kind: type[Any], value: object) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="content") from None
