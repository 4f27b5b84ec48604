"""What the reference store keeps under a key: a document, or a stream. No locks here; the store has the one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from strongroom.codec import Json, trusted
from strongroom.store import Budget, Document, Entry, ExportItem, Key, Record, Slice, Tail

GENESIS = bytes(32)


class Doc:
    """A document's place: its value, or a tombstone that remembers the version."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.version = 0
        self.value: Json | None = None
        self.tags: dict[str, str] = {}
        self.text: str | None = None


Label = tuple[str, ...]


class Files:
    """Live documents by their kind, and by each of their tags: a scan costs what carries its rarest tag."""

    def __init__(self) -> None:
        self._by_label: dict[Label, dict[Key, Doc]] = {}

    def add(self, key: Key, doc: Doc) -> None:
        for label in _labels(key.space, key.kind, doc.tags):
            self._by_label.setdefault(label, {})[key] = doc

    def remove(self, key: Key, doc: Doc) -> None:
        """Forget a document, under the tags that it has until now."""
        if doc.value is not None:
            for label in _labels(key.space, key.kind, doc.tags):
                filed = self._by_label[label]
                del filed[key]
                if not filed:
                    del self._by_label[label]

    def find(self, space: str, kind: str, tags: dict[str, str]) -> Iterable[tuple[Key, Doc]]:
        """Return the documents of a kind that carry all of `tags`."""
        filed = min([self._by_label.get(label, {}) for label in _labels(space, kind, tags)], key=len)
        return [(key, doc) for key, doc in filed.items() if tags.items() <= doc.tags.items()]


def _labels(space: str, kind: str, tags: dict[str, str]) -> list[Label]:
    return [(space, kind), *((space, kind, *tag) for tag in tags.items())]


class Stream:
    """A stream's place. `records[0]` has index `first`; deletion empties it and keeps the count and the chain."""

    def __init__(self) -> None:
        self.first = 0
        self.records: list[Record] = []
        # What `extend` keeps out of its records, by index: the callers' own objects. Such a record, its body plain
        # bytes, refers to nothing that the garbage collector has to follow; walking through them was half an append.
        self.natives: dict[int, Any] = {}
        self.base: bytes | None = None  # the chain just before records[0]
        self.chain: bytes | None = None
        self.alive = False

    @property
    def length(self) -> int:
        return self.first + len(self.records)

    def slice(self, start: int, stop: int) -> tuple[Record, ...]:
        """Return the records with start <= index < stop, complete."""
        found = self.records[start - self.first : max(stop - self.first, 0)]
        return tuple([self._whole(one) for one in found] if self.natives else found)

    def drop(self, count: int) -> None:
        """Let go of the oldest records."""
        if count:
            self.base = self.records[count - 1].chain
            del self.records[:count]
            for index in range(self.first, self.first + count) if self.natives else ():
                self.natives.pop(index, None)
            self.first += count

    def _whole(self, record: Record) -> Record:
        if record.body is None or type(record.body) is Json:
            return record
        return msgspec.structs.replace(record, body=trusted(record.body), native=self.natives[record.index])


def fitting(found: Slice, budget: Budget, *, newest: bool) -> Slice:
    """Return as much of a slice as there is room for, from one end of it."""
    taken = 0
    for record in reversed(found.records) if newest else found.records:
        if not budget.takes(record.body, record.text):
            break
        taken += 1
    kept = found.records[len(found.records) - taken :] if newest else found.records[:taken]
    return Slice(found.length, found.first, kept)


def link(previous: bytes | None, commitment: bytes | None) -> bytes | None:
    """Return the next value of a stream's hash chain."""
    return previous if commitment is None else sha256((previous or GENESIS) + commitment).digest()


def record_of(index: int, entry: Entry, chain: bytes | None) -> Record:
    return Record(
        index,
        entry.type,
        entry.body,
        entry.weight,
        entry.at,
        entry.sender,
        entry.receiver,
        entry.text,
        entry.commitment,
        chain,
        entry.native,
    )


def document_of(key: Key, doc: Doc) -> Document | None:
    return None if doc.value is None else Document(key, doc.version, doc.value, dict(doc.tags), doc.text)


def export_document(key: Key, doc: Doc) -> ExportItem:
    return ExportItem(key, False, doc.value is not None, doc.version, doc.value, dict(doc.tags), doc.text)


def export_stream(key: Key, stream: Stream, records: tuple[Record, ...]) -> ExportItem:
    return ExportItem(key, True, stream.alive, stream.first, chain=stream.base, records=records)


def tail_bounds(tail: Tail, stream: Stream) -> tuple[int, int]:
    stop = stream.length if tail.before is None else max(stream.first, min(tail.before, stream.length))
    start = stream.first if tail.count is None else max(stream.first, stop - tail.count)
    if tail.max_weight is not None:
        room = tail.max_weight
        lightest = stop
        while lightest > start and (room := room - stream.records[lightest - 1 - stream.first].weight) >= 0:
            lightest -= 1
        start = lightest
    return start, stop


def delete(thing: Doc | Stream | None) -> int:
    if type(thing) is Doc:
        if thing.value is not None:
            thing.value, thing.tags, thing.text = None, {}, None
            thing.version += 1
        return thing.version
    if type(thing) is Stream:
        thing.drop(len(thing.records))
        thing.alive = False
        return thing.length
    return 0
