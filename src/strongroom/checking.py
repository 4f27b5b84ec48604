"""Is everything stored what was written? The store's own check, and every run of every space against its ledger.

A store looks at pages, rows, checksums, indexes and hash chains, and knows nothing of runs. A run whose state was
exchanged for another, with all checksums right, is found by `verify` only; so both are asked. Nor does a store know
that a ledger without a run is what is left of one that somebody took away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct

from strongroom.backends.memory import link
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import Damaged, InvalidInput, StrongroomError
from strongroom.scope import Scope
from strongroom.services.memories.keys import MEMORY
from strongroom.services.packs.staging import KIND as STAGING
from strongroom.services.runs.ledger import KIND as LEDGER
from strongroom.services.runs.state import KIND as RUN
from strongroom.services.runs.state import POINTER
from strongroom.services.sessions.state import SESSION
from strongroom.store import Exportable, ExportItem, ExportPage, Get, Key, Range, Scan, Store, ask
from strongroom.unfinished import MARK, is_unfinished
from strongroom.unfinished import SPACE as COPY

MOST_PROBLEMS = 100
STEP = 1_000
PAGE = 100
OWN = "strongroom:"  # how the names of spaces begin that are Strongroom's own


class SpaceSize(Struct):
    """How much a space held when it was looked at. `bytes` are those of its content, without indexes."""

    space: str
    runs: int = 0
    sessions: int = 0
    memories: int = 0
    documents: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, item: ExportItem, *, first: bool) -> None:
        """Count an item; `first` unless it is a later stretch of the same stream."""
        if first and item.alive and not item.stream:
            self.documents += 1
            self.runs += item.key.kind == RUN
            self.sessions += item.key.kind == SESSION
            self.memories += item.key.kind == MEMORY
        self.records += len(item.records)
        self.bytes += len(item.value or b"") + len(item.text or "")
        self.bytes += sum(len(record.body or b"") + len(record.text or "") for record in item.records)


class Checked(Struct, frozen=True):
    """What was looked at, and what is wrong with it. `problems` ends after a hundred; the largest space comes first.

    Documents and streams are those that live; a tombstone is all that is left of one that was deleted. `pending` tells
    of an erasure that is not complete: bytes of what was erased may still lie in the store's files. `unfinished` is the
    target of a copy that was interrupted, which finds the rest where it left off.
    """

    ok: bool
    documents: int
    streams: int
    tombstones: int
    records: int
    runs: int
    problems: tuple[str, ...]
    pending: str | None = None
    spaces: tuple[SpaceSize, ...] = ()
    unfinished: bool = False


class _Staged(Struct):
    """What the note of a staging tells of it."""

    streams: list[tuple[str, str]]


class _Ledgers:
    """Which ledgers no run is known of so far. A run comes in one commit with its ledger, so these are few at any time.

    Nothing of ours takes a run's document away: an erasure leaves it, emptied. The ledger of a run that was restored is
    named by the run's own one (a pointer), and before that by the note of what is staged.
    """

    def __init__(self) -> None:
        self.alone: set[tuple[str, str]] = set()
        self._awaited: set[tuple[str, str]] = set()

    def look(self, item: ExportItem) -> None:
        """Hear of an item that lives."""
        space, kind, id = item.key.space, item.key.kind, item.key.id
        if kind == RUN:
            self._named(space, id)
        elif kind == STAGING and item.value is not None:
            with suppress(MsgspecError):
                for staged, name in msgspec.json.decode(item.value, type=_Staged).streams:
                    if staged == LEDGER:
                        self._named(space, name)
        elif kind == LEDGER:
            for record in item.records[:1]:
                if record.type == POINTER and record.body is not None:
                    with suppress(MsgspecError):
                        self._named(space, msgspec.json.decode(record.body, type=str))
            if (space, id) in self._awaited:
                self._awaited.remove((space, id))
            else:
                self.alone.add((space, id))

    def _named(self, space: str, id: str) -> None:
        if (space, id) in self.alone:
            self.alone.remove((space, id))
        else:
            self._awaited.add((space, id))


class _Walk:
    """A look at every item, for stores that have no check of their own; which spaces there are, and their sizes."""

    def __init__(self) -> None:
        self.documents = self.streams = self.tombstones = self.records = 0
        self.spaces: dict[str, SpaceSize] = {}
        self.problems: list[str] = []
        self.ended: str | None = None  # why what comes later was not looked at
        self.mark: ExportItem | None = None  # what a copy notes for itself is no content
        self.ledgers = _Ledgers()
        self._last: Key | None = None
        self._expected = 0
        self._chain: bytes | None = None

    def over(self, store: Exportable) -> None:
        """Look at everything. What is damaged is noted and passed over, if the store can say what comes behind it."""
        after: str | None = None
        step = STEP
        while True:
            try:
                exported: ExportPage = store.unload(after, step)
            except Damaged as damage:
                if step > 1:  # what stands before it is to be seen
                    step = max(1, step // 8)
                    continue
                if not damage.place:
                    self.ended = (
                        f"database: {damage}; what comes behind it was not looked at, nor the runs of spaces that only "
                        "come there"
                    )
                    return
                self.problems.append(f"database: {damage}")
                after, step = damage.place, STEP
                continue
            for item in exported.items:
                if item.key == MARK:
                    self.mark = item
                self._count(item)
                self._look(item)
            after = exported.next
            if after is None:
                return

    def _count(self, item: ExportItem) -> None:
        space = item.key.space
        size = self.spaces.setdefault(space, SpaceSize(space))
        size.add(item, first=item.key != self._last)

    def _look(self, item: ExportItem) -> None:
        name = f"{item.key.kind} {item.key.id!r} in {item.key.space!r}"
        if item.key != self._last:  # the stretches of a stream follow each other
            self._last, self._expected, self._chain = item.key, item.version, item.chain
            self.streams += item.alive and item.stream
            self.documents += item.alive and not item.stream
            self.tombstones += not item.alive
            if item.alive:
                self.ledgers.look(item)
        for record in item.records:
            self.records += 1
            if record.index != self._expected:
                self.problems.append(f"{name}: records {self._expected} to {record.index - 1} are missing")
            elif link(self._chain, record.commitment) != record.chain:
                self.problems.append(f"{name}: the hash chain breaks at record {record.index}")
            self._expected, self._chain = record.index + 1, record.chain


def check(store: Store) -> Checked:
    """Verify all of a store. Reads everything, some of it twice; changes nothing."""
    if not isinstance(store, Exportable):
        raise InvalidInput("a server shows one space; check the store it serves, where it is")
    walk = _Walk()
    walk.over(store)
    found: Any = walk
    problems: list[str] = []
    if hasattr(store, "check"):
        try:
            found = store.check()
        except Damaged as damage:  # it could not go on to the end, and the walk did
            problems.append(f"database: its own check did not come to an end ({damage})")
    problems += found.problems
    if walk.ended is not None:
        problems.append(walk.ended)
    unfinished = _is_unfinished(store, problems)
    if unfinished:
        problems.append("a copy into this store was interrupted: parts of its source are missing; finish it")
    runs = 0
    bad: list[str] = []
    for space in walk.spaces:
        if space == COPY:
            continue
        for problem in _runs(store, space):
            runs += problem is None
            if problem is not None and len(bad) < MOST_PROBLEMS:
                bad.append(problem)
    bad += _without_a_run(store, sorted(walk.ledgers.alone))
    kept = min(len(bad), max(MOST_PROBLEMS // 2, MOST_PROBLEMS - len(problems)))  # neither hides the other
    problems = problems[: MOST_PROBLEMS - kept] + bad[:kept]
    pending = getattr(found, "pending", None)
    mark = walk.mark
    sizes = sorted(walk.spaces.values(), key=lambda each: (-each.bytes, each.space))
    return Checked(
        not problems,
        found.documents - (mark is not None and mark.alive),
        found.streams,
        found.tombstones - (mark is not None and not mark.alive),
        found.records,
        runs,
        tuple(problems),
        pending,
        tuple(each for each in sizes if not each.space.startswith(OWN)),
        unfinished,
    )


def _is_unfinished(store: Store, problems: list[str]) -> bool:
    try:
        return is_unfinished(store)
    except Damaged as damage:
        problems.append(f"database: whether a copy into it was interrupted cannot be read ({damage})")
        return False


def _without_a_run(store: Store, ledgers: list[tuple[str, str]]) -> Iterator[str]:
    """Name ledgers whose run is not there. One that cannot be read is named already."""
    for space, id in ledgers:
        with suppress(Damaged):
            if ask(store, Get(Key(space, RUN, id))) is None and ask(store, Range(Key(space, LEDGER, id), 0, 0)).length:
                yield f"run {id!r} in {space!r}: its ledger is there, and the run itself is gone"


def _runs(store: Store, space: str) -> Iterator[str | None]:
    """Verify the runs of a space: None for each that was looked at, then what is wrong with it."""
    runs = Context(AsyncContext(Scope(Inline(store), space))).runs
    after: str | None = None
    limit = PAGE
    while True:
        try:
            page = ask(store, Scan(space, RUN, after=after, limit=limit))
        except Damaged as damage:
            if not damage.place:
                yield f"runs in {space!r}: not all of them could be looked at ({damage})"
                return
            if limit > 1:  # what stands before it in the page is to be seen
                limit = 1
                continue
            yield f"run {damage.id!r} in {space!r}: cannot be read ({damage})"
            after, limit = damage.place, PAGE
            continue
        for document in page.documents:
            yield None
            name = f"run {document.key.id!r} in {space!r}"
            try:
                told = runs.get(document.key.id).verify()
            except (StrongroomError, MsgspecError) as problem:
                yield f"{name}: cannot be read ({problem})"
                continue
            if not told.ok:
                place = "" if told.first_bad is None else f" (event {told.first_bad})"
                yield f"{name}: {told.reason}{place}"
        after = page.next
        if after is None:
            return
