"""What is recorded of an erasure: in the log which memories it took, in its receipt the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Protocol

import msgspec

from strongroom.codec import Json, encode
from strongroom.errors import Damaged
from strongroom.operations import traces
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.store import Append, Range, Receipt, Tail, Write

NOTED = 1000  # ids in one entry of the log
PAGE = 100


class Telling(Protocol):
    """What an erasure tells: which memories it took, and which derived from those it left."""

    @property
    def by(self) -> str: ...
    @property
    def memories(self) -> tuple[str, ...]: ...
    @property
    def derived(self) -> tuple[str, ...]: ...


async def noted(scope: Scope, at: int, told: Telling) -> tuple[tuple[Write, ...], Json]:
    """Return what records that an erasure is done, and what its receipt keeps.

    A receipt is bounded, and there may be any number of ids: those stand in the log, as entries of bounded size. A log
    that is damaged takes no entry; nor was any memory erased then.
    """
    log = keys.log_key(scope.space)
    try:
        await scope.get(Tail(log, 1))
    except Damaged:
        return (traces(log),), encode(msgspec.to_builtins(told))
    memories, derived = _parts(told.memories), _parts(told.derived)
    entries = [
        entry
        for removed, left in zip_longest(memories, derived, fillvalue=())
        for entry in keys.log(scope.space, "ERASED", at, told.by, removed=[*removed], derived=[*left]).entries
    ]
    kept = {**msgspec.to_builtins(told), "memories": (), "derived": (), "entries": len(entries)}
    return (Append(log, tuple(entries)), traces(log)), encode(kept)


async def recalled(scope: Scope, receipt: Receipt) -> dict[str, Any]:
    """Return what an erasure told the first time, from its receipt and the log."""
    assert receipt.answer is not None
    told: dict[str, Any] = receipt.answer.load()
    stop = receipt.versions[0]
    place = stop - told.pop("entries", 0)
    while place < stop:
        part = await scope.some(Range(keys.log_key(scope.space), place, stop, PAGE))
        for record in part.records:
            assert record.body is not None
            body = record.body.load()
            told["memories"] += body["removed"]
            told["derived"] += body.get("derived", ())
        place = part.records[-1].index + 1
    return told


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + NOTED] for start in range(0, max(len(ids), 1), NOTED)]
