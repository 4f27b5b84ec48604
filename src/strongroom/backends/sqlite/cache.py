"""What the writer knows of the keys it wrote last: a store that has the file to itself appends without reading first.

All of it stays true as long as nobody else commits; `writes.Writer` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Never

from strongroom.backends.sqlite.rows import HEAD_COLUMNS, MASK, RECORD_COLUMNS, is_named, require_sound, to_record
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.store import Key

MAX_KEYS = 4096

_NOTHING: tuple[Any, ...] = (0, 0, 0, 0, None, None, None, None, 0)
_HEAD = f"SELECT {HEAD_COLUMNS} FROM head WHERE space = ? AND kind = ? AND id = ?"
_HEADS = f"""
SELECT id, {HEAD_COLUMNS}
FROM head WHERE space = ? AND kind = ? AND id IN (SELECT value FROM json_each(?))"""
_ANYBODY = "SELECT 1 FROM head WHERE space = ? AND kind = ? AND id BETWEEN ? AND ? LIMIT 1"
_LAST = f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos DESC LIMIT 1"


class State:
    """What a key holds now, as far as writing needs to know."""

    __slots__ = (
        "alive",
        "base_chain",
        "carrying",
        "chain",
        "first",
        "length",
        "ref",
        "stream",
        "tags",
        "text",
        "unindexed",
        "version",
    )

    def __init__(self, head: tuple[Any, ...] | None, last: tuple[Any, ...] | None) -> None:
        """Make one of a row of `head`, and of the stream's last row of `record`."""
        self.ref, self.stream, self.alive, version, _, self.tags, self.text, self.base_chain, _ = head or _NOTHING
        self.unindexed = False  # whether we know that the index has been told to catch up
        self.carrying = -1  # the filing of receipts before which `carrier` was told of it
        self.version: int = 0 if self.stream else version
        self.first: int = version if self.stream else 0
        self.length: int = self.first if last is None else (last[0] & MASK) + 1
        self.chain: bytes | None = self.base_chain if last is None else last[9]

    @property
    def seen(self) -> int:
        """The version an expectation is compared with: 0 while it does not exist."""
        if not self.alive:
            return 0
        return self.length if self.stream else self.version


class Unsound(State):
    """What a key holds whose rows are not what was written: nobody may say what it is, or go on from it. It can only
    be deleted, whatever it was."""

    __slots__ = ("_damage",)

    def __init__(self, head: tuple[Any, ...], last: tuple[Any, ...] | None, damage: Damaged) -> None:
        super().__init__(head, last)
        self._damage = str(damage), damage.reason
        if last is not None:
            self.first = 0  # all of its records, wherever they begin
        self.alive = 1

    @property
    def seen(self) -> Never:
        """Refuse: nothing can be expected of it."""
        self.refuse()

    def refuse(self) -> Never:
        said, reason = self._damage
        raise Damaged(said, reason=reason)


class Cache(dict[Key, State]):
    """The state of each key that was asked for, looked up once."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute

    def __missing__(self, key: Key) -> State:
        return self._learn(key, self._execute(_HEAD, (key.space, key.kind, key.id)).fetchone())

    def look_up(self, keys: Iterable[Key]) -> None:
        """Learn about many keys that are unknown at once: a statement for each kind, not for each key."""
        unknown: dict[tuple[str, str], dict[str, Key]] = {}
        for key in keys:
            unknown.setdefault((key.space, key.kind), {})[key.id] = key
        for where, by_id in unknown.items():
            found = {}
            # New things are often neighbours by name, and then one look tells that none of them is there.
            if self._execute(_ANYBODY, (*where, min(by_id), max(by_id))).fetchone():
                rows: list[Any] = self._execute(_HEADS, (*where, encode([*by_id]).decode())).fetchall()
                found = {row[0]: row[1:] for row in rows}
            for id, key in by_id.items():
                self._learn(key, found.get(id))

    def _learn(self, key: Key, head: tuple[Any, ...] | None) -> State:
        last = None
        if head is not None and head[1]:
            ref = head[0]
            last = self._execute(_LAST, (ref << INDEX_BITS, (ref + 1) << INDEX_BITS)).fetchone()
        try:
            state = _sound(key, head, last)
        except Damaged as damage:
            assert head is not None
            self._require_own(key, head)
            state = Unsound(head, last, damage)
        self[key] = state
        return state

    def _require_own(self, key: Key, head: tuple[Any, ...]) -> None:
        """Raise `Damaged` unless the row that an index led to is this key's own, by the row's own words: only then it
        may be deleted. What is in the index of words can be taken out of it only by the text it was made of."""
        ref, stream, _, version, _, _, text, chain, _ = head
        last = self._execute(_LAST, (ref << INDEX_BITS, (ref + 1) << INDEX_BITS)).fetchone()
        kept = chain if last is None else last[9]
        fits = last is None if not stream else kept is None or type(kept) is bytes
        if (
            not is_named(self._execute, key, ref)
            or not fits
            or text is not None
            or type(version) is not int
            or not 0 <= version <= MASK
        ):
            require_sound(key, head)


def _sound(key: Key, head: tuple[Any, ...] | None, last: tuple[Any, ...] | None) -> State:
    """Return the state that rows tell of, or raise `Damaged` if they are not what was written."""
    if head is not None:
        require_sound(key, head)
        if last is not None:
            to_record(key, last, last[0] & MASK)  # what is appended goes on from its place and its chain
    state = State(head, last)
    if state.stream and state.alive and state.length == 0:
        # A living stream has records, or remembers how many it had: these are lost, and must not be replaced.
        raise Damaged(f"{key.kind} {key.id!r}: its records are missing; nothing changed", reason="gap")
    return state
