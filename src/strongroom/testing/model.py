"""What a store must do, said as plainly as possible and shared with no backend.

Nothing is ever dropped here: a document is the list of its writes, a stream the list of all its records, and every
answer is worked out from those lists the slow way. That makes it too simple to be wrong, and useless for anything but
comparing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from strongroom.codec import Json
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput
from strongroom.store import (
    EXISTS,
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Document,
    Erase,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    Tail,
    Truncate,
    Write,
)


class Written:
    """A document: each of its writes, a deletion being one without a value."""

    def __init__(self) -> None:
        self.writes: list[tuple[Json | None, dict[str, str]]] = []

    @property
    def exists(self) -> bool:
        return bool(self.writes) and self.writes[-1][0] is not None

    @property
    def count(self) -> int:
        return len(self.writes)


class Recorded:
    """A stream: each record it ever had, and which of them can still be seen."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.first = 0
        self.exists = False

    @property
    def count(self) -> int:
        return len(self.records)


class Model:
    """A store in the fewest words. `scan` answers whole, for there is nothing to page through."""

    def __init__(self) -> None:
        self.things: dict[Key, Written | Recorded] = {}
        self.receipts: dict[tuple[str, str], Receipt] = {}

    def version(self, key: Key) -> int:
        thing = self.things.get(key)
        return thing.count if thing is not None and thing.exists else 0

    def commit(self, commit: Commit) -> Receipt:
        self._check_claims(commit, {})
        name = (commit.space, commit.id)
        if name in self.receipts:
            if self.receipts[name].digest != commit.digest:
                raise InvalidInput("model: used otherwise", path="commit_id")
            return replace(self.receipts[name], repeated=True)
        for expect in commit.expects:
            actual = self.version(expect.key)
            if not (actual > 0 if expect.version == EXISTS else actual == expect.version):
                raise Conflict("model", expected=expect.version, actual=actual, key=expect.key)
        self._check_claims(commit, self.things)
        before = copy.deepcopy(self.things)
        claimed: dict[Key, type[Written] | type[Recorded]] = {}
        try:
            versions = tuple([self._apply(write, claimed) for write in commit.writes])
        except Exception:
            self.things = before
            raise
        self.receipts[name] = Receipt(commit.id, versions, commit.digest, commit.answer)
        return self.receipts[name]

    def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        return [self.scan(question) if isinstance(question, Scan) else self._answer(question) for question in questions]

    def scan(self, scan: Scan) -> list[Document]:
        """Every document a scan finds on all of its pages."""
        found = [
            self._document(key, thing)
            for key, thing in self.things.items()  # in the order of creation, which a dict keeps
            if isinstance(thing, Written) and thing.exists and (key.space, key.kind) == (scan.space, scan.kind)
            if all(thing.writes[-1][1].get(name) == value for name, value in scan.tags.items())
        ]
        return found[::-1] if scan.reverse else found

    def _check_claims(self, commit: Commit, things: Mapping[Key, Written | Recorded]) -> None:
        """Look at every document as it will be, for two that carry the same tag with a name that begins with `=`."""
        after = {
            key: thing.writes[-1][1]
            for key, thing in things.items()
            if isinstance(thing, Written) and thing.exists and key.space == commit.space
        }
        for write in commit.writes:
            if isinstance(write, Put | Delete):
                after[write.key] = dict(write.tags) if isinstance(write, Put) else {}
        held = [
            (key.kind, name, value)
            for key, tags in after.items()
            for name, value in tags.items()
            if name.startswith("=")
        ]
        if len(held) != len(set(held)):
            raise Conflict("model", expected=0, actual=1) if things else InvalidInput("model: one commit")

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _apply(self, write: Write, claimed: dict[Key, type[Written] | type[Recorded]]) -> int:
        thing = self.things.get(write.key)
        if isinstance(write, Delete):
            return 0 if thing is None else self._delete(thing)
        shape = Written if isinstance(write, Put) else Recorded
        if claimed.setdefault(write.key, type(thing) if thing is not None else shape) is not shape:
            raise InvalidInput("model: wrong shape")
        if thing is None:
            if isinstance(write, (Truncate, Erase)):
                return 0
            thing = self.things[write.key] = shape()
        if isinstance(thing, Written):
            assert isinstance(write, Put)
            thing.writes.append((write.value, dict(write.tags)))
        elif isinstance(write, Append):
            self._append(thing, write)
        elif isinstance(write, Truncate):
            thing.first = max(thing.first, min(write.before, thing.count))
        elif isinstance(write, Erase):
            thing.records = [
                replace(record, body=None, text=None, sender=None, receiver=None)
                if write.start <= record.index < write.stop
                else record
                for record in thing.records
            ]
        return thing.count

    def _delete(self, thing: Written | Recorded) -> int:
        if isinstance(thing, Recorded):
            thing.first, thing.exists = thing.count, False
        elif thing.exists:
            thing.writes.append((None, {}))
        return thing.count

    def _append(self, thing: Recorded, write: Append) -> None:
        needed = thing.count + len(write.entries)
        if write.max_length is not None and needed > write.max_length:
            raise BudgetExceeded("model", limit=write.max_length, needed=needed)
        thing.exists = True
        for entry in write.entries:
            columns = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "native"}
            thing.records.append(Record(index=thing.count, chain=None, **columns))
            commitments = [record.commitment for record in thing.records if record.commitment is not None]
            thing.records[-1] = replace(thing.records[-1], chain=_chain(commitments))

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _answer(self, question: Get | Range | Tail | ReceiptOf) -> Any:
        if isinstance(question, ReceiptOf):
            made = self.receipts.get((question.space, question.id))
            return None if made is None else replace(made, repeated=True)
        thing = self.things.get(question.key)
        if isinstance(question, Get):
            if isinstance(thing, Recorded):
                raise InvalidInput("model: wrong shape")
            return self._document(question.key, thing) if thing is not None and thing.exists else None
        if isinstance(thing, Written):
            raise InvalidInput("model: wrong shape")
        if thing is None or not thing.exists:
            return Slice(0, 0, ())
        seen = thing.records[thing.first :]
        chosen = _ranged(seen, question) if isinstance(question, Range) else _tailed(seen, question)
        return Slice(thing.count, thing.first, tuple(chosen))

    def _document(self, key: Key, thing: Written) -> Document:
        value, tags = thing.writes[-1]
        assert value is not None
        return Document(key, thing.count, value, tags)


def _ranged(records: list[Record], question: Range) -> list[Record]:
    stop = question.stop
    found = [record for record in records if record.index >= question.start and (stop is None or record.index < stop)]
    return found if question.limit is None else found[: question.limit]


def _tailed(records: list[Record], question: Tail) -> list[Record]:
    older = [record for record in records if question.before is None or record.index < question.before]
    suffixes = [older[start:] for start in range(len(older) + 1)]
    return next(suffix for suffix in suffixes if _fits(suffix, question))


def _fits(records: list[Record], question: Tail) -> bool:
    if question.count is not None and len(records) > question.count:
        return False
    return question.max_weight is None or sum(record.weight for record in records) <= question.max_weight


def _chain(commitments: list[bytes]) -> bytes | None:
    value = bytes(32)
    for commitment in commitments:
        value = sha256(value + commitment).digest()
    return value if commitments else None
