"""What was seen of batches a moment ago saves reading them again, and decides nothing that is no longer so."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.memories import fresh
from strongroom.services.memories.fresh import Fresh, Known
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import Batch
from tests.services.memory_samples import mcr

FACT = mcr("tides turn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def ctx(path: Path) -> Iterator[Context]:
    with strongroom.open(path) as opened:
        yield opened


@pytest.fixture
def elsewhere(path: Path) -> Iterator[Context]:
    with strongroom.open(path) as opened:
        yield opened


def test_a_batch_proposed_here_is_committed_without_reading_it_again() -> None:
    store = MemoryStore()
    ctx = Context(AsyncContext(Scope(Inline(store))))
    batch = ctx.memories.propose([FACT], proposer="agent")
    store.read = unread  # type: ignore[method-assign]
    ctx.memories.commit(batch.id, reviewer="human")


def test_one_that_was_rejected_elsewhere_is_not_committed(ctx: Context, elsewhere: Context) -> None:
    batch = ctx.memories.propose([FACT], proposer="agent")
    elsewhere.memories.reject(batch.id, reason="no", reviewer="human")
    with pytest.raises(Conflict, match="was rejected by 'human'"):
        ctx.memories.commit(batch.id, reviewer="human")
    assert ctx.memories.list() == []


def test_one_that_was_committed_elsewhere_gives_the_same_receipt(ctx: Context, elsewhere: Context) -> None:
    batch = ctx.memories.propose([FACT], proposer="agent")
    first = elsewhere.memories.commit(batch.id, reviewer="human")
    assert ctx.memories.commit(batch.id, reviewer="another") == first


def test_nobody_is_refused_for_what_is_remembered(ctx: Context, elsewhere: Context) -> None:
    batch = ctx.memories.propose([FACT], proposer="agent")
    first = elsewhere.memories.commit(batch.id, reviewer="human")
    # Its proposer may not commit it, but it is committed, and asking what came of it is nobody's secret.
    assert ctx.memories.commit(batch.id, reviewer="agent") == first


def test_its_proposer_is_still_refused(ctx: Context) -> None:
    batch = ctx.memories.propose([FACT], proposer="agent")
    with pytest.raises(InvalidInput, match="may not commit it"):
        ctx.memories.commit(batch.id, reviewer="agent")
    assert ctx.memories.batch(batch.id).status == "pending"


def test_what_was_said_elsewhere_since_is_noticed(ctx: Context, elsewhere: Context) -> None:
    batch = ctx.memories.propose([FACT], proposer="agent")
    twin = elsewhere.memories.propose([FACT], proposer="agent")
    [known] = elsewhere.memories.commit(twin.id, reviewer="human").memory_ids
    assert ctx.memories.commit(batch.id, reviewer="human").duplicate_ids == (known,)


def test_a_proposer_has_room_again_once_somebody_elsewhere_has_decided(ctx: Context, elsewhere: Context) -> None:
    memories = ctx.memories.using(policy=Policy(max_pending_batches=2))
    for _ in range(3):
        for batch in [memories.propose([FACT], proposer="agent") for _ in range(2)]:
            elsewhere.memories.reject(batch.id, reason="no", reviewer="human")


def test_a_proposer_without_room_is_still_refused(ctx: Context) -> None:
    memories = ctx.memories.using(policy=Policy(max_pending_batches=2))
    for _ in range(2):
        memories.propose([FACT], proposer="agent")
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            memories.propose([FACT], proposer="agent")
    memories.propose([FACT], proposer="another")


def test_proposals_are_counted_once_and_not_for_every_batch() -> None:
    store = MemoryStore()
    ctx = Context(AsyncContext(Scope(Inline(store))))
    ctx.memories.propose([FACT], proposer="agent")
    store.read = unread  # type: ignore[method-assign]
    ctx.memories.propose([FACT], proposer="agent")


def test_only_the_last_few_proposers_are_counted() -> None:
    kept = Fresh(Scope(Inline(MemoryStore())))
    for number in range(fresh.MOST_PROPOSERS + 1):
        kept.count(str(number), number)
    assert kept.decided("0") is None
    assert kept.decided("1") == 1


def test_only_the_last_few_are_kept() -> None:
    kept = Fresh(Scope(Inline(MemoryStore())))
    for number in range(fresh.MOST + 1):
        kept.keep(known(str(number)), 1)
    assert kept.take("0") is None
    assert kept.take("1") == known("1")


def test_the_spaces_of_a_store_share_the_room() -> None:
    store = Inline(MemoryStore())
    spaces = [Fresh(Scope(store, f"space {number}")) for number in range(fresh.MOST + 1)]
    for space in spaces:
        space.keep(known("batch"), 1)
    assert spaces[0].take("batch") is None
    assert spaces[1].take("batch") == known("batch")


def test_a_batch_of_another_space_is_another_batch() -> None:
    store = Inline(MemoryStore())
    acme, other = [Context(AsyncContext(Scope(store, space))) for space in ("acme", "other")]
    acme.memories.propose([FACT], proposer="agent", batch_id="b")
    with pytest.raises(NotFound):
        other.memories.commit("b", reviewer="human")
    other.memories.propose([{**FACT, "content": "neap tides"}], proposer="agent", batch_id="b")
    acme.memories.commit("b", reviewer="human")
    assert [memory.content for memory in acme.memories.list()] == ["tides turn"]
    assert other.memories.list() == []


def test_nothing_is_kept_of_a_store_that_is_gone() -> None:
    gc.collect()  # of other tests
    before = len(fresh._kept)
    store = Inline(MemoryStore())
    Fresh(Scope(store)).keep(known("batch"), 1)
    assert len(fresh._kept) == before + 1
    del store
    gc.collect()
    assert len(fresh._kept) == before


def test_a_large_one_is_not_kept() -> None:
    kept = Fresh(Scope(Inline(MemoryStore())))
    kept.keep(known("large"), fresh.LARGEST_BYTES + 1)
    assert kept.take("large") is None


def unread(questions: Any) -> Any:
    raise AssertionError(f"asked {questions}")


def known(id: str) -> Known:
    return Known(
        Batch(id=id, status="pending", proposer="a", created_at=datetime(2026, 1, 1, tzinfo=UTC), proposals=()), 1
    )
