"""Long-term memory under every schedule, every crash point and every lost answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from strongroom.errors import CommitUnknown, Conflict, InvalidInput, StrongroomError
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import Batch, Committed, Revoked
from strongroom.store import AsyncStore, Commit, Range, new_id
from strongroom.testing.explore import CRASHED, Program, explore
from tests.hashed import hashing
from tests.services.memory_samples import mcr

BATCH = "batch_1"
FAULTS = ((1, 0), (0, 1))
ALPHA = mcr("alpha one", memory_id="mem_a", source_refs=["feed"])


def memories(store: AsyncStore, **options: Any) -> AsyncMemories:
    return AsyncMemories(Scope(store), **options)


def proposing(*requests: Any, id: str = BATCH, proposer: str = "agent-7") -> Program:
    async def program(store: AsyncStore) -> Batch:
        return await memories(store).propose(list(requests), proposer=proposer, batch_id=id)

    return program


def committing(reviewer: str = "ana", id: str = BATCH) -> Program:
    async def program(store: AsyncStore) -> Committed:
        return await memories(store).commit(id, reviewer=reviewer)

    return program


def editing(content: str, reviewer: str = "ana") -> Program:
    async def program(store: AsyncStore) -> Committed:
        return await memories(store).commit(BATCH, reviewer=reviewer, edit={0: content})

    return program


def rejecting(id: str = BATCH) -> Program:
    async def program(store: AsyncStore) -> Batch:
        return await memories(store).reject(id, reason="hearsay", reviewer="ben")

    return program


def revoking(source: str = "feed") -> Program:
    async def program(store: AsyncStore) -> Revoked:
        return await memories(store).revoke(source_ref=source, by="ana")

    return program


def steps(*programs: Program) -> Program:
    async def program(store: AsyncStore) -> None:
        for each in programs:
            await each(store)

    return program


async def active(store: AsyncStore) -> list[str]:
    return [memory.id for memory in await memories(store).list(limit=1_000)]


async def found(store: AsyncStore) -> list[str]:
    return sorted(hit.memory.id for hit in await memories(store).search("alpha", k=100))


def test_two_reviewers_race_and_get_the_same_receipt() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        one, two = results
        assert isinstance(one, Committed)
        assert one == two
        assert await active(store) == ["mem_a", "mem_b"]

    setup = proposing(ALPHA, mcr("alpha two", memory_id="mem_b"))
    assert explore([committing("ana"), committing("ben")], check, setup=setup).failure is None


def test_two_edits_race_and_the_words_of_one_are_known_and_the_other_is_told_so() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        [winner] = [place for place, result in enumerate(results) if isinstance(result, Committed)]
        assert isinstance(results[1 - winner], Conflict)
        assert [memory.content for memory in await memories(store).list()] == [["alpha tea", "alpha gin"][winner]]

    setup = proposing(ALPHA)
    assert explore([editing("alpha tea"), editing("alpha gin", "ben")], check, setup=setup).failure is None


def test_an_edit_that_a_crash_or_a_lost_answer_interrupts_is_made_once_when_it_is_repeated() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        [proposal] = (await memories(store).batch(BATCH)).proposals
        assert (proposal.edited, proposal.outcome) == ("alpha tea", "committed")
        assert (await memories(store).get("mem_a")).content == "alpha tea"

    edit = editing("alpha tea")
    for crashes, unknowns in FAULTS:
        result = explore(
            [steps_again(edit)], check, setup=proposing(ALPHA), recover=[edit], crashes=crashes, unknowns=unknowns
        )
        assert result.failure is None


def test_a_commit_and_a_rejection_race_and_one_wins() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        committed, rejected = results
        status = (await memories(store).batch(BATCH)).status
        assert await active(store) == (["mem_a"] if status == "committed" else [])
        assert isinstance(committed, Committed if status == "committed" else Conflict)
        assert isinstance(rejected, Batch if status == "rejected" else Conflict)

    assert explore([committing(), rejecting()], check, setup=proposing(ALPHA)).failure is None


def test_the_same_content_in_two_racing_batches_is_known_once() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        made = [id for result in results for id in result.memory_ids]
        assert await active(store) == made
        assert len(made) == 1
        assert [id for result in results for id in result.duplicate_ids] == made

    twin = ALPHA | {"memory_id": "mem_b", "content": "ALPHA  one"}
    setup = steps(proposing(ALPHA, id="batch_1"), proposing(twin, id="batch_2"))
    assert explore([committing(id="batch_1"), committing(id="batch_2")], check, setup=setup).failure is None


def test_of_two_batches_that_replace_one_memory_one_wins() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        winners = [result for result in results if isinstance(result, Committed)]
        assert len(winners) == 1
        assert await active(store) == list(winners[0].memory_ids)

    def replacing(id: str) -> Program:
        request = mcr(f"alpha {id}", op="supersede", supersedes=["mem_a"], memory_id=f"mem_{id}")
        return proposing(request, id=id)

    setup = steps(proposing(ALPHA), committing(), replacing("b1"), replacing("b2"))
    assert explore([committing(id="b1"), committing(id="b2")], check, setup=setup).failure is None


def test_nothing_derived_escapes_a_revocation_it_races_with() -> None:
    """Whoever is first: no active memory comes from a revoked source, and none is found at any moment after."""

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        revoked, derived = results
        assert isinstance(revoked, Revoked)
        assert isinstance(derived, (Committed, InvalidInput))
        assert await active(store) == []
        assert await found(store) == []

    child = mcr("alpha two", memory_id="mem_b", source_refs=["mem_a"])
    setup = steps(proposing(ALPHA), committing(), proposing(child, id="batch_2"))
    assert explore([revoking(), committing(id="batch_2")], check, setup=setup).failure is None


def test_citing_a_source_races_with_its_revocation() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await active(store) == []

    assert explore([revoking(), committing()], check, setup=proposing(ALPHA)).failure is None


def test_two_workers_propose_the_same_batch_at_once() -> None:
    """As one worker and its retry would, with a policy that commits at once."""

    async def program(store: AsyncStore) -> Batch:
        policy = Policy(auto_commit=frozenset({"importer"}))
        return await memories(store, policy=policy).propose([ALPHA], proposer="importer", batch_id=BATCH)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        one, two = results
        assert isinstance(one, Batch)
        assert one == two
        assert await active(store) == ["mem_a"]

    assert explore([program, program], check).failure is None


def test_a_flood_from_many_workers_stops_exactly_at_the_limit() -> None:
    def flooding(id: str) -> Program:
        async def program(store: AsyncStore) -> Batch:
            policy = Policy(max_pending_batches=1)
            return await memories(store, policy=policy).propose([mcr(id)], proposer="web", batch_id=id)

        return program

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sum(isinstance(result, Batch) for result in results) == 1

    assert explore([flooding("b1"), flooding("b2")], check).failure is None


# ---- the same commit id ---------------------------------------------------------------------------------------------


def under(id: str, call: Callable[[AsyncMemories, str], Awaitable[Any]]) -> Program:
    async def program(store: AsyncStore) -> Any:
        return await call(memories(store, embedder=hashing()), id)

    return program


CHAIN = [ALPHA, mcr("alpha two", memory_id="mem_b", source_refs=["mem_a"])]
UNDER_AN_ID: dict[str, Callable[[AsyncMemories, str], Awaitable[Any]]] = {
    "propose": lambda memories, id: memories.propose(mcr("beta"), proposer="agent-7", commit_id=id),
    "commit": lambda memories, id: memories.commit("waiting", reviewer="ana", commit_id=id),
    "reject": lambda memories, id: memories.reject("waiting", reason="hearsay", commit_id=id),
    "revoke": lambda memories, id: memories.revoke(source_ref="feed", by="ana", commit_id=id),
    "sweep": lambda memories, id: memories.sweep(commit_id=id),
    "reembed": lambda memories, id: memories.reembed(hashing(32), commit_id=id),
}
WAITING = proposing(mcr("gamma"), id="waiting")
SETUP = steps(proposing(*CHAIN), committing(), WAITING)


async def log_of(store: AsyncStore) -> list[str]:
    log = await Scope(store).get(Range(keys.log_key("default")))
    return [record.type for record in log.records]


@pytest.mark.parametrize("what", UNDER_AN_ID)
def test_two_that_share_an_id_are_one_whatever_the_schedule(what: str) -> None:
    seen: set[tuple[str, ...]] = set()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert not isinstance(results[0], BaseException)
        assert results[0] == results[1] == await program(store)
        seen.add(tuple(sorted(await log_of(store))))

    program = under("turn-7", UNDER_AN_ID[what])
    # With nothing to end or to embed, or there would be millions of schedules.
    assert explore([program, program], check, setup=WAITING).failure is None
    assert len(seen) == 1


@pytest.mark.parametrize("what", UNDER_AN_ID)
def test_whoever_crashed_or_was_not_answered_repeats_and_it_is_done_once(what: str) -> None:
    seen: set[tuple[str, ...]] = set()

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        first = await program(store)
        assert not isinstance(results[0], BaseException)
        assert results[0] in (CRASHED, first)
        seen.add(tuple(sorted(await log_of(store))))

    program = under("turn-7", UNDER_AN_ID[what])
    for crashes, unknowns in FAULTS:
        again = steps_again(program)
        result = explore([again], check, setup=SETUP, recover=[program], crashes=crashes, unknowns=unknowns)
        assert result.failure is None
    assert len(seen) == 1


def test_an_id_of_ours_that_an_unknown_outcome_told_finishes_what_was_begun() -> None:
    """Whichever commit of a revocation is not answered, the id in the error is one the whole can be repeated by."""

    async def program(store: AsyncStore) -> Revoked:
        try:
            return await memories(store).revoke(source_ref="feed", by="ana")
        except CommitUnknown as unknown:
            assert unknown.commit_id
            return await memories(store).revoke(source_ref="feed", by="ana", commit_id=unknown.commit_id)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (results[0].done, results[0].memories) == (True, 2)
        assert await active(store) == []

    assert explore([program], check, setup=SETUP, unknowns=1).failure is None


# ---- crashes and lost answers ---------------------------------------------------------------------------------------


def test_a_crash_while_proposing_leaves_a_whole_batch_or_none() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        [batch] = await memories(store).pending()
        assert len(batch.proposals) == 2
        assert await active(store) == []

    program = proposing(ALPHA, mcr("alpha two"))
    for crashes, unknowns in FAULTS:
        assert (
            explore([steps_again(program)], check, recover=[program], crashes=crashes, unknowns=unknowns).failure
            is None
        )


def test_a_crash_while_committing_leaves_it_pending_or_whole_and_a_repeat_finishes_it() -> None:
    async def whole(store: AsyncStore) -> None:
        try:
            batch = await memories(store).batch(BATCH)
        except StrongroomError:
            return
        assert len(await active(store)) == (3 if batch.status == "committed" else 0)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await active(store) == ["mem_a", "mem_b", "mem_c"]
        log = [change.event for change in await memories(store).history("mem_b")]
        assert log == ["proposed", "committed"]

    requests = [ALPHA, mcr("alpha two", memory_id="mem_b"), mcr("alpha three", memory_id="mem_c")]
    for crashes, unknowns in FAULTS:
        result = explore(
            [steps_again(committing())],
            check,
            setup=proposing(*requests),
            always=whole,
            recover=[committing()],
            crashes=crashes,
            unknowns=unknowns,
        )
        assert result.failure is None


def test_a_crash_while_rejecting_leaves_it_pending_or_rejected() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (await memories(store).batch(BATCH)).status == "rejected"
        assert await active(store) == []

    for crashes, unknowns in FAULTS:
        result = explore(
            [steps_again(rejecting())],
            check,
            setup=proposing(ALPHA),
            recover=[rejecting()],
            crashes=crashes,
            unknowns=unknowns,
        )
        assert result.failure is None


def test_a_crash_while_revoking_shows_all_of_it_or_nothing_and_a_repeat_finishes_it() -> None:
    """A chain of three, so the tombstones take several commits."""

    async def all_or_nothing(store: AsyncStore) -> None:
        assert await found(store) in ([], ["mem_a", "mem_b", "mem_c"])

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await found(store) == []
        assert await active(store) == []
        assert (await memories(store).revoke(source_ref="feed")).memories == 3

    chain = [
        ALPHA,
        mcr("alpha two", memory_id="mem_b", source_refs=["mem_a"]),
        mcr("alpha three", memory_id="mem_c", source_refs=["mem_b"]),
    ]
    setup = steps(proposing(*chain), committing())
    for crashes, unknowns in FAULTS:
        result = explore(
            [steps_again(revoking())],
            check,
            setup=setup,
            always=all_or_nothing,
            recover=[sweeping],
            crashes=crashes,
            unknowns=unknowns,
        )
        assert result.failure is None


def test_a_crash_while_reembedding_leaves_one_embedder_in_charge() -> None:
    async def reembedding(store: AsyncStore) -> None:
        await memories(store, embedder=hashing()).reembed(hashing(32))

    async def one_in_charge(store: AsyncStore) -> None:
        answers: list[list[str] | None] = []
        for embedder in (hashing(), hashing(32)):
            try:
                hits = await memories(store, embedder=embedder).search("alpha one", mode="vector")
                answers.append([hit.memory.id for hit in hits][:1])
            except InvalidInput:
                answers.append(None)
        assert answers in ([["mem_a"], None], [None, ["mem_a"]])

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        hits = await memories(store, embedder=hashing(32)).search("alpha one", mode="vector")
        assert hits[0].memory.id == "mem_a"

    async def indexed(store: AsyncStore) -> None:
        await memories(store, embedder=hashing()).index()

    setup = steps(proposing(ALPHA, mcr("beta two")), committing(), indexed)
    for crashes, unknowns in FAULTS:
        result = explore(
            [steps_again(reembedding)],
            check,
            setup=setup,
            always=one_in_charge,
            recover=[reembedding],
            crashes=crashes,
            unknowns=unknowns,
        )
        assert result.failure is None


def test_the_explorer_catches_a_commit_in_two_steps() -> None:
    """The negative control: a commit that writes its batch and its memories one after the other is found out."""

    async def careless(store: AsyncStore) -> None:
        plan = await memories(store).batch_writes(BATCH, reviewer="ana")
        await store.commit(Commit(new_id(), plan.expects, plan.writes[:1]))
        await store.commit(Commit(new_id(), (), plan.writes[1:]))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results != (CRASHED,) or len(await active(store)) in (0, 1)
        status = (await memories(store).batch(BATCH)).status
        assert len(await active(store)) == (1 if status == "committed" else 0)

    assert explore([careless], check, setup=proposing(ALPHA), crashes=1).failure is not None


async def sweeping(store: AsyncStore) -> None:
    await memories(store).revoke(source_ref="feed", by="ana")


def steps_again(program: Program) -> Program:
    """Do it, and if the answer was lost, do it again as a caller would."""

    async def twice(store: AsyncStore) -> Any:
        try:
            return await program(store)
        except CommitUnknown:
            return await program(store)

    return twice
