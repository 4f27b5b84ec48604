"""The reference store: complete, in memory, one lock. Read this to learn what every other backend must do."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, cast

import msgspec

from strongroom.arguments import checked, require_positive
from strongroom.backends.memory.things import (
    Doc,
    Files,
    Stream,
    delete,
    document_of,
    export_document,
    export_stream,
    fitting,
    link,
    record_of,
    tail_bounds,
)
from strongroom.codec import Json
from strongroom.errors import Closed
from strongroom.retrieval import MOST_PLACES, choose
from strongroom.stemming import words
from strongroom.store import (
    CLAIM,
    EXPORT_BYTES,
    MAX_RECORD_BYTES,
    OUR_SECONDS,
    REPEATS,
    Answer,
    AnyQuestion,
    Append,
    Budget,
    Claim,
    Commit,
    Delete,
    Document,
    Durability,
    Erase,
    ExportItem,
    ExportPage,
    Find,
    Found,
    Get,
    Key,
    Match,
    Page,
    Part,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Record,
    Repeats,
    Scan,
    Slice,
    Tail,
    Truncate,
    Write,
    check_expectation,
    check_length,
    check_sizes,
    claimed,
    claims_of,
    cursor,
    kept_seconds,
    matches_within,
    repeat_of,
    settled_by,
    within,
    wrong_shape,
)

StreamAndDoc = tuple[Stream, Doc | None]
VOLATILE = Durability("volatile", False, False, "everything, when the process ends")


class MemoryStore:
    """Keep everything in this process. Nothing survives it; everything else holds."""

    durability = VOLATILE

    @checked
    def __init__(
        self,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        repeats: Repeats = REPEATS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        require_positive(max_record_bytes=max_record_bytes)
        self._limit = max_record_bytes
        self.kept_seconds = kept_seconds(repeats)
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._things: dict[Key, Doc | Stream] = {}
        self._files = Files()
        self._receipts: dict[tuple[str, str], Receipt] = {}
        # When each may be forgotten: one queue for the ids of callers, one for our own, so that each is in order.
        self._ends: dict[bool, deque[tuple[float, tuple[str, str]]]] = {True: deque(), False: deque()}
        self._claims: dict[tuple[str, Claim], Key] = {}  # who claimed it last; perhaps no longer does
        self._order = 0
        self._closed = False

    # ---- the two verbs ----------------------------------------------------------------------------------------------

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        with self._changed:
            self._check_open(writing=False)
            return [self._answer(question) for question in questions]

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        with self._changed:
            self._check_open(writing=False)
            return within(questions, self._as_fits, max_bytes)

    def commit(self, commit: Commit) -> Receipt:
        check_sizes(commit, self._limit)
        claims = claims_of(commit)
        with self._changed:
            self._check_open()
            repeated = self._receipts.get((commit.space, commit.id))
            if repeated is not None:
                return repeat_of(commit, repeated)
            for expect in commit.expects:
                check_expectation(expect, self._version(expect.key))
            if claims:
                self._check_claims(commit.space, claims, settled_by(commit))
            self._check_writes(commit.writes)
            # Nothing below can fail: the commit is now certain.
            versions = tuple([self._apply(write) for write in commit.writes])
            receipt = Receipt(commit.id, versions, commit.digest, commit.answer)
            self._remember(commit, receipt)
            self._changed.notify_all()
            return receipt

    def search(self, find: Find) -> Found:
        """Find where words stand, by looking everywhere."""
        wanted = dict.fromkeys(find.words)
        places: dict[str, list[Match]] = {word: [] for word in wanted}
        total = 0
        with self._changed:
            self._check_open(writing=False)
            for match, text in self._texts(find):
                total += 1
                for word in set(words(text)) & wanted.keys():
                    places[word].append(match)
        newest = {word: [_Spot(match) for match in reversed(found)][:MOST_PLACES] for word, found in places.items()}
        chosen = choose(min(total, MOST_PLACES), newest, find.skip + find.limit)[find.skip :]
        matches, behind = matches_within(find, (spot.match for spot in chosen))
        counts = {word: len(found) for word, found in newest.items()}
        return Found(min(total, MOST_PLACES), counts, matches, behind < len(chosen), behind)

    def _texts(self, find: Find) -> Iterator[tuple[Match, str]]:
        for key, thing in self._things.items():
            if key.space != find.space or key.kind != find.kind or (find.id is not None and key.id != find.id):
                continue
            if type(thing) is Stream and not find.tags:
                for record in thing.records:
                    if record.text is not None:
                        yield Match(key, record=record), record.text
            elif type(thing) is Doc and thing.text is not None and find.tags.items() <= thing.tags.items():
                yield Match(key, document=document_of(key, thing)), thing.text

    def place(self, key: Key, beside: Key | None) -> StreamAndDoc | None:
        """Find a stream for `extend`, and a document that must be beside it. They keep their places for life."""
        with self._lock:
            stream, doc = self._things.get(key), self._things.get(beside) if beside else None
            found = type(stream) is Stream and (beside is None or type(doc) is Doc)
            return cast("StreamAndDoc", (stream, doc)) if found else None

    def extend(
        self,
        place: StreamAndDoc,
        max_length: int | None,
        type_: str,
        body: bytes,
        at: int,
        sender: str | None,
        receiver: str | None,
        native: Any,
    ) -> Record | None:
        """Append one record to a stream that exists and has room, and return it without `native`; otherwise None.

        What `commit` would do for one `Append` under an id nobody ever sees, without the receipt nobody could ask for:
        in process that ceremony costs several times the append itself. When in doubt it declines, and `commit` says
        what is wrong. `body` is canonical, and stays plain bytes in the record returned.
        """
        stream, beside = place
        self._lock.acquire()  # half the price of `with`
        try:
            if not stream.alive or self._closed or len(body) > self._limit:
                return None
            if beside is not None and beside.value is None:
                return None
            records = stream.records
            index = stream.first + len(records)
            if max_length is not None and index >= max_length:
                return None
            # Not yet a Json: `slice` makes it one, see `natives`.
            record = Record(index, type_, body, 0, at, sender, receiver, None, None, stream.chain)  # type: ignore[arg-type]
            stream.natives[index] = native
            records.append(record)
            if self._waiting:
                self._changed.notify_all()
            return record
        finally:
            self._lock.release()

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._closed or self._version(key) > length, timeout_seconds)
            finally:
                self._waiting -= 1

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return the next items. The cursor is "place of the key:index of the record"."""
        place, index = (int(part) for part in (after or "0:0").split(":"))
        items: list[ExportItem] = []
        budget = Budget(max_bytes)
        with self._changed:
            things = list(self._things.items())
            while place < len(things) and limit > 0 and not budget.full:
                key, thing = things[place]
                if type(thing) is Doc:
                    if budget.takes(thing.value, thing.text):
                        items.append(export_document(key, thing))
                        limit -= 1
                        place += 1
                    continue
                assert type(thing) is Stream
                start = max(index - thing.first, 0)
                found = thing.slice(thing.first + start, thing.first + start + limit)
                stretch = tuple(takewhile(lambda record: budget.takes(record.body, record.text), found))
                if budget.full and not stretch:
                    break  # nothing of it fitted
                items.append(export_stream(key, thing, stretch))
                limit -= max(len(stretch), 1)
                done = start + len(stretch) >= len(thing.records)
                place, index = (place + 1, 0) if done else (place, thing.first + start + len(stretch))
            return ExportPage(tuple(items), f"{place}:{index}" if place < len(things) else None)

    def load(self, items: Sequence[ExportItem]) -> None:
        with self._changed:
            for item in items:
                if item.stream:
                    self._load_stream(item)
                else:
                    thing = self._things.get(item.key)
                    doc = thing if type(thing) is Doc else self._new_document(item.key)
                    doc.version = item.version
                    self._fill(item.key, doc, item.value if item.alive else None, item.tags, item.text)
            self._changed.notify_all()

    def _load_stream(self, item: ExportItem) -> None:
        thing = self._things.setdefault(item.key, Stream())
        assert type(thing) is Stream
        if not thing.records:
            thing.first, thing.base = item.version, item.chain
        thing.alive = item.alive
        thing.records.extend(record for record in item.records if record.index == thing.length)
        thing.chain = thing.records[-1].chain if thing.records else item.chain

    def __repr__(self) -> str:
        return "MemoryStore()"

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _as_fits(self, question: AnyQuestion, budget: Budget) -> Answer:
        found = self._answer(question)
        if type(found) is Document:
            return found if budget.takes(found.value, found.text) else None
        if type(found) is Slice:
            return fitting(found, budget, newest=type(question) is Tail)
        if type(found) is not Page:
            return found
        documents = tuple(takewhile(lambda one: budget.takes(one.value, one.text), found.documents))
        if not budget.full or not documents:
            return Page(documents, found.next)
        last = self._things[documents[-1].key]
        assert type(last) is Doc
        return Page(documents, str(last.order))

    def _answer(self, question: AnyQuestion) -> Answer:
        if isinstance(question, ReceiptOf):
            made = self._receipts.get((question.space, question.id))
            return None if made is None else msgspec.structs.replace(made, repeated=True)
        if isinstance(question, Scan):
            return self._scan(question)
        thing = self._things.get(question.key)
        if isinstance(question, Get):
            if type(thing) is Stream:
                raise wrong_shape(question.key, is_stream=True, writing=False)
            return document_of(question.key, thing) if type(thing) is Doc else None
        if type(thing) is Doc:
            raise wrong_shape(question.key, is_stream=False, writing=False)
        stream = thing if type(thing) is Stream else Stream()
        if not stream.alive:
            return Slice(0, 0, ())
        if isinstance(question, Range):
            start = max(question.start, stream.first)
            stop = stream.length if question.stop is None else question.stop
            if question.limit is not None:
                stop = min(stop, start + question.limit)
        else:
            start, stop = tail_bounds(question, stream)
        return Slice(stream.length, stream.first, stream.slice(start, stop))

    def _scan(self, scan: Scan) -> Page:
        found = [
            (doc.order, document)
            for key, doc in self._files.find(scan.space, scan.kind, scan.tags)
            if (document := document_of(key, doc)) is not None
        ]
        found.sort(key=lambda pair: pair[0], reverse=scan.reverse)
        edge = cursor(scan)
        if edge is not None:
            found = [pair for pair in found if (pair[0] < edge if scan.reverse else pair[0] > edge)]
        page = found[: scan.limit]
        more = len(found) > len(page)
        return Page(tuple(document for _, document in page), str(page[-1][0]) if more and page else None)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _check_claims(self, space: str, claims: Sequence[Claim], settled: set[Key]) -> None:
        for claim in claims:
            holder = self._claims.get((space, claim))
            doc = self._things.get(holder) if holder is not None else None
            if type(doc) is Doc and doc.tags.get(claim.name) == claim.value and holder not in settled:
                raise claimed(claim)

    def _note_claims(self, key: Key, tags: dict[str, str]) -> None:
        for name, value in tags.items():
            if name[:1] == CLAIM:
                self._claims[key.space, Claim(key.kind, name, value)] = key

    def _check_writes(self, writes: Sequence[Write]) -> None:
        shapes: dict[Key, bool] = {}
        lengths: dict[Key, int] = {}
        for write in writes:
            thing = self._things.get(write.key)
            known = shapes.get(write.key, type(thing) is Stream if thing is not None else None)
            if type(write) is Delete:
                continue
            wants_stream = type(write) is not Put
            if known is not None and known != wants_stream:
                raise wrong_shape(write.key, known)
            shapes[write.key] = wants_stream
            if type(write) is Append:
                length = lengths.get(write.key, thing.length if type(thing) is Stream else 0)
                check_length(write, length)
                lengths[write.key] = length + len(write.entries)

    def _apply(self, write: Write) -> int:
        thing = self._things.get(write.key)
        if type(write) is Put:
            doc = thing if type(thing) is Doc else self._new_document(write.key)
            doc.version += 1
            self._fill(write.key, doc, write.value, write.tags, write.text)
            return doc.version
        if type(write) is Append:
            stream = thing if type(thing) is Stream else self._things.setdefault(write.key, Stream())
            assert type(stream) is Stream
            stream.alive = True
            for entry in write.entries:
                stream.chain = link(stream.chain, entry.commitment)
                stream.records.append(record_of(stream.length, entry, stream.chain))
            return stream.length
        if type(write) is Delete:
            if type(thing) is Doc:
                self._files.remove(write.key, thing)
            return delete(thing)
        if type(thing) is not Stream:
            return 0
        if type(write) is Truncate:
            thing.drop(min(max(write.before - thing.first, 0), len(thing.records)))
        elif type(write) is Erase:
            for place in range(max(write.start - thing.first, 0), min(write.stop - thing.first, len(thing.records))):
                thing.records[place] = msgspec.structs.replace(
                    thing.records[place], body=None, text=None, sender=None, receiver=None, native=None
                )
                thing.natives.pop(thing.first + place, None)
        return thing.length

    def _new_document(self, key: Key) -> Doc:
        self._order += 1
        doc = self._things[key] = Doc(self._order)
        return doc

    def _fill(self, key: Key, doc: Doc, value: Json | None, tags: dict[str, str], text: str | None) -> None:
        if value is None or doc.value is None or doc.tags != tags:
            self._files.remove(key, doc)
            doc.tags = dict(tags)
            if value is not None:
                self._files.add(key, doc)
            self._note_claims(key, doc.tags)
        doc.value, doc.text = value, text

    def _remember(self, commit: Commit, receipt: Receipt) -> None:
        now = self._clock()
        self._receipts[commit.space, commit.id] = receipt
        seconds = self.kept_seconds if commit.keep else OUR_SECONDS
        self._ends[commit.keep].append((now + seconds, (commit.space, commit.id)))
        for queue in self._ends.values():
            while queue and queue[0][0] < now:
                del self._receipts[queue.popleft()[1]]

    def _version(self, key: Key) -> int:
        thing = self._things.get(key)
        if type(thing) is Doc:
            return thing.version if thing.value is not None else 0
        return thing.length if type(thing) is Stream and thing.alive else 0

    def _check_open(self, *, writing: bool = True) -> None:
        if self._closed:
            raise Closed("this store is closed" + "; nothing changed" * writing)


class _Spot:
    """A match that can be counted: one place is one object, whatever it holds."""

    __slots__ = ("match",)

    def __init__(self, match: Match) -> None:
        self.match = match

    def __eq__(self, other: object) -> bool:
        return type(other) is _Spot and self.match is other.match

    def __hash__(self) -> int:
        return id(self.match)
