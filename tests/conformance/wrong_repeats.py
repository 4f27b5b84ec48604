"""Stores that get ids, digests, answers or receipts wrong on purpose, each with the guarantee it breaks."""

from __future__ import annotations

from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.errors import StrongroomError
from strongroom.store import Answer, AnyQuestion, Commit, Get, Key, Put, Receipt, ReceiptOf, repeat_of
from tests.conformance.wrong import dawdle, register

WRONG, breaks = register()


@breaks("test_a_repeated_commit_happens_once")
class ForgetsIds(MemoryStore):
    """Does not remember what it did."""

    def _remember(self, commit: Commit, receipt: Receipt) -> None:
        pass


@breaks("test_one_commit_from_many_threads_happens_once")
class RemembersTooLate(MemoryStore):
    """Looks an id up, lets go of the lock, then writes."""

    def commit(self, commit: Commit) -> Receipt:
        with self._lock:
            known = self._receipts.get((commit.space, commit.id))
        if known is not None:
            return repeat_of(commit, known)
        dawdle()
        with self._lock:
            self._receipts.pop((commit.space, commit.id), None)
        return super().commit(commit)


@breaks("test_an_id_of_another_space_is_another_id")
class SharesIds(MemoryStore):
    """Keeps the ids of all spaces together."""

    def commit(self, commit: Commit) -> Receipt:
        known = next((receipt for (_, id), receipt in self._receipts.items() if id == commit.id), None)
        return repeat_of(commit, known) if known is not None else super().commit(commit)


@breaks("test_a_refused_commit_leaves_its_id_free")
class RemembersRefusals(MemoryStore):
    """Remembers a refused commit as if it had happened."""

    def commit(self, commit: Commit) -> Receipt:
        try:
            return super().commit(commit)
        except StrongroomError:
            self._remember(commit, Receipt(commit.id, (0,) * len(commit.writes), commit.digest))
            raise


@breaks("test_a_refused_commit_has_no_receipt")
class ReceiptsForRefusals(RemembersRefusals):
    """The same, seen by who asks for the receipt."""


class IgnoresDigests(MemoryStore):
    """Takes whatever comes under a known id for a repeat."""

    def commit(self, commit: Commit) -> Receipt:
        known = self._receipts.get((commit.space, commit.id))
        return super().commit(commit if known is None else replace(commit, digest=known.digest))


for _guarantee in (
    "test_an_id_stands_for_one_content",
    "test_an_id_used_otherwise_is_refused_before_anything_else",
    "test_digests_are_compared_whole",
):
    breaks(_guarantee)(IgnoresDigests)


@breaks("test_one_of_many_contents_wins_an_id")
class JudgesDigestsTooLate(IgnoresDigests):
    """The same, seen by threads."""


@breaks("test_digests_are_compared_whole")
class PadsDigests(MemoryStore):
    """Has a column of 16 bytes for them."""

    def commit(self, commit: Commit) -> Receipt:
        return super().commit(replace(commit, digest=commit.digest[:16].ljust(16, b"\0")))


@breaks("test_an_id_stands_for_one_content")
class WritesBeforeItLooks(MemoryStore):
    """Refuses other content under a known id, and stores it."""

    def commit(self, commit: Commit) -> Receipt:
        try:
            return super().commit(commit)
        except StrongroomError:
            if (commit.space, commit.id) in self._receipts:
                super().commit(replace(commit, id=f"{commit.id}-again", expects=()))
            raise


@breaks("test_a_repeat_is_known_by_its_id_and_its_digest")
class ComparesWrites(MemoryStore):
    """Adds what is written to the digest, so that a repeat with a later time is something else."""

    def commit(self, commit: Commit) -> Receipt:
        keys = "".join(write.key.id for write in commit.writes).encode()
        return super().commit(replace(commit, digest=(commit.digest + keys)[-32:]))


@breaks("test_a_repeat_says_that_it_is_one")
class NeverSaysRepeated(MemoryStore):
    """Answers a repeat as if it were the first."""

    def commit(self, commit: Commit) -> Receipt:
        return replace(super().commit(commit), repeated=False)


class ForgetsAnswers(MemoryStore):
    """Keeps the versions and no more."""

    def _remember(self, commit: Commit, receipt: Receipt) -> None:
        super()._remember(commit, replace(receipt, answer=None))


breaks("test_an_answer_is_kept_exactly")(ForgetsAnswers)
breaks("test_the_first_answer_counts")(ForgetsAnswers)


@breaks("test_an_answer_is_kept_exactly")
class NullIsNone(MemoryStore):
    """Takes the answer null for none."""

    def commit(self, commit: Commit) -> Receipt:
        return super().commit(replace(commit, answer=None) if commit.answer == encode(None) else commit)


@breaks("test_the_first_answer_counts")
class AnswersAnew(MemoryStore):
    """Hands a repeat its own answer back."""

    def commit(self, commit: Commit) -> Receipt:
        return replace(super().commit(commit), answer=commit.answer)


@breaks("test_a_check_without_writes_is_remembered_too")
class ForgetsChecks(MemoryStore):
    """Remembers only what wrote something."""

    def _remember(self, commit: Commit, receipt: Receipt) -> None:
        if commit.writes:
            super()._remember(commit, receipt)


class AsksAnySpace(MemoryStore):
    """Answers for an id whatever space it belongs to."""

    def _answer(self, question: AnyQuestion) -> Answer:
        if isinstance(question, ReceiptOf):
            spaces = [space for space, id in self._receipts if id == question.id]
            question = ReceiptOf(spaces[0], question.id) if spaces else question
        return super()._answer(question)


breaks("test_an_id_of_another_space_is_another_id")(AsksAnySpace)


@breaks("test_a_receipt_can_be_asked_for")
class KnowsOnlyChosenIds(MemoryStore):
    """Answers for ids that callers chose, and for no other."""

    def _answer(self, question: AnyQuestion) -> Answer:
        if isinstance(question, ReceiptOf) and len(question.id) == 33 and question.id[0] != "!":
            return None
        return super()._answer(question)


@breaks("test_receipts_of_appends_can_be_asked_for")
class KnowsTheNewest(MemoryStore):
    """Has room for ten receipts."""

    def _remember(self, commit: Commit, receipt: Receipt) -> None:
        super()._remember(commit, receipt)
        while len(self._receipts) > 10:
            del self._receipts[next(iter(self._receipts))]


@breaks("test_what_was_never_committed_has_no_receipt")
class MakesReceiptsUp(MemoryStore):
    """Answers with an empty receipt instead of none."""

    def _answer(self, question: AnyQuestion) -> Answer:
        found = super()._answer(question)
        return Receipt(question.id, ()) if found is None and isinstance(question, ReceiptOf) else found


@breaks("test_a_receipt_outlives_what_was_written")
class DropsReceiptsWithRecords(MemoryStore):
    """Keeps receipts in the records, and lets them go with those."""

    def commit(self, commit: Commit) -> Receipt:
        receipt = super().commit(commit)
        if any(type(write).__name__ in ("Delete", "Truncate") for write in commit.writes):
            self._receipts.clear()
        return receipt


@breaks("test_asking_for_a_receipt_changes_nothing")
class RemembersQuestions(MemoryStore):
    """Takes an id that was asked for as used: what a probing commit may do."""

    def _answer(self, question: AnyQuestion) -> Answer:
        found = super()._answer(question)
        if isinstance(question, ReceiptOf) and found is None:
            self._receipts[question.space, question.id] = Receipt(question.id, (1,), b"\x00one" * 4)
        return found


@breaks("test_commit_ids_are_compared_literally")
class FoldsIds(MemoryStore):
    """Compares ids without their case."""

    def commit(self, commit: Commit) -> Receipt:
        return super().commit(replace(commit, id=commit.id.lower()))


class ShowsReceiptsEarly(MemoryStore):
    """Shows the receipt of a commit at once, and what it wrote only with the next commit."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[Key, Answer] = {}

    def commit(self, commit: Commit) -> Receipt:
        for write in commit.writes:
            if isinstance(write, Put) and (before := super()._answer(Get(write.key))) is not None:
                self._shown[write.key] = before
        return super().commit(commit)

    def _answer(self, question: AnyQuestion) -> Answer:
        late = self._shown.get(question.key) if isinstance(question, Get) else None
        return late or super()._answer(question)


breaks("test_a_receipt_is_seen_with_what_it_stands_for")(ShowsReceiptsEarly)
breaks("test_a_receipt_of_ours_is_seen_with_what_it_stands_for")(ShowsReceiptsEarly)


@breaks("test_receipts_answer_from_many_threads")
class GivesReceiptsOnce(MemoryStore):
    """Forgets a receipt once it was given."""

    def _answer(self, question: AnyQuestion) -> Answer:
        found = super()._answer(question)
        if isinstance(question, ReceiptOf):
            self._receipts.pop((question.space, question.id), None)
        return found


@breaks("test_a_repeat_is_not_judged_again")
class JudgesRepeats(MemoryStore):
    """Looks at expectations before it looks for the receipt."""

    def commit(self, commit: Commit) -> Receipt:
        if commit.expects:
            super().commit(Commit(f"{commit.id}-judged-{len(self._receipts)}", commit.expects))
        return super().commit(commit)


@breaks("test_every_refusal_leaves_the_id_free")
class KeepsTheDigestOfRefusals(MemoryStore):
    """Holds an id for the content it was first tried with."""

    _tried: dict[str, bytes] = {}

    def commit(self, commit: Commit) -> Receipt:
        self._tried = {commit.id: commit.digest, **self._tried}
        if self._tried[commit.id] != commit.digest:
            return repeat_of(commit, Receipt(commit.id, (), self._tried[commit.id]))
        return super().commit(commit)
