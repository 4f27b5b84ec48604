"""Stores that are wrong on purpose, each with the guarantee it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from strongroom.backends.memory import Doc, MemoryStore, Stream
from strongroom.store import (
    AnyQuestion,
    Append,
    Claim,
    Commit,
    Delete,
    Erase,
    Expect,
    Key,
    Put,
    Receipt,
    Scan,
    Truncate,
    Write,
    check_expectation,
    claimed,
    claims_of,
    settled_by,
)
from tests.conformance.wrong import dawdle, register

WRONG, breaks = register()


# ---- commits --------------------------------------------------------------------------------------------------------


@breaks("test_no_update_is_lost")
class LosesUpdates(MemoryStore):
    """Judges expectations, lets go of the lock, then writes."""

    def commit(self, commit: Commit) -> Receipt:
        if commit.expects and commit.writes:
            with self._lock:
                for expect in commit.expects:
                    self._check(expect)
            dawdle()
        return super().commit(replace(commit, expects=()) if commit.writes else commit)

    def _check(self, expect: Expect) -> None:
        check_expectation(expect, self._version(expect.key))


@breaks("test_a_stream_that_is_full_changes_nothing")
class HalfCommits(MemoryStore):
    """Writes one by one and stops at the first that is refused."""

    def commit(self, commit: Commit) -> Receipt:
        if len(commit.writes) < 2:
            return super().commit(commit)
        receipts = [
            super(HalfCommits, self).commit(
                Commit(f"{commit.id}/{place}", commit.expects if not place else (), (write,))
            )
            for place, write in enumerate(commit.writes)
        ]
        return Receipt(commit.id, tuple(receipt.versions[0] for receipt in receipts))


@breaks("test_expectations_are_judged_before_the_writes")
class JudgesAfterwards(MemoryStore):
    """Counts its own writes when it judges an expectation."""

    def _version(self, key: Key) -> int:
        return super()._version(key) + self._ahead.get(key, 0)

    _ahead: dict[Key, int] = {}

    def commit(self, commit: Commit) -> Receipt:
        puts = [write.key for write in commit.writes if type(write) is Put]
        self._ahead = {key: puts.count(key) for key in puts}
        return super().commit(commit)


@breaks("test_every_expectation_must_hold")
class JudgesTheFirstOnly(MemoryStore):
    """Looks at one expectation and not at the others."""

    def commit(self, commit: Commit) -> Receipt:
        return super().commit(replace(commit, expects=commit.expects[:1]))


@breaks("test_a_deleted_document_does_not_exist")
class SeesTombstones(MemoryStore):
    """Takes a tombstone for something that exists."""

    def _version(self, key: Key) -> int:
        thing = self._things.get(key)
        return thing.version if type(thing) is Doc else super()._version(key)


@breaks("test_writes_to_one_key_are_applied_in_order")
class WritesBackwards(MemoryStore):
    """Applies the writes of a commit in the wrong order."""

    def commit(self, commit: Commit) -> Receipt:
        receipt = super().commit(replace(commit, writes=commit.writes[::-1]))
        return Receipt(receipt.id, receipt.versions[::-1])


# ---- documents ------------------------------------------------------------------------------------------------------


@breaks("test_a_version_is_never_used_twice")
class CountsAnew(MemoryStore):
    """Forgets a deleted document, version and all."""

    def _apply(self, write: Write) -> int:
        version = super()._apply(write)
        if type(write) is Delete and type(self._things.get(write.key)) is Doc:
            del self._things[write.key]
        return version


@breaks("test_names_are_stored_literally")
class FoldsCase(MemoryStore):
    """Compares ids without regard to case."""

    def _apply(self, write: Write) -> int:
        return super()._apply(replace(write, key=replace(write.key, id=write.key.id.lower())))


@breaks("test_values_come_back_byte_for_byte")
class RoundsNumbers(MemoryStore):
    """Passes values through floating point."""

    def _apply(self, write: Write) -> int:
        if type(write) is Put:
            write = replace(write, value=type(write.value)(write.value.replace(b"9223372036854775807", b"9.2e18")))
        return super()._apply(write)


@breaks("test_a_shape_outlives_deletion")
class ForgetsShapes(MemoryStore):
    """Lets a deleted key become anything."""

    def _check_writes(self, writes: Sequence[Write]) -> None:
        kept = dict(self._things)
        for key, thing in kept.items():
            if (type(thing) is Doc and thing.value is None) or (type(thing) is Stream and not thing.alive):
                del self._things[key]
        super()._check_writes(writes)
        for write in writes:
            kept.pop(write.key, None)
        self._things.update(kept)


# ---- streams --------------------------------------------------------------------------------------------------------


@breaks("test_an_index_is_never_used_twice")
class ReusesIndexes(MemoryStore):
    """Starts a deleted stream from 0 again."""

    def _apply(self, write: Write) -> int:
        length = super()._apply(write)
        if type(write) is Delete and type(self._things.get(write.key)) is Stream:
            self._things[write.key] = Stream()
        return length


@breaks("test_truncation_drops_the_oldest")
class ShiftsIndexes(MemoryStore):
    """Numbers what is left of a truncated stream from 0."""

    def _apply(self, write: Write) -> int:
        length = super()._apply(write)
        stream = self._things.get(write.key)
        if type(write) is Truncate and type(stream) is Stream:
            stream.first = 0
            stream.records = [replace(record, index=place) for place, record in enumerate(stream.records)]
            return stream.length
        return length


@breaks("test_erasure_keeps_to_its_range")
class ErasesOneMore(MemoryStore):
    """Takes the end of a range for part of it."""

    def _apply(self, write: Write) -> int:
        return super()._apply(replace(write, stop=write.stop + 1) if type(write) is Erase else write)


@breaks("test_erasure_blanks_the_content")
class ErasesBodiesOnly(MemoryStore):
    """Leaves the searchable text of an erased record where it was."""

    def _apply(self, write: Write) -> int:
        stream = self._things.get(write.key)
        before = list(stream.records) if type(stream) is Stream else []
        length = super()._apply(write)
        if type(write) is Erase and type(stream) is Stream:
            pairs = zip(before, stream.records, strict=True)
            stream.records = [replace(new, text=old.text) for old, new in pairs]
        return length


@breaks("test_the_chain_survives_truncation")
class RestartsTheChain(MemoryStore):
    """Forgets the chain with the records that carried it."""

    def _apply(self, write: Write) -> int:
        length = super()._apply(write)
        stream = self._things.get(write.key)
        if type(write) is Truncate and type(stream) is Stream and not stream.records:
            stream.chain = None
        return length


@breaks("test_max_length_is_never_passed")
class RacesToTheLimit(MemoryStore):
    """Judges `max_length`, lets go of the lock, then appends."""

    def commit(self, commit: Commit) -> Receipt:
        with self._lock:
            self._check_writes(commit.writes)
        dawdle()
        free = [replace(write, max_length=None) if type(write) is Append else write for write in commit.writes]
        return super().commit(replace(commit, writes=tuple(free)))


@breaks("test_the_entries_of_one_append_stay_together")
class AppendsOneByOne(MemoryStore):
    """Appends entry by entry."""

    def commit(self, commit: Commit) -> Receipt:
        write = commit.writes[0] if commit.writes else None
        if len(commit.writes) != 1 or type(write) is not Append or len(write.entries) == 1:
            return super().commit(commit)
        for place, entry in enumerate(write.entries):
            receipt = super().commit(Commit(f"{commit.id}/{place}", writes=(replace(write, entries=(entry,)),)))
            dawdle()
        return replace(receipt, id=commit.id)


# ---- claims ---------------------------------------------------------------------------------------------------------


@breaks("test_a_claim_is_refused_to_a_second_document")
class IgnoresClaims(MemoryStore):
    """Takes every tag for an ordinary one."""

    def _check_claims(self, space: str, claims: Sequence[Claim], settled: set[Key]) -> None:
        pass


@breaks("test_a_claim_can_be_handed_over")
class JudgesClaimsBefore(MemoryStore):
    """Looks who has a claim before the commit, and not after it."""

    def _check_claims(self, space: str, claims: Sequence[Claim], settled: set[Key]) -> None:
        super()._check_claims(space, claims, set())


@breaks("test_what_differs_is_claimed_apart")
class MixesKinds(MemoryStore):
    """Lets the claims of one kind stand in the way of another's."""

    def _check_claims(self, space: str, claims: Sequence[Claim], settled: set[Key]) -> None:
        for claim in claims:
            for key, thing in self._things.items():
                if type(thing) is Doc and thing.tags.get(claim.name) == claim.value and key not in settled:
                    raise claimed(claim)


@breaks("test_of_many_who_claim_at_once_one_succeeds")
class ClaimsInARace(MemoryStore):
    """Looks whether a claim is free, lets go of the lock, then writes."""

    def commit(self, commit: Commit) -> Receipt:
        if claims := claims_of(commit):
            with self._lock:
                super()._check_claims(commit.space, claims, settled_by(commit))
            dawdle()
        return super().commit(commit)

    def _check_claims(self, space: str, claims: Sequence[Claim], settled: set[Key]) -> None:
        pass


# ---- spaces and life ------------------------------------------------------------------------------------------------


@breaks("test_scans_stay_in_their_space")
class LeaksSpaces(MemoryStore):
    """Scans whatever space begins with the same letters."""

    def _scan(self, scan: Scan) -> Any:
        prefix = scan.space.removesuffix("-other")
        return super()._scan(replace(scan, space=prefix))


@breaks("test_a_waiter_is_woken_by_an_append")
class NeverTells(MemoryStore):
    """Lets waiters wait although there is news."""

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        assert timeout_seconds < 1, "a waiter was not woken"


@breaks("test_a_closed_store_writes_nothing")
class StaysOpen(MemoryStore):
    """Takes commits after it was closed."""

    def _check_open(self, **_: object) -> None:
        pass


@breaks("test_changing_an_answer_changes_nothing")
class SharesTags(MemoryStore):
    """Hands out the very dict it keeps."""

    def _answer(self, question: AnyQuestion) -> Any:
        found = super()._answer(question)
        thing = self._things.get(getattr(question, "key", None))  # type: ignore[arg-type]
        return replace(found, tags=thing.tags) if found is not None and type(thing) is Doc else found
