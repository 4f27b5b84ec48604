"""Reading what is known about threads: how they stand, which ones live, and which have been unused for longest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from strongroom.errors import Damaged
from strongroom.scope import Scope
from strongroom.services.threads.plans import INFO, THREAD, Found, count_key, found, questions
from strongroom.store import Document, Get, Key, Scan, Slice, Tail

PAGE = 256


class Used(Struct, frozen=True, order=True):
    """When a thread was last written to, and how long it was then."""

    at: int
    thread_id: str
    length: int


async def look(scope: Scope, keys: Sequence[Key]) -> tuple[list[Found], Document | None]:
    """Return what a plan for these threads needs, and the document that counts all of them, from one snapshot."""
    *answers, count = await scope.get_all([*questions(keys), Get(count_key(scope.space))])
    assert not isinstance(count, Slice)
    return found(keys, answers), count


async def live(scope: Scope) -> AsyncIterator[list[Key]]:
    """Yield the keys of all live threads, some at a time."""
    async for page in scope.pages(Scan(scope.space, INFO, {"state": "live"}, limit=PAGE)):
        yield [scope.key(THREAD, info.key.id) for info in page]


async def by_use(scope: Scope) -> list[Used]:
    """List the live threads, the one unused for longest first."""
    used = []
    async for keys in live(scope):
        asked = [Tail(key, 1) for key in keys]
        try:
            slices = await scope.get_all(asked)
        except Damaged:
            slices = [await _newest(scope, tail) for tail in asked]
        used += [
            Used(here.records[0].at, key.id, here.length)
            for key, here in zip(keys, slices, strict=True)
            if here.records
        ]
    return sorted(used)


async def _newest(scope: Scope, tail: Tail) -> Slice:
    try:
        return await scope.get(tail)
    except Damaged:
        return Slice(0, 0, ())  # what can not be read is not thrown away either
