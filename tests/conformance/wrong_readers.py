"""Stores that answer wrongly on purpose, each with the guarantee it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.store import (
    AnyQuestion,
    Commit,
    Get,
    Range,
    Receipt,
    Scan,
    Tail,
)
from tests.conformance.wrong import dawdle, register

WRONG, breaks = register()


@breaks("test_a_read_is_one_snapshot_of_documents")
class TearsReads(MemoryStore):
    """Answers each question from a moment of its own."""

    def read(self, questions: Sequence[AnyQuestion]) -> list[Any]:
        answers = []
        for question in questions:
            answers += super().read([question])
            dawdle()
        return answers


@breaks("test_what_was_acknowledged_is_seen")
class ReadsStale(MemoryStore):
    """Answers each question as it did the first time, which is right after the first commit."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[str, Any] = {}

    def commit(self, commit: Commit) -> Receipt:
        receipt = super().commit(commit)
        self.read([Get(write.key) for write in commit.writes])
        return receipt

    def _answer(self, question: AnyQuestion) -> Any:
        if str(question) not in self._copies:
            self._copies[str(question)] = super()._answer(question)
        return self._copies[str(question)]


@breaks("test_a_tail_has_the_newest")
class TailIsOneShort(MemoryStore):
    """Counts a tail wrong by one."""

    def _answer(self, question: AnyQuestion) -> Any:
        if type(question) is Tail and question.count:
            question = replace(question, count=question.count - 1)
        return super()._answer(question)


@breaks("test_a_tail_fits_its_weight")
class IgnoresWeight(MemoryStore):
    """Answers a tail by weight with everything."""

    def _answer(self, question: AnyQuestion) -> Any:
        return super()._answer(replace(question, max_weight=None) if type(question) is Tail else question)


@breaks("test_a_newest_record_that_is_too_heavy_leaves_nothing")
class AlwaysAnswersOne(MemoryStore):
    """Answers with the newest record even if it does not fit."""

    def _answer(self, question: AnyQuestion) -> Any:
        found: Any = super()._answer(question)
        if type(question) is Tail and question.max_weight is not None and found.length and not found.records:
            return super()._answer(replace(question, max_weight=None, count=1))
        return found


@breaks("test_a_range_is_half_open")
class RangeIsClosed(MemoryStore):
    """Takes the end of a range for part of it."""

    def _answer(self, question: AnyQuestion) -> Any:
        if type(question) is Range and question.stop is not None:
            question = replace(question, stop=question.stop + 1)
        return super()._answer(question)


@breaks("test_pages_join_without_gap_or_repeat")
class SkipsBetweenPages(MemoryStore):
    """Leaves out the first document of the next page."""

    def _answer(self, question: AnyQuestion) -> Any:
        if type(question) is Scan and question.after is not None and question.after.isdecimal():
            question = replace(question, after=str(int(question.after) + (-1 if question.reverse else 1)))
        return super()._answer(question)


@breaks("test_a_page_for_nothing_is_empty")
class GoesOnFromNothing(MemoryStore):
    """Says that there is a next page where no document was asked for."""

    def _scan(self, scan: Scan) -> Any:
        page = super()._scan(scan)
        return replace(page, next="0") if scan.limit == 0 else page


@breaks("test_pages_stand_still_while_documents_are_deleted")
class PagesByOffset(MemoryStore):
    """Remembers how many documents were shown, not which."""

    def _scan(self, scan: Scan) -> Any:
        whole = super()._scan(replace(scan, after=None, limit=10**6)).documents
        start = int(scan.after or 0)
        page = whole[start : start + scan.limit]
        more = start + scan.limit < len(whole)
        return replace(super()._scan(scan), documents=page, next=str(start + scan.limit) if more else None)


@breaks("test_all_tags_must_match")
class AnyTagWillDo(MemoryStore):
    """Finds documents that carry one of the tags."""

    def _scan(self, scan: Scan) -> Any:
        return super()._scan(replace(scan, tags=dict(list(scan.tags.items())[:1])))


@breaks("test_a_scan_follows_the_order_of_creation")
class ScansByName(MemoryStore):
    """Answers a scan in the order of ids."""

    def _scan(self, scan: Scan) -> Any:
        page = super()._scan(scan)
        return replace(page, documents=tuple(sorted(page.documents, key=lambda document: document.key.id)))
