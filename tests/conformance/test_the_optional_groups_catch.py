"""Stores that search or move wrongly must fail the suite, at the very guarantee that they break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore, Stream
from strongroom.store import (
    EXPORT_BYTES,
    AnyQuestion,
    Erase,
    ExportItem,
    ExportPage,
    Find,
    Found,
    Key,
    Match,
    Part,
    Slice,
    Store,
    Tail,
    Write,
)
from strongroom.testing import StoreConformance, failures


class FindsErased(MemoryStore):
    """Forgets to take what is erased out of its index."""

    def _apply(self, write: Write) -> int:
        thing = self._things.get(write.key)
        texts = [record.text for record in thing.records] if type(thing) is Stream else []
        length = super()._apply(write)
        if type(write) is Erase and type(thing) is Stream:
            thing.records = [replace(record, text=text) for record, text in zip(thing.records, texts, strict=True)]
        return length


class IndexesLate(MemoryStore):
    """Searches what there was when it last searched."""

    _late: Found | None = None

    def search(self, find: Find) -> Found:
        found, self._late = self._late, super().search(find)
        return found or self._late


class IgnoresTags(MemoryStore):
    def search(self, find: Find) -> Found:
        return super().search(replace(find, tags={}))


class SearchesAllSpaces(MemoryStore):
    def _texts(self, find: Find) -> Iterator[tuple[Match, str]]:
        for space in {key.space for key in self._things}:
            yield from super()._texts(replace(find, space=space))


class SearchesAllStreams(MemoryStore):
    def search(self, find: Find) -> Found:
        return super().search(replace(find, id=None))


class KnowsNoLimit(MemoryStore):
    def search(self, find: Find) -> Found:
        return super().search(replace(find, limit=500))


class CountsWrong(MemoryStore):
    def search(self, find: Find) -> Found:
        found = super().search(find)
        return replace(found, counts={word: count + 1 for word, count in found.counts.items()})


class LeavesTombstones(MemoryStore):
    """Unloads only what is alive."""

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        found = super().unload(after, limit, max_bytes)
        return replace(found, items=tuple(item for item in found.items if item.alive))


class ShipsTooMuch(MemoryStore):
    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return super().unload(after, limit + 1, max_bytes)


class KnowsNoBytes(MemoryStore):
    """Counts what it unloads, and never weighs it."""

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        return super().unload(after, limit)


class SortsByName(MemoryStore):
    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        found = super().unload(after, limit, max_bytes)
        return replace(found, items=tuple(sorted(found.items, key=lambda item: item.key)))


class LoadsTwice(MemoryStore):
    """Appends what it is given, whether it has it or not."""

    def _load_stream(self, item: ExportItem) -> None:
        thing = self._things.get(item.key)
        again = [replace(record, index=record.index + 99) for record in item.records] if thing else []
        super()._load_stream(item)
        if type(thing) is Stream:
            thing.records += again


class StartsAnew(MemoryStore):
    """Forgets how many of a stream's records are gone."""

    def _load_stream(self, item: ExportItem) -> None:
        super()._load_stream(replace(item, version=0) if not item.records else item)


class LosesTags(MemoryStore):
    def load(self, items: Sequence[ExportItem]) -> None:
        super().load([replace(item, tags={}) for item in items])


class KeepsTheFirstStretch(MemoryStore):
    def _load_stream(self, item: ExportItem) -> None:
        if item.key not in self._things:
            super()._load_stream(item)


class BreaksTheChain(MemoryStore):
    def _load_stream(self, item: ExportItem) -> None:
        super()._load_stream(item)
        thing: Any = self._things[item.key]
        thing.chain = None


class LoadsNothingWrong(MemoryStore):
    """Leaves something behind when there is nothing to load."""

    def load(self, items: Sequence[ExportItem]) -> None:
        if not items:
            spaces = {key.space for key in self._things}
            assert spaces, "there is nothing to load"
        super().load(items)


class DocumentsAreForGood(MemoryStore):
    """What was loaded cannot be removed."""

    _loaded: frozenset[Key] = frozenset()

    def load(self, items: Sequence[ExportItem]) -> None:
        self._loaded |= {item.key for item in items}
        super().load(items)

    def _apply(self, write: Write) -> int:
        return self._version(write.key) if write.key in self._loaded else super()._apply(write)


class HoldsEverything(MemoryStore):
    """Knows no bound."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return Part(self.read(questions))

    def search(self, find: Find) -> Found:
        return super().search(replace(find, max_bytes=None))


class HidesTheCut(MemoryStore):
    """Passes off what fitted as all there is."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return Part(super().read_within(questions, max_bytes).answers)


class AnswersNothingLarge(MemoryStore):
    """Makes no progress where the first thing is too large."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        return super().read_within(questions, max_bytes) if max_bytes > 10 or not questions else Part([])


class GivesEachItsOwnRoom(MemoryStore):
    """Bounds each question, not all of them together."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        parts = [super(GivesEachItsOwnRoom, self).read_within([each], max_bytes) for each in questions]
        return Part([answer for part in parts for answer in part.answers], any(part.cut for part in parts))


class CutsTheWrongEnd(MemoryStore):
    """Leaves out the newest records of a tail."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        part = super().read_within(questions, max_bytes)
        if part.cut and type(questions[0]) is Tail:
            [whole] = self.read(questions)
            assert type(whole) is Slice
            return Part([replace(whole, records=whole.records[:2])], cut=True)
        return part


WRONG: list[tuple[type[MemoryStore], str]] = [
    (FindsErased, "test_what_was_erased_is_never_found"),
    (IndexesLate, "test_a_record_is_found_at_once"),
    (IndexesLate, "test_a_document_is_found_by_what_it_says_now"),
    (IgnoresTags, "test_tags_narrow_a_search"),
    (IgnoresTags, "test_a_search_goes_by_the_tags_of_now"),
    (IgnoresTags, "test_a_search_finds_what_the_reference_finds"),
    (SearchesAllSpaces, "test_a_search_stays_in_its_space"),
    (SearchesAllStreams, "test_a_search_stays_in_its_kind_and_stream"),
    (KnowsNoLimit, "test_a_search_stops_at_its_limit"),
    (CountsWrong, "test_places_and_words_are_counted"),
    (LeavesTombstones, "test_everything_is_unloaded_as_it_is"),
    (ShipsTooMuch, "test_small_pages_hold_the_same"),
    (KnowsNoBytes, "test_pages_end_where_they_do_not_fit"),
    (SortsByName, "test_documents_are_unloaded_in_order_of_creation"),
    (LoadsTwice, "test_loading_twice_changes_nothing"),
    (LosesTags, "test_what_was_loaded_reads_as_before"),
    (StartsAnew, "test_what_was_loaded_can_be_unloaded"),
    (KeepsTheFirstStretch, "test_a_stream_can_be_loaded_in_stretches"),
    (BreaksTheChain, "test_counting_goes_on_after_a_move"),
    (LoadsNothingWrong, "test_loading_nothing_is_no_error"),
    (DocumentsAreForGood, "test_what_was_loaded_can_be_erased_and_deleted"),
    (HoldsEverything, "test_documents_end_where_they_do_not_fit"),
    (HoldsEverything, "test_texts_count"),
    (HoldsEverything, "test_matches_end_where_they_do_not_fit"),
    (HidesTheCut, "test_a_range_ends_early"),
    (HidesTheCut, "test_a_scan_says_where_to_go_on"),
    (AnswersNothingLarge, "test_the_first_thing_always_comes"),
    (GivesEachItsOwnRoom, "test_questions_share_the_room"),
    (CutsTheWrongEnd, "test_a_tail_begins_late"),
]


@pytest.mark.parametrize(("wrong", "guarantee"), WRONG, ids=[f"{wrong.__name__}-{name}" for wrong, name in WRONG])
def test_a_wrong_store_fails_the_guarantee_it_breaks(wrong: type[MemoryStore], guarantee: str) -> None:
    class Suite(StoreConformance):
        def make_store(self) -> Store:
            return wrong()

    assert list(failures(Suite, only=guarantee)) == [guarantee]
