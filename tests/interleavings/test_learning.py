"""Learning under every schedule, every crash point and every lost answer: each message is learnt from exactly once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from strongroom.errors import CommitUnknown
from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.values import Learnt
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.store import AsyncStore
from strongroom.testing.explore import CRASHED, Program, explore

TEXTS = ("tea", "milk", "salt")


def repeating(messages: list[dict[str, str]]) -> Any:
    shown = json.loads(messages[-1]["content"])["messages"]
    return {"memories": [{"content": one["text"], "sources": [one["n"]]} for one in shown]}


def learning(limit: int = 50, commit_id: str | None = None) -> Program:
    async def program(store: AsyncStore) -> Learnt:
        memories = AsyncMemories(Scope(store))
        return await memories.learn("s1", model=repeating, limit=limit, commit_id=commit_id)

    return program


def appending(*texts: str) -> Program:
    async def program(store: AsyncStore) -> None:
        session = await AsyncSessions(Scope(store)).open("s1", user_id="u1")
        await session.append([{"role": "user", "content": text} for text in texts])

    return program


async def finished(store: AsyncStore, texts: Sequence[str] = TEXTS) -> None:
    """Learn what is left, and find everything proposed once, by its message."""
    while (await learning()(store)).left:
        pass
    batches = await AsyncMemories(Scope(store)).pending(limit=100)
    proposals = [proposal.request for batch in batches for proposal in batch.proposals]
    assert Counter(request.content for request in proposals) == Counter(texts)
    assert len({request.source_refs for request in proposals}) == len(texts)


def test_two_learners_race_and_each_message_is_learnt_once() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sum(result.messages for result in results) == len(TEXTS)
        await finished(store)

    assert explore([learning(), learning()], check, setup=appending(*TEXTS), reads_in_order=True).failure is None


def test_learners_of_different_reach_share_what_there_is() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await finished(store)

    assert explore([learning(1), learning(2)], check, setup=appending(*TEXTS), reads_in_order=True).failure is None


def test_what_is_said_while_somebody_learns_is_not_missed() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await finished(store, (*TEXTS, "pepper"))

    assert (
        explore([learning(), appending("pepper")], check, setup=appending(*TEXTS), reads_in_order=True).failure is None
    )


@pytest.mark.parametrize(("crashes", "unknowns"), [(1, 0), (0, 1)])
def test_a_learner_that_dies_or_hears_no_answer_has_learnt_all_or_nothing(crashes: int, unknowns: int) -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert all(result == CRASHED or isinstance(result, Learnt | CommitUnknown) for result in results)
        await finished(store)

    programs = [learning(), learning(2)]
    found = explore(programs, check, setup=appending(*TEXTS), crashes=crashes, unknowns=unknowns, reads_in_order=True)
    assert found.failure is None


def test_a_repeat_after_a_lost_answer_gives_the_first_one() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        again = await learning(commit_id="L-1")(store)
        assert again.messages == len(TEXTS)
        await finished(store)

    found = explore([learning(commit_id="L-1")], check, setup=appending(*TEXTS), unknowns=1)
    assert found.failure is None


def test_the_exploration_catches_a_place_that_is_noted_in_a_commit_of_its_own() -> None:
    """What it would be like without one commit: the proposals first, the place after."""

    async def two_steps(store: AsyncStore) -> None:
        memories = AsyncMemories(Scope(store))
        seen = await AsyncSessions(Scope(store)).get("s1")
        requests: list[Any] = [
            {"op": "add", "type": "fact", "scope": "user", "user_id": "u1", "content": one["content"],
             "rationale": "-", "confidence": 1.0, "source_refs": [one.id]}
            for one in await seen.load()
        ]  # fmt: skip
        await memories.propose(requests, proposer="learner")
        await memories.learn("s1", model=lambda _: {"memories": []})

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await finished(store)

    assert explore([two_steps], check, setup=appending(*TEXTS), crashes=1).failure is not None
