"""Export and import: what leaves one store for another is all there is, exactly as it is. Optional for stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any
from unittest import SkipTest

from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.stemming import words
from strongroom.store import (
    EXPORT_BYTES,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Exportable,
    ExportItem,
    ExportPage,
    Find,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Searchable,
    Store,
    Truncate,
    Write,
    ask_all,
    new_id,
)
from strongroom.testing.conformance.suite import Suite, raises

STEP = 500
_LARGE = tuple(Entry("large", encode(size), text="pear " * size) for size in (10, 60, 10, 60))


class Exports(Suite):
    group = "moving"

    def exportable(self) -> Exportable:
        if not isinstance(self.store, Exportable):
            raise SkipTest("this store cannot move its content")
        return self.store

    def filled(self, store: Store) -> Store:
        """Fill a store with one of everything, and return it."""
        for writes in self._history():
            store.commit(Commit(new_id(), (), writes))
        return store

    def _history(self) -> Iterator[tuple[Write, ...]]:
        log, empty, gone = (self.key(id, kind="log") for id in ("log", "empty", "gone"))
        for n in range(6):
            chained = Entry("note", encode([n]), n, -n, "from", "to\0", f"apple {n}", sha256(bytes([n])).digest())
            # Documents are created in an order that is not the one of their names, and some are written again.
            yield (
                Append(log, (chained, Entry("plain", encode({"n": n})))),
                Put(self.key(f"d{5 - n}"), encode(n), {"odd": str(n % 2)}, "some pears"),
                Put(self.key(f"d{5 - n // 2}"), encode(n), {"odd": str(n % 2)}),
            )
        yield Truncate(log, 3), Erase(log, 4, 6), Put(self.key("empty"), encode(None), {"odd": ""}, "")
        yield Append(empty, (Entry("t", encode(1), commitment=bytes(32)),)), Truncate(empty, 1)
        yield Append(gone, (Entry("t", encode(1), text="secret", commitment=bytes(32)),)), Delete(gone)
        yield Put(self.key("dead"), encode("secret"), {"odd": "1"}, "secret"), Delete(self.key("dead"))

    def contents(self, store: Store) -> list[Any]:
        """Everything a reader can see of what `filled` wrote."""
        scans = [Scan(self.space, "thing", tags, reverse=back) for tags in ({}, {"odd": "1"}) for back in (False, True)]
        streams = [Range(self.key(id, kind="log")) for id in ("log", "empty", "gone")]
        pages = [page.documents for page in ask_all(store, scans)]
        found: list[Any] = [*pages, *store.read(streams), store.read([Get(self.key("dead"))])]
        if isinstance(self.store, Searchable) and isinstance(store, Searchable):
            for kind, text in (("log", "apple 4 secret"), ("thing", "pear secret")):
                found.append(store.search(Find(self.space, kind, words(text))))
        return found

    def export_pages(self, limit: int, max_bytes: int = EXPORT_BYTES) -> Iterator[ExportPage]:
        """The pages that hold something of our space. Whatever else the store holds is passed over in large steps."""
        store, cursor = self.exportable(), None
        while True:
            exported: ExportPage = store.unload(cursor, STEP)
            if any(item.key.space == self.space for item in exported.items):
                break
            cursor = exported.next
            assert cursor is not None, "nothing of this space was unloaded"
        while True:
            exported = store.unload(cursor, limit, max_bytes)
            yield exported
            cursor = exported.next
            if cursor is None:
                return

    def items(self, limit: int = STEP, max_bytes: int = EXPORT_BYTES) -> list[ExportItem]:
        """The items of our space, one for each key, sorted."""
        pages = self.export_pages(limit, max_bytes)
        return _joined([item for exported in pages for item in exported.items], self.space)

    def reference(self) -> tuple[MemoryStore, tuple[ExportItem, ...]]:
        """A store in memory that holds one of everything, and its items."""
        reference = MemoryStore()
        self.filled(reference)
        return reference, reference.unload(None, 10**6).items

    # ---- out --------------------------------------------------------------------------------------------------------

    def test_everything_is_unloaded_as_it_is(self) -> None:
        """Unloading carries versions, tombstones, indexes, chains, tags and texts, of documents and streams."""
        self.exportable()
        self.filled(self.store)
        assert self.items() == _joined(self.reference()[1], self.space)

    def test_small_pages_hold_the_same(self) -> None:
        """However small the pages are, together they hold the same, each about as much as it was asked to."""
        self.exportable()
        self.filled(self.store)
        for limit in (1, 3):
            assert self.items(limit) == _joined(self.reference()[1], self.space)
            for exported in self.export_pages(limit):
                assert sum(max(len(item.records), 1) for item in exported.items) <= limit

    def test_pages_end_where_they_do_not_fit(self) -> None:
        """However few bytes a page may have, together they hold the same; only one thing alone may be more."""
        self.exportable()
        self.filled(self.store)
        self.do(Put(self.key("large"), encode("x" * 300)), Append(self.key("log", kind="log"), _LARGE))
        whole = self.items()
        for most in (1, 30, 350):
            assert self.items(STEP, most) == whole
            for exported in self.export_pages(STEP, most):
                sizes = [size for item in exported.items for size in _sizes(item) if size]
                assert sum(sizes) <= most or len(sizes) == 1
        assert len(list(self.export_pages(STEP, 350))) < len(list(self.export_pages(STEP, 30)))

    def test_documents_are_unloaded_in_order_of_creation(self) -> None:
        """Documents leave in the order they were created in, so that the next store lists them in the same order."""
        self.exportable()
        self.filled(self.store)
        order = [
            item.key.id
            for exported in self.export_pages(STEP)
            for item in exported.items
            if item.key.space == self.space and item.alive and not item.stream
        ]
        assert order == self.ids(Scan(self.space, "thing"))

    # ---- in ---------------------------------------------------------------------------------------------------------

    def test_what_was_loaded_reads_as_before(self) -> None:
        """What was loaded reads, is listed and is found as in the store it came from."""
        store = self.exportable()
        reference, items = self.reference()
        store.load(items)
        assert self.contents(self.store) == self.contents(reference)

    def test_what_was_loaded_keeps_its_claims(self) -> None:
        """A document that was loaded stands in the way of others who claim the same, until it lets go."""
        store, reference = self.exportable(), MemoryStore()
        reference.commit(Commit(new_id(), (), (Put(self.key("a"), encode(1), {"=n": "x"}),)))
        store.load(reference.unload(None, 10).items)
        claim = Put(self.key("b"), encode(2), {"=n": "x"})
        with raises(Conflict):
            self.do(claim)
        self.do(Delete(self.key("a")))
        assert self.do(claim).versions == (1,)

    def test_what_was_loaded_can_be_unloaded(self) -> None:
        """A round trip changes nothing."""
        store = self.exportable()
        _, items = self.reference()
        store.load(items)
        assert self.items() == _joined(items, self.space)

    def test_loading_twice_changes_nothing(self) -> None:
        """Loading the same items again, all or some of them, changes nothing."""
        store = self.exportable()
        reference, items = self.reference()
        for again in (items, items, items[:4], items[3:]):
            store.load(again)
        assert self.contents(self.store) == self.contents(reference)
        assert self.items() == _joined(items, self.space)

    def test_a_stream_can_be_loaded_in_stretches(self) -> None:
        """A stream that comes in several items is put together, also when a stretch comes twice."""
        store = self.exportable()
        reference, items = self.reference()
        for item in items:
            pieces = [replace(item, records=(record,)) for record in item.records] or [item]
            for piece in pieces:
                store.load([piece])
                store.load([piece])
        assert self.contents(self.store) == self.contents(reference)

    def test_loading_nothing_is_no_error(self) -> None:
        """An empty load changes nothing and is no error."""
        self.exportable().load(())
        assert self.ids(Scan(self.space, "thing")) == []

    # ---- afterwards -------------------------------------------------------------------------------------------------

    def test_counting_goes_on_after_a_move(self) -> None:
        """Expectations made against the old store hold against the new one; counts and chains go on."""
        store = self.exportable()
        reference, items = self.reference()
        store.load(items)
        log, empty, gone = (self.key(id, kind="log") for id in ("log", "empty", "gone"))
        more = (Entry("t", encode("more"), text="apple", commitment=b"m" * 32),)
        commit = Commit(
            new_id(),
            (Expect(log, 12), Expect(empty, 1), Expect(gone, 0), Expect(self.key("dead"), 0)),
            (
                Append(log, more),
                Append(empty, more),
                Append(gone, more),
                Put(self.key("dead"), encode(1), {"odd": "1"}),
            ),
        )
        assert self.store.commit(commit).versions == reference.commit(commit).versions == (13, 2, 2, 3)
        assert self.contents(self.store) == self.contents(reference)
        with raises(Conflict):
            self.do(Put(self.key("dead"), encode(2)), expects=(Expect(log, 12),))

    def test_what_was_loaded_can_be_erased_and_deleted(self) -> None:
        """What was moved can be changed like what was written here, and then is gone from every list and index."""
        store = self.exportable()
        reference, items = self.reference()
        store.load(items)
        log = self.key("log", kind="log")
        commit = Commit(
            new_id(),
            (),
            (Erase(log, 6, 9), Delete(self.key("d5")), Put(self.key("d4"), encode(9), {"odd": "1"}, "plums")),
        )
        assert self.store.commit(commit) == reference.commit(commit)
        assert self.contents(self.store) == self.contents(reference)


def _sizes(item: ExportItem) -> list[int]:
    """How many bytes each of the things has that an item holds."""
    things = [(item.value, item.text), *((record.body, record.text) for record in item.records)]
    return [len(value or b"") + len(text or "") for value, text in things]


def _joined(items: Sequence[ExportItem], space: str) -> list[ExportItem]:
    """One item for each key of a space, sorted, whatever stretches its stream came in."""
    joined: dict[Key, ExportItem] = {}
    for item in items:
        if item.key.space == space:
            before = joined.get(item.key)
            joined[item.key] = replace(item, records=before.records + item.records) if before else item
    return [joined[key] for key in sorted(joined)]
