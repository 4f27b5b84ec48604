"""Applying one commit inside an open transaction: check everything first, write last.

A refused commit must leave the transaction as it found it, because others share it; so all reasons to refuse are
looked for before the first row changes, and no savepoint is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

import strongroom.backends.sqlite.erasure as erasure
from strongroom.backends.memory import link
from strongroom.backends.sqlite.cache import MAX_KEYS, Cache, State, Unsound
from strongroom.backends.sqlite.failures import translate
from strongroom.backends.sqlite.receipts import Receipts, Retention, SyncReceipt, can_carry, carried
from strongroom.backends.sqlite.rows import (
    HEAD_COLUMNS,
    MASK,
    checksum,
    label,
    place_of,
    record_sum,
    require_sound,
    stored_key,
    tags_of,
    top_ref,
)
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.backends.sqlite.search import unindex_document, unindex_records
from strongroom.codec import encode, pack
from strongroom.errors import InvalidInput
from strongroom.store import (
    Append,
    Claim,
    Commit,
    Delete,
    Erase,
    Key,
    Put,
    Receipt,
    Truncate,
    Write,
    check_expectation,
    check_length,
    claimed,
    claims_of,
    repeat_of,
    settled_by,
    wrong_shape,
)

FEW = 8  # so many keys are looked up one by one


_NEW_HEAD = """
INSERT INTO head (space, kind, id, ref, stream, alive, version, value, tags, text, chain, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SET_HEAD = "UPDATE head SET version = ?, value = ?, tags = ?, text = ?, chain = ?, sum = ? WHERE ref = ?"
# Apart, because naming `alive` rewrites an entry of head_by_order: two pages more in the log.
_SET_ALIVE = "UPDATE head SET alive = ? WHERE ref = ?"
_NEW_TAG = "INSERT INTO tag (label, ref) VALUES (?, ?)"
_HOLDERS = f"""
SELECT wanted.label, head.id, {HEAD_COLUMNS}
FROM (SELECT unhex(value) AS label FROM json_each(?)) AS wanted JOIN tag USING (label) JOIN head USING (ref)"""
_LATER = "INSERT OR IGNORE INTO unindexed (place, ref, start) VALUES (?, ?, ?)"
_ADD = """
INSERT INTO record (pos, type, body, weight, at, sender, receiver, text, commitment, chain, receipt, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


_CONTENT = """
SELECT pos, type, weight, at, commitment, chain, receipt FROM record
WHERE pos >= ? AND pos < ? AND coalesce(body, text, sender, receiver) IS NOT NULL"""


class Writer:
    """The connection that writes, and what it knows about the keys it wrote last.

    All of it stays true as long as nobody else commits, which SQLite's data version tells; a store that has the file
    to itself appends without reading first.
    """

    def __init__(self, con: apsw.Connection, retention: Retention) -> None:
        self.con = con
        self.execute: Callable[..., Any] = (
            con.cursor().execute
        )  # one cursor for all: a new one for each statement costs 0.5 us
        self.wrote = False  # whether this transaction changed anything
        self.writing = False  # whether a commit is half applied
        self.texts = 0  # how many texts this transaction left for the index to catch up with
        self.last: tuple[str, str, int] | None = None  # the newest receipt: its space, id and until when it is kept
        self._removed = False  # whether the commit that is being applied took content away
        self._erasing = False  # whether what it takes away must leave the files, too
        self._cache = Cache(self.execute)
        self._top = 0  # the greatest ref in use, once it is known
        # Rows that only add are collected, and written at the end of a commit: one call for all of a table.
        self._heads: list[tuple[Any, ...]] = []
        self._tags: list[tuple[Any, ...]] = []
        self._texts: list[tuple[Any, ...]] = []
        self.receipts = Receipts(con, self.execute, retention)
        self._alone = False  # whether nobody else wrote between our last transaction and this one
        self._version = -1

    def start(self) -> bool:
        """Get ready for a transaction that has just begun; tell whether somebody else committed since the last."""
        self.wrote = self.writing = self.receipts.noting = False
        self.texts = 0
        version = self.con.data_version()
        self._alone = version == self._version
        if not self._alone or len(self._cache) > MAX_KEYS:
            self.forget()
            self._version = version
        return not self._alone

    def forget(self) -> None:
        """Drop what is known: something else than a commit changed it, or it has become too much."""
        self._cache.clear()
        self._top = 0
        self.receipts.forget()

    def roll_back(self) -> None:
        """End a transaction in which every commit was refused."""
        self.execute("ROLLBACK")
        self.receipts.undone()

    def committed(self) -> None:
        """Remember the data version that our own COMMIT made."""
        self._version = self.con.data_version()

    def apply(self, work: Commit | SyncReceipt) -> Receipt:
        """Return the receipt, new or first; raise without having written anything if the commit is refused."""
        if type(work) is SyncReceipt:
            self.receipts.file()
            self._make_durable(work.space, work.id)
            return work.receipt
        assert type(work) is Commit
        try:
            return self._commit(work)
        except UnicodeDecodeError as error:  # what it writes to holds text that is none: others go on
            raise translate(error) from error

    def _make_durable(self, space: str, id: str) -> None:
        # A crash may have left a receipt in the page cache alone, never synced. Our answer must be durable too: any
        # change makes it so, because the fsync of its COMMIT covers the whole log.
        self.wrote = True
        self.receipts.touch(space, id)

    def _commit(self, commit: Commit) -> Receipt:
        space, id, claims = commit.space, commit.id, claims_of(commit)
        first = self.receipts.find(space, id)
        if first is not None:
            receipt = repeat_of(commit, first)
            self._make_durable(space, id)
            return receipt
        cache = self._cache
        self.wrote |= self.receipts.noting  # it stays noted if this is refused: noted later, it would be of more ids
        if self.receipts.lost and commit.writes and type(last := commit.writes[-1]) is Append and can_carry(commit):
            self.receipts.require_unmade(space, id, cache[last.key].ref)
        if len(commit.expects) + len(commit.writes) > FEW:
            cache.look_up([part.key for part in (*commit.expects, *commit.writes) if part.key not in cache])
        for expect in commit.expects:
            if expect.version != (seen := cache[expect.key].seen):
                check_expectation(expect, seen)
        if claims:
            self._check_claims(commit, claims)
        steps = [(write, cache[write.key]) for write in commit.writes]
        _check(steps)
        self.wrote = self.writing = True
        self._removed = False
        self._erasing = erases(commit)
        short = self.receipts.fresh
        if short is None or not self._alone or not _ends_with_append(steps) or not can_carry(commit):
            versions = tuple([self._write(write, state) for write, state in steps])
            self._flush()
            self.receipts.keep(commit, versions)
        else:
            versions = self._write_and_carry(steps, short, commit.digest)
        if self._removed and self._erasing:
            erasure.note(self.con, self.receipts.retention.now())
        self.last = (space, id, self.receipts.retention.until(commit.keep))
        self.writing = False
        return Receipt(id, versions, commit.digest, commit.answer)

    def _check_claims(self, commit: Commit, claims: Iterable[Claim]) -> None:
        space = commit.space
        wanted = {label(space, claim.kind, claim.name, claim.value): claim for claim in claims}
        labels = encode([each.hex() for each in wanted]).decode()
        holders = self.execute(_HOLDERS, (labels,)).fetchall()
        settled = settled_by(commit) if holders else ()
        for found, id, *head in holders:
            holder = stored_key(space, wanted[found].kind, id)
            require_sound(holder, tuple(head))
            if holder not in settled:
                raise claimed(wanted[found])

    def _write_and_carry(self, steps: Sequence[tuple[Write, State]], id: bytes, digest: bytes) -> tuple[int, ...]:
        """Write what ends with an append, which takes the receipt along."""
        append, stream = steps[-1]
        assert type(append) is Append
        before = [self._write(write, state) for write, state in steps[:-1]]
        versions = (*before, stream.length + len(append.entries))
        self._append(append, stream, carried(id, digest, versions))
        if self._heads or self._tags or self._texts:
            self._flush()
        return versions

    def _write(self, write: Write, state: State) -> int:
        if type(write) is Append:
            return self._append(write, state)
        if type(write) is Put:
            return self._put(write, state)
        if not state.ref:
            return 0
        self.receipts.file()  # before the records that may carry them are gone
        if type(write) is Delete:
            return self._delete(write.key, state) if type(state) is State else self._delete_unsound(write.key, state)
        if type(write) is Truncate:
            cut = min(max(write.before, state.first), state.length)
            self._drop(write.key, state, cut)
        elif type(write) is Erase:
            self._erase(write, state)
        return state.length

    def _put(self, write: Put, state: State) -> int:
        self._removed |= bool(state.ref)
        tags = pack(write.tags) if write.tags else None
        old_tags, old_text = state.tags, state.text
        if old_text is not None and (tags != old_tags or write.text != old_text):
            self._unindex_document(write.key, state)
        state.tags, state.text = tags, write.text
        self._save_head(write.key, state, alive=1, version=state.version + 1, value=write.value)
        if tags != old_tags:
            self._retag(write.key, state.ref, tags_of(old_tags), write.tags)
        if write.text is not None and (write.text != old_text or tags != old_tags):
            self._texts.append((place_of(write.key.space, write.key.kind), state.ref, 0))
            self.texts += 1
        return state.version

    def _append(self, write: Append, state: State, receipt: bytes | None = None) -> int:
        if not state.ref or not state.alive:
            state.stream = 1
            self._save_head(write.key, state, alive=1, version=state.first)
        start = (state.ref << INDEX_BITS) + state.length
        last = state.length + len(write.entries) - 1
        if receipt is not None and state.carrying != self.receipts.filings:
            self.receipts.carry(state.ref, last)
            state.carrying = self.receipts.filings
        rows = []
        for pos, entry in enumerate(write.entries, start):
            text, commitment = entry.text, entry.commitment
            if text is not None and not state.unindexed:
                self.execute(_LATER, (place_of(write.key.space, write.key.kind), state.ref, pos & MASK))
                state.unindexed = True
            if commitment is not None:
                state.chain = link(state.chain, commitment)
            row = (
                pos,
                entry.type,
                bytes(entry.body),  # the packer in checksum() knows plain bytes only
                entry.weight,
                entry.at,
                entry.sender,
                entry.receiver,
                text,
                commitment,
                state.chain,
            )
            taken = receipt if pos & MASK == last else None
            rows.append((*row, taken, record_sum(row, taken)))
        if len(rows) == 1:
            self.execute(_ADD, rows[0])
        else:
            self.con.executemany(_ADD, rows)
        state.length = last + 1
        if state.unindexed:
            self.texts += len(rows)
        return state.length

    def _delete(self, key: Key, state: State) -> int:
        self._removed |= bool(state.alive)
        if state.stream:
            self._drop(key, state, state.length, alive=0)
            return state.length
        if state.alive:
            self._unindex_document(key, state)
            old = tags_of(state.tags)
            state.tags = state.text = None
            self._save_head(key, state, alive=0, version=state.version + 1)
            self._retag(key, state.ref, old, {})
        return state.version

    def _delete_unsound(self, key: Key, state: State) -> int:
        """Delete what is damaged. Its tags are found by going through all there are: its own list may be wrong."""
        self._flush()
        self.execute("DELETE FROM tag WHERE ref = ?", (state.ref,))
        state.tags = None
        version = self._delete(key, state)
        self._cache.pop(key, None)  # from now on it is what its row says
        return version

    def _drop(self, key: Key, state: State, before: int, alive: int = 1) -> None:
        base = state.ref << INDEX_BITS
        if before > state.first:
            self._removed = True
            kept = self.execute("SELECT chain FROM record WHERE pos = ?", (base + before - 1,)).fetchone()
            state.base_chain = kept[0]
            self._note_words(unindex_records(self.con, key, state.ref, state.first, before, self._erasing))
            self.execute("DELETE FROM record WHERE pos >= ? AND pos < ?", (base + state.first, base + before))
        state.first = before
        self._save_head(key, state, alive=alive and state.alive, version=before)

    def _erase(self, write: Erase, state: State) -> None:
        base = state.ref << INDEX_BITS
        start, stop = max(write.start, state.first), min(write.stop, state.length)
        if self.execute(_CONTENT + " LIMIT 1", (base + start, base + stop)).fetchone() is None:
            return  # nothing to do is nothing done
        self._removed = True
        unindex_records(self.con, write.key, state.ref, start, stop, erase=True)
        for kept in self.execute(_CONTENT, (base + start, base + stop)).fetchall():
            pos, type_, weight, at, commitment, chain, receipt = kept
            total = record_sum((pos, type_, None, weight, at, None, None, None, commitment, chain), receipt)
            self.execute(
                "UPDATE record SET body = NULL, text = NULL, sender = NULL, receiver = NULL, sum = ? WHERE pos = ?",
                (total, pos),
            )

    def _save_head(self, key: Key, state: State, *, alive: int, version: int, value: bytes | None = None) -> None:
        new = not state.ref
        if new:
            state.ref = self._new_ref()
        turned = state.alive != alive
        state.alive = alive
        if not state.stream:
            state.version = version
        # The packer in checksum() knows plain bytes only.
        tail = (version, value and bytes(value), state.tags and bytes(state.tags), state.text, state.base_chain)
        row = (key.space, key.kind, key.id, state.ref, state.stream, alive, *tail)
        if new:
            self._heads.append((*row, checksum(row)))
        else:
            self._flush()  # it may be among the new ones
            self.execute(_SET_HEAD, (*tail, checksum(row), state.ref))
            if turned:
                self.execute(_SET_ALIVE, (alive, state.ref))

    def _new_ref(self) -> int:
        # Chosen here and not by SQLite, because the checksum covers it. We hold the write lock.
        self._top = 1 + (self._top or top_ref(self.con))
        return self._top

    def _unindex_document(self, key: Key, state: State) -> None:
        if state.text is not None:
            self._flush()
            tags = tags_of(state.tags)
            self._note_words(unindex_document(self.con, key, state.ref, state.text, tags, self._erasing))

    def _note_words(self, removed: bool) -> None:
        """Remember that words were taken out of the index which still lie in it."""
        if removed and not self._erasing:
            erasure.note_words(self.con, self.receipts.retention.now())

    def _retag(self, key: Key, ref: int, old: dict[str, str], new: dict[str, str]) -> None:
        space, kind = key.space, key.kind
        for name, value in old.items() - new.items() if old else ():
            self._flush()
            self.execute("DELETE FROM tag WHERE label = ? AND ref = ?", (label(space, kind, name, value), ref))
        added = new.items() - old.items() if old else new.items()
        self._tags += [(label(space, kind, name, value), ref) for name, value in added]

    def _flush(self) -> None:
        """Write the rows that were collected."""
        for sql, rows in ((_NEW_HEAD, self._heads), (_NEW_TAG, self._tags), (_LATER, self._texts)):
            if rows:
                self.con.executemany(sql, rows)
                rows.clear()


def erases(work: Commit | SyncReceipt) -> bool:
    """Tell whether what a commit takes away must leave the files, too."""
    if type(work) is Commit:
        for write in work.writes:  # asked twice of every commit, and any() with a generator is half as fast
            if type(write) is Erase:
                return True
    return False


def pays(work: Commit | SyncReceipt) -> bool:
    """Tell whether the files are to be clean before a commit is answered, of it and of all that was owed before."""
    return erases(work) and not (type(work) is Commit and work.owes)


def _ends_with_append(steps: Sequence[tuple[Write, State]]) -> bool:
    return bool(steps) and type(steps[-1][0]) is Append


def _check(steps: Sequence[tuple[Write, State]]) -> None:
    """Refuse what does not fit what is there, or what earlier writes of the same commit will have put there."""
    if len(steps) == 1:
        write, state = steps[0]
        plain = type(write) is Append and state.stream and write.max_length is None
        if plain and state.length < MASK // 2 and type(state) is State:
            return  # by far the most frequent commit needs no dictionaries
    shapes: dict[Key, bool] = {}
    lengths: dict[Key, int] = {}
    for write, state in steps:
        if type(write) is Delete:
            continue
        if isinstance(state, Unsound):
            if type(write) is Erase and write.start >= write.stop:
                continue  # it says no more than that what the commit takes away is to leave the files
            state.refuse()
        wants_stream = type(write) is not Put
        is_stream = bool(state.stream) if state.ref else shapes.setdefault(write.key, wants_stream)
        if is_stream != wants_stream:
            raise wrong_shape(write.key, is_stream)
        if type(write) is Append:
            length = lengths.get(write.key, state.length)
            check_length(write, length)
            lengths[write.key] = length + len(write.entries)
            if lengths[write.key] > MASK:
                raise InvalidInput(f"{write.key.kind} {write.key.id!r} can hold {MASK} records at most")
