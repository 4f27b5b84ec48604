"""Erasing what a path ever said, in one commit that also says so.

A history is a row of lives: each begins when a file is written or comes from elsewhere, and ends when it is deleted,
moves away or is erased. A file that moves leaves a life at each path it was at, the last of them where it is now or was
last. So every file ends at one path, and is erased there with all of its lives, however often paths were swapped. Its
older lives at other paths go with it; to be asked for one of those paths says nothing about the file that went on.

What is restored from the history of a path is a file of its own, though it says what another said that moved away. It
stays when that one is erased, and is named.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

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
MOST_TOLD = 50  # paths in an answer, which is kept with its receipt


class Erased(Struct, frozen=True):
    """What was erased. `pending` says why some of it may still lie in the store's files, out of anybody's reach.

    `elsewhere` names the paths (at most 50) of files that were once here and moved on, and of those that were restored
    from what was said on the way: they still say what they say.
    """

    path: str
    versions: int
    complete: bool
    pending: str | None = None
    elsewhere: tuple[str, ...] = ()


async def erase(scope: Scope, path: str, commit_id: str | None) -> Erased:
    """Erase a path's versions, and what files said elsewhere before they came to it."""
    history = scope.key(HISTORY, path)
    keys = trees_at(scope, path)

    async def attempt() -> Plan[Erased]:
        [end], [document, *counts] = await scope.read_all(
            [Range(history, 0, 0)], [Get(scope.key(FILE, path)), *map(Get, keys)]
        )
        if not end.length:
            raise NotFound(f"nothing was ever written at {path!r:.300}", kind=FILE, id=path)
        ways = _Ways(scope)
        moved = await ways.ends(path)
        if moved and not await ways.ended_at(path):
            raise _moved_on(path, moved)
        elsewhere = await ways.ends(path, restored=True)
        earlier = [Erase(scope.key(HISTORY, one.path), one.start, one.stop) for one in await ways.earlier(path)]
        trees = Trees(dict(zip(keys, counts, strict=True)))
        if document is not None:
            trees.change(path, -1, -file_state(document).bytes)
        said = Append(history, (Entry("erased", encode({}), 0, scope.clock()),))
        gone = [Delete(scope.key(FILE, path)), Delete(scope.key(TEXT, path))]
        versions = end.length + sum(one.stop - one.start for one in earlier)
        told = {"versions": versions, "elsewhere": elsewhere[:MOST_TOLD]}
        return Plan(
            [*trees.expects(), Expect(history, end.length)],
            [said, Erase(history, 0, end.length), *earlier, *gone, *trees.writes()],
            lambda receipt: _told(path, told, receipt.pending),
            encode(told),
        )

    async def replay(receipt: Receipt) -> Erased:
        assert receipt.answer is not None
        return _told(path, receipt.answer.load(), await still_pending(scope, history, receipt))

    operation = Operation("files.erase", scope.key(FILE, path), NOTHING, commit_id)
    return await perform(scope, operation, attempt, replay)


def _told(path: str, told: dict[str, Any], pending: str | None) -> Erased:
    return Erased(path, told["versions"], pending is None, pending, tuple(told["elsewhere"]))


def _moved_on(path: str, elsewhere: Sequence[str]) -> InvalidInput:
    """Return the refusal to call erased what stands elsewhere. To erase it there erases it here, too."""
    where = " and ".join(elsewhere[:3]) + (" and elsewhere" if len(elsewhere) > 3 else "")
    return InvalidInput(
        f"what {path} said was moved to {where}, and stands there or in its history: erase {elsewhere[0]}, "
        "which erases it here, too; nothing changed",
        path="path",
    )


# ---- the ways of files ----------------------------------------------------------------------------------------------


class _Move(Struct, frozen=True):
    """Where a file came from or went to, and when: both histories tell the same time of it."""

    other: str
    at: int


class _Life(Struct, frozen=True):
    """What a file said at a path between coming and going: records start <= index < stop. `restored` are those of the
    path that it said again."""

    path: str
    start: int
    stop: int
    came: _Move | None
    went: _Move | None
    stands: bool
    restored: tuple[int, ...]

    def repeats(self, other: _Life) -> bool:
        """Tell whether this says again what another life at the same path said."""
        return any(other.start <= index < other.stop for index in self.restored)


class _Ways:
    """The lives of files at every path that is asked for, each history read once."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[str, list[_Life]] = {}
        self._came: dict[tuple[str, _Move | None], list[_Life]] = {}
        self._went: dict[tuple[str, _Move | None], list[_Life]] = {}

    async def ended_at(self, path: str) -> bool:
        """Tell whether something stands at a path that has not moved on: a file, or what one said before it went."""
        return any(life.stands and life.went is None for life in await self._lives(path))

    async def ends(self, path: str, *, restored: bool = False) -> list[str]:
        """Return the other paths where files stand now, or stood last, that were once at a path; also where those do
        that say again what was said on any of their ways, if that is asked for."""
        lives = await self._walk(path, forth=True, back=restored, restored=restored)
        return sorted({life.path for life in lives if life.stands and life.went is None and life.path != path})

    async def earlier(self, path: str) -> list[_Life]:
        """Return the lives elsewhere of all files that ever came to a path."""
        return [life for life in await self._walk(path, back=True) if life.path != path]

    async def _walk(self, path: str, *, forth: bool = False, back: bool = False, restored: bool = False) -> list[_Life]:
        """Return the lives at a path, and those that moves, or what was restored, lead to from there."""
        found = dict.fromkeys(await self._lives(path))
        waiting = list(found)
        while waiting:
            life = waiting.pop()
            met = list[_Life]()
            if forth:
                met += await self._met(life, life.went, self._came)
            if back:
                met += await self._met(life, life.came, self._went)
            if restored:
                met += [one for one in await self._lives(life.path) if one.repeats(life) or life.repeats(one)]
            new = [one for one in met if one not in found]
            found |= dict.fromkeys(new)
            waiting += new
        return list(found)

    async def _met(
        self, life: _Life, move: _Move | None, others: dict[tuple[str, _Move | None], list[_Life]]
    ) -> list[_Life]:
        """Return the lives at the other end of a move."""
        if move is None:
            return []
        await self._lives(move.other)
        return others.get((move.other, _Move(life.path, move.at)), [])

    async def _lives(self, path: str) -> list[_Life]:
        if path not in self._known:
            self._known[path] = [life async for life in _lives(self._scope, path)]
            for life in self._known[path]:
                self._came.setdefault((path, life.came), []).append(life)
                self._went.setdefault((path, life.went), []).append(life)
        return self._known[path]


async def _lives(scope: Scope, path: str) -> AsyncIterator[_Life]:
    start, stop, came, stands, restored = 0, 0, None, False, list[int]()
    async for record in _records(scope, scope.key(HISTORY, path)):
        if record.type in ("deleted", "moved_away", "erased"):
            went = None if record.receiver is None else _Move(record.receiver, record.at)
            if start < record.index:
                yield _Life(path, start, record.index, came, went, stands, tuple(restored))
            start, came, stands, restored = record.index + 1, None, False, []
        else:
            came = came if record.sender is None else _Move(record.sender, record.at)
            stands = stands or record.body is not None
            restored += [] if record.receiver is None else [int(record.receiver) - 1]
        stop = record.index + 1
    if start < stop:
        yield _Life(path, start, stop, came, None, stands, tuple(restored))


async def _records(scope: Scope, key: Key) -> AsyncIterator[Record]:
    start = 0
    while True:
        part = await scope.some(Range(key, start, None, PAGE))
        for record in part.records:
            yield record
        if not part.records:
            return
        start = part.records[-1].index + 1
