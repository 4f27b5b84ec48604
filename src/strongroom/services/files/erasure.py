"""Erasing what a path ever said, in one commit that also says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import InvalidInput, NotFound
from strongroom.operations import NOTHING, Operation, Plan, perform, still_pending
from strongroom.scope import Scope
from strongroom.services.files.paths import FILE, HISTORY, TEXT
from strongroom.services.files.plans import Trees, trees_at
from strongroom.services.files.values import file_state
from strongroom.store import Append, Delete, Entry, Erase, Expect, Get, Key, Range, Receipt, Record

PAGE = 50


class Erased(Struct, frozen=True):
    """What was erased. `pending` says why some of it may still lie in the store's files, out of anybody's reach."""

    path: str
    versions: int
    complete: bool
    pending: str | None = None


async def erase(scope: Scope, path: str, commit_id: str | None) -> Erased:
    """Erase a path's versions, and those of files that were moved to it from elsewhere."""
    history = scope.key(HISTORY, path)
    keys = trees_at(scope, path)

    async def attempt() -> Plan[Erased]:
        [end], [document, *counts] = await scope.read_all(
            [Range(history, 0, 0)], [Get(scope.key(FILE, path)), *map(Get, keys)]
        )
        if not end.length:
            raise NotFound(f"nothing was ever written at {path!r:.300}", kind=FILE, id=path)
        stretches = [Erase(history, 0, end.length), *await _sources(scope, path, 0, end.length)]
        await _require_all(scope, path, stretches)
        trees = Trees(dict(zip(keys, counts, strict=True)))
        if document is not None:
            trees.change(path, -1, -file_state(document).bytes)
        said = Append(history, (Entry("erased", encode({}), 0, scope.clock()),))
        gone = [Delete(scope.key(FILE, path)), Delete(scope.key(TEXT, path))]
        versions = sum(one.stop - one.start for one in stretches)
        return Plan(
            [*trees.expects(), Expect(history, end.length)],
            [said, *stretches, *gone, *trees.writes()],
            lambda receipt: told(versions, receipt.pending),
            encode(versions),
        )

    def told(versions: int, pending: str | None) -> Erased:
        return Erased(path, versions, pending is None, pending)

    async def replay(receipt: Receipt) -> Erased:
        assert receipt.answer is not None
        return told(receipt.answer.load(), await still_pending(scope, history, receipt))

    operation = Operation("files.erase", scope.key(FILE, path), NOTHING, commit_id)
    return await perform(scope, operation, attempt, replay)


async def _require_all(scope: Scope, path: str, stretches: Sequence[Erase]) -> None:
    """Refuse to call erased what stands elsewhere, where it was moved to. To erase it there erases it here, too."""
    left = {record.receiver async for record in _records(scope, scope.key(HISTORY, path), 0, None)} - {None}
    for target in sorted(map(str, left)):
        key = scope.key(HISTORY, target)
        async for record in _records(scope, key, 0, None):
            goes = any(one.key == key and one.start <= record.index < one.stop for one in stretches)
            if record.sender == path and not goes:
                raise InvalidInput(
                    f"what {path} said was moved to {target}, and stands there or in its history: erase {target}, "
                    "which erases it here, too; nothing changed",
                    path="path",
                )


async def _sources(scope: Scope, path: str, start: int, stop: int) -> list[Erase]:
    """Return the stretches of other histories that hold what came to a path when it was moved there."""
    found: list[Erase] = []
    waiting, seen = [(path, start, stop)], set[tuple[str, int]]()
    while waiting:
        target, first, last = waiting.pop()
        came = {record.sender async for record in _records(scope, scope.key(HISTORY, target), first, last)}
        for source in sorted(came - {None}, key=str):
            assert source is not None
            begin = 0
            async for record in _records(scope, scope.key(HISTORY, source), 0, None):
                if record.type not in ("deleted", "moved_away", "erased"):
                    continue
                stretch = (source, begin)
                if record.receiver == target and begin < record.index and stretch not in seen:
                    seen.add(stretch)
                    found.append(Erase(scope.key(HISTORY, source), begin, record.index))
                    waiting.append((source, begin, record.index))
                begin = record.index + 1
    return found


async def _records(scope: Scope, key: Key, start: int, stop: int | None) -> AsyncIterator[Record]:
    while True:
        part = await scope.some(Range(key, start, stop, PAGE))
        for record in part.records:
            yield record
        if not part.records:
            return
        start = part.records[-1].index + 1
