"""Provenance: trust only goes down, a revoked source takes everything derived from it along, and time runs out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope, now
from strongroom.services.memories import search
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.revocations import Revocations
from strongroom.services.memories.values import LABELS, at_least, lowest
from strongroom.store import Store
from tests.awaitable import Awaitable
from tests.conftest import MODES
from tests.services.memory_samples import contents, known, mcr, using

POLICY = Policy(trust={"user": "trusted", "web": "untrusted"})


async def commit(memories: Any, proposer: str, *requests: dict[str, Any]) -> Any:
    batch = await memories.propose(list(requests), proposer=proposer)
    return await memories.commit(batch.id, reviewer="ana")


def test_the_lowest_label_wins() -> None:
    assert lowest("trusted", []) == "trusted"
    assert lowest("trusted", ["unverified", "trusted"]) == "unverified"
    assert [label for label in LABELS if at_least(label, "unverified")] == ["unverified", "trusted"]


async def test_a_memory_is_trusted_as_far_as_its_proposer(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    for proposer, label in [("user", "trusted"), ("web", "untrusted"), ("agent-7", "unverified")]:
        [id] = (await commit(memories, proposer, mcr(f"said by {proposer}"))).memory_ids
        assert (await memories.get(id)).trust == label


async def test_a_request_may_ask_for_less_trust_and_never_for_more(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [less] = (await commit(memories, "user", mcr("less", trust="untrusted"))).memory_ids
    [more] = (await commit(memories, "web", mcr("more", trust="trusted"))).memory_ids
    assert (await memories.get(less)).trust == "untrusted"
    assert (await memories.get(more)).trust == "untrusted"


async def test_what_derives_from_a_memory_is_trusted_no_more_than_it(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [source] = (await commit(memories, "web", mcr("from the web"))).memory_ids
    [derived] = (await commit(memories, "user", mcr("concluded from it", source_refs=[source, "meeting"]))).memory_ids
    [further] = (await commit(memories, "user", mcr("and from that", source_refs=[derived]))).memory_ids
    assert (await memories.get(derived)).derived_from == (source,)
    assert (await memories.get(further)).trust == "untrusted"


async def test_what_is_known_is_replaced_by_the_same_from_a_better_source(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [old] = (await commit(memories, "web", mcr("one request a second"))).memory_ids
    [new] = (await commit(memories, "user", mcr("One request a second"))).memory_ids
    assert [(one.id, one.trust) for one in await memories.list()] == [(new, "trusted")]
    assert (await memories.get(old)).superseded_by == new
    assert {change.memory_id for change in await memories.history(new)} == {old, new}


async def test_what_is_known_is_only_repeated_by_the_same_from_a_worse_source(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [known_id] = (await commit(memories, "user", mcr("one request a second"))).memory_ids
    for proposer in ("web", "user"):
        assert (await commit(memories, proposer, mcr("one request a second"))).duplicate_ids == (known_id,)
    assert [(one.id, one.trust) for one in await memories.list()] == [(known_id, "trusted")]


async def test_of_two_that_say_the_same_in_one_batch_the_better_source_wins(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    await commit(memories, "user", mcr("tea", trust="untrusted"), mcr("tea"), mcr("tea", trust="unverified"))
    assert [one.trust for one in await memories.list()] == ["trusted"]
    assert [hit.memory.trust for hit in await memories.search("tea")] == ["trusted"]


async def test_a_reviewer_sees_what_the_same_from_a_better_source_would_replace(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [old] = (await commit(memories, "web", mcr("tea"))).memory_ids
    await memories.propose([mcr("tea")], proposer="user")
    [batch] = await memories.pending()
    [proposal] = batch.proposals
    assert (proposal.duplicate_of, [one.id for one in proposal.replaces]) == (None, [old])


async def test_a_correction_from_a_better_source_replaces_all_that_it_makes_needless(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    [tea] = (await commit(memories, "web", mcr("tea"))).memory_ids
    [milk] = (await commit(memories, "web", mcr("milk"))).memory_ids
    [new] = (await commit(memories, "user", mcr("tea", op="supersede", supersedes=[milk]))).memory_ids
    assert [one.id for one in await memories.list()] == [new]
    assert {(await memories.get(id)).superseded_by for id in (tea, milk)} == {new}


async def test_trust_passes_between_the_requests_of_one_batch(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    base = mcr("weak", memory_id="mem_weak", trust="untrusted")
    ids = (await commit(memories, "user", base, mcr("built on it", source_refs=["mem_weak"]))).memory_ids
    assert [(await memories.get(id)).trust for id in ids] == ["untrusted", "untrusted"]


async def test_a_search_may_demand_trust(ctx: Any) -> None:
    memories = await using(ctx.memories, policy=POLICY)
    await commit(memories, "user", mcr("deploys are on Friday"))
    await commit(memories, "web", mcr("deploys are on Sunday"))
    assert await contents(ctx, "deploys", min_trust="trusted") == ["deploys are on Friday"]


async def test_revoking_a_source_removes_everything_derived_from_it(ctx: Any) -> None:
    [a] = (await known(ctx, mcr("alpha one", source_refs=["https://evil.example"]))).memory_ids
    [b] = (await known(ctx, mcr("alpha two", source_refs=[a]))).memory_ids
    [c] = (await known(ctx, mcr("alpha three", source_refs=[b, "other"]))).memory_ids
    await known(ctx, mcr("alpha four", source_refs=["other"]))
    revoked = await ctx.memories.revoke(source_ref="https://evil.example", by="ana", reason="hacked")
    assert (revoked.memories, revoked.done) == (3, True)
    assert await contents(ctx, "alpha") == ["alpha four"]
    assert {(await ctx.memories.get(id)).status for id in (a, b, c)} == {"revoked"}
    assert (await ctx.memories.history(c))[-1].reason == "hacked"


async def test_a_memory_itself_can_be_revoked(ctx: Any) -> None:
    [a] = (await known(ctx, mcr("alpha one"))).memory_ids
    await known(ctx, mcr("alpha two", source_refs=[a]), mcr("alpha three"))
    assert (await ctx.memories.revoke(source_ref=a)).memories == 2
    assert await contents(ctx, "alpha") == ["alpha three"]


async def test_an_erased_memory_stays_erased_when_it_is_revoked(ctx: Any) -> None:
    a = (await ctx.memories.add("likes tea", user_id="ana")).id
    await ctx.memories.erase(memory_id=a)
    erased = await ctx.memories.get(a)
    assert list(await ctx.memories.would_revoke(source_ref=a)) == []
    assert (await ctx.memories.revoke(source_ref=a, by="ben", reason="Ana asked")).memories == 0
    assert await ctx.memories.get(a) == erased


async def test_what_was_revoked_is_not_found_however_many_revocations_are_under_way(
    ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "OPEN", 2)
    await known(ctx, mcr("alpha one", source_refs=["last"]))
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Revocations, "_finish", _killed)
        for source_ref in ("first", "second", "third", "last"):
            with pytest.raises(InterruptedError):
                await ctx.memories.revoke(source_ref=source_ref)
    assert await contents(ctx, "alpha") == []


async def _killed(*_: object) -> Any:
    raise InterruptedError


async def test_more_than_one_page_is_revoked(ctx: Any) -> None:
    await known(ctx, *[mcr(f"alpha {n}", source_refs=["feed"]) for n in range(130)])
    assert (await ctx.memories.revoke(source_ref="feed")).memories == 130
    assert await ctx.memories.list() == []
    assert await contents(ctx, "alpha") == []


async def test_revoking_again_changes_nothing(ctx: Any) -> None:
    await known(ctx, mcr(source_refs=["feed"]))
    first = await ctx.memories.revoke(source_ref="feed", by="ana")
    assert await ctx.memories.revoke(source_ref="feed", by="ben") == first


async def test_a_superseded_memory_is_revoked_too_and_history_shows_both(ctx: Any) -> None:
    [old] = (await known(ctx, mcr("alpha one", source_refs=["feed"]))).memory_ids
    await known(ctx, mcr("alpha two", op="supersede", supersedes=[old]))
    then = (await ctx.memories.get(old)).created_at
    await ctx.memories.revoke(source_ref="feed")
    assert [end.status for end in (await ctx.memories.get(old)).ended] == ["superseded", "revoked"]
    assert await contents(ctx, "alpha") == ["alpha two"]
    assert [memory.id for memory in await ctx.memories.at(then)] == [old]


async def test_a_revoked_source_cannot_be_cited_any_more(ctx: Any) -> None:
    pending = await ctx.memories.propose([mcr(source_refs=["feed"])], proposer="agent-7")
    await ctx.memories.revoke(source_ref="feed")
    with pytest.raises(InvalidInput, match="revoked"):
        await ctx.memories.commit(pending.id, reviewer="ana")
    with pytest.raises(InvalidInput, match="revoked"):
        await ctx.memories.propose([mcr(source_refs=["feed"])], proposer="agent-7")
    assert await contents(ctx, "deploys") == []


async def test_a_revoked_memory_cannot_be_derived_from(ctx: Any) -> None:
    [a] = (await known(ctx, mcr("alpha one", source_refs=["feed"]))).memory_ids
    pending = await ctx.memories.propose([mcr("alpha two", source_refs=[a])], proposer="agent-7")
    await ctx.memories.revoke(source_ref="feed")
    with pytest.raises(InvalidInput, match="revoked"):
        await ctx.memories.commit(pending.id, reviewer="ana")


async def test_content_that_was_revoked_may_be_learnt_from_a_better_source(ctx: Any) -> None:
    await known(ctx, mcr(source_refs=["feed"]))
    await ctx.memories.revoke(source_ref="feed")
    assert len((await known(ctx, mcr(source_refs=["handbook"]))).memory_ids) == 1


async def test_citing_an_id_before_it_exists_does_not_escape_its_revocation(ctx: Any) -> None:
    await known(ctx, mcr("alpha one", source_refs=["later"]))
    await known(ctx, mcr("alpha two", memory_id="later"))
    assert (await ctx.memories.revoke(source_ref="later")).memories == 2
    assert await contents(ctx, "alpha") == []


async def test_two_memories_that_cite_each_other_are_both_revoked(ctx: Any) -> None:
    await known(ctx, mcr("alpha one", memory_id="one", source_refs=["two"]))
    await known(ctx, mcr("alpha two", memory_id="two", source_refs=["one"]))
    assert (await ctx.memories.revoke(source_ref="one")).memories == 2


async def test_a_memory_cannot_be_cited_before_it_is_known(ctx: Any) -> None:
    pending = await ctx.memories.propose([mcr("alpha one")], proposer="web")
    [proposal] = pending.proposals
    with pytest.raises(NotFound):
        await ctx.memories.propose([mcr("alpha two", source_refs=[proposal.memory_id])], proposer="user")


@pytest.mark.parametrize("source_ref", ["", None, 7])
async def test_a_revocation_needs_a_source(ctx: Any, source_ref: Any) -> None:
    with pytest.raises(InvalidInput):
        await ctx.memories.revoke(source_ref=source_ref)


# ---- time -----------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that can be turned forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> int:
        return now() + int(self.ahead.total_seconds() * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=MODES)
def timed(request: pytest.FixtureRequest, store: Store, clock: Clock) -> Any:
    """A context, blocking and async, that goes by `clock`."""
    context = AsyncContext(Scope(Inline(store), clock=clock))
    return Awaitable(Context(context)) if request.param == "blocking" else context


def soon() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


async def test_an_expired_memory_is_not_found(timed: Any, clock: Clock) -> None:
    await known(timed, mcr(expires_at=soon()))
    assert await contents(timed, "deploys") == ["Deploys happen on Friday"]
    clock.ahead = timedelta(hours=2)
    assert await contents(timed, "deploys") == []
    assert await timed.memories.list() == []


async def test_content_that_expired_may_be_learnt_again(timed: Any, clock: Clock) -> None:
    [old] = (await known(timed, mcr(expires_at=soon()))).memory_ids
    clock.ahead = timedelta(hours=2)
    [new] = (await known(timed, mcr())).memory_ids
    assert (await timed.memories.get(old)).status == "expired"
    assert [memory.id for memory in await timed.memories.list()] == [new]


async def test_an_expired_memory_cannot_be_superseded(timed: Any, clock: Clock) -> None:
    [old] = (await known(timed, mcr(expires_at=soon()))).memory_ids
    clock.ahead = timedelta(hours=2)
    with pytest.raises(Conflict, match="expired"):
        await timed.memories.propose([mcr("new", op="supersede", supersedes=[old])], proposer="agent-7")


async def test_a_sweep_retires_what_has_expired(timed: Any, clock: Clock) -> None:
    [old, kept] = (await known(timed, mcr(expires_at=soon()), mcr("The office is in Lyon"))).memory_ids
    clock.ahead = timedelta(hours=2)
    assert await timed.memories.sweep() == 1
    assert (await timed.memories.get(old)).status == "expired"
    assert (await timed.memories.get(kept)).status == "active"
    assert await timed.memories.sweep() == 0


async def test_at_knows_what_had_expired_then(timed: Any) -> None:
    await known(timed, mcr(expires_at=soon()))
    today = datetime.now(UTC)
    assert len(await timed.memories.at(today)) == 1
    assert await timed.memories.at(today + timedelta(hours=2)) == []
