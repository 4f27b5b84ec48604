"""Writing more than one commit should hold, so that it still appears all at once or not at all.

What is too big goes, a few commits at a time, to streams whose names nobody else knows. A marker document lists them;
the last commit puts the documents that point to them and deletes the marker. Until then nobody can see any of it, and
what a crash leaves behind is found by its marker and swept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from strongroom.codec import encode
from strongroom.errors import Conflict, StrongroomError
from strongroom.operations import Plan, made_here, step
from strongroom.scope import Scope
from strongroom.store import EXISTS, Append, Delete, Entry, Expect, Key, Put, Scan, Write, new_id

KIND = "staging"
FLUSH_BYTES = 1 << 20
FLUSH_ENTRIES = 1000
STALE_MICROSECONDS = 24 * 3600 * 1_000_000


class Staging:
    """Appends on their way to being visible."""

    def __init__(self, scope: Scope, run_id: str) -> None:
        self._scope = scope
        self._run_id = run_id
        self._key = scope.key(KIND, new_id())
        self._started = scope.clock()
        self._version = 0
        self._streams: list[Key] = []
        self._listed = 0
        self._pending: list[tuple[Key, list[Entry]]] = []
        self._bytes = 0
        self._entries = 0

    async def append(self, key: Key, entry: Entry) -> None:
        """Add a record to a stream of this staging; commit what has gathered if it is much."""
        if key not in self._streams:
            self._streams.append(key)
        if not self._pending or self._pending[-1][0] != key:
            self._pending.append((key, []))
        self._pending[-1][1].append(entry)
        self._bytes += len(entry.body)
        self._entries += 1
        if self._bytes >= FLUSH_BYTES or self._entries >= FLUSH_ENTRIES:
            await self._flush()

    async def _flush(self) -> None:
        writes = self._take()
        if not made_here(self._scope):
            return  # the server takes it in
        if self._listed != len(self._streams):
            writes = (self._marker(), *writes)
            expects: tuple[Expect, ...] = (Expect(self._key, self._version),)
            self._version += 1
            self._listed = len(self._streams)
        else:
            expects = self.expects
        await _commit(self._scope, self._key, expects, writes)

    @property
    def expects(self) -> tuple[Expect, ...]:
        """What the last commit must expect: that nobody swept what was staged."""
        return (Expect(self._key, self._version),) if self._version else ()

    def last_writes(self) -> tuple[Write, ...]:
        """Return what the last commit must write besides its documents. Asking again gives the same."""
        marker: tuple[Write, ...] = (Delete(self._key),) if self._version else ()
        return (*(Append(key, tuple(entries)) for key, entries in self._pending), *marker)

    def forget_writes(self) -> tuple[Write, ...]:
        """Return what removes everything staged so far."""
        return (*(Delete(key) for key in self._streams), Delete(self._key)) if self._version else ()

    async def abandon(self) -> None:
        """Remove what was staged, unless it is visible. If even that fails, the marker is there for the sweep."""
        if self._version:
            with suppress(StrongroomError):
                # The marker goes with the commit that makes it visible: where an answer was lost, it tells which.
                there = Expect(self._key, EXISTS)
                await _commit(self._scope, self._key, (there,), self.forget_writes())

    def _take(self) -> tuple[Write, ...]:
        taken = tuple(Append(key, tuple(entries)) for key, entries in self._pending)
        self._pending, self._bytes, self._entries = [], 0, 0
        return taken

    def _marker(self) -> Put:
        streams = [[key.kind, key.id] for key in self._streams]
        return Put(self._key, encode({"at": self._started, "streams": streams}), tags={"run": self._run_id})


async def leftovers(scope: Scope, tags: dict[str, str], *, before: int) -> tuple[tuple[Expect, ...], tuple[Write, ...]]:
    """Say what removes stagings begun before a time: a day ago, those of crashed processes."""
    expects: list[Expect] = []
    writes: list[Write] = []
    async for page in scope.pages(Scan(scope.space, KIND, tags)):
        for document in page:
            marker: dict[str, Any] = document.value.load()
            if marker["at"] < before:
                expects.append(Expect(document.key, document.version))
                writes += [Delete(scope.key(kind, id)) for kind, id in marker["streams"]]
                writes.append(Delete(document.key))
    return tuple(expects), tuple(writes)


async def sweep(scope: Scope) -> None:
    """Remove what crashed writers left behind a day ago or more; if one of them still lives, another time."""
    expects, writes = await leftovers(scope, {}, before=scope.clock() - STALE_MICROSECONDS)
    if writes:
        with suppress(Conflict):
            await _commit(scope, expects[0].key, expects, writes)


async def _commit(scope: Scope, key: Key, expects: Sequence[Expect], writes: Sequence[Write]) -> None:
    """Make one commit; whoever lost a race about a staging has lost the staging."""

    async def attempt() -> Plan[None]:
        return Plan(expects, writes, lambda receipt: None, refusal=lambda conflict: conflict)

    await step(scope, key, attempt)
