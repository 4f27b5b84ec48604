"""Every operation of threads, chains and deliveries: each pair in every order, each alone at every crash point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import combinations_with_replacement
from typing import Any

import msgspec
import pytest

from strongroom.codec import encode
from strongroom.dispatch.mail import Mail
from strongroom.errors import CommitUnknown
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DEAD, DELIVERY, mail_key, read_delivery
from strongroom.services.threads.plans import INFO, THREAD, count_key
from strongroom.services.threads.registry import CALL, CHAIN, FORGETTING, AsyncRegistry, Forgetting, Link
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Limits
from strongroom.store import Append, AsyncStore, Commit, Document, Get, Key, Put, Range, Scan, new_id
from strongroom.testing import explore
from tests.interleavings.test_threads import Program, threads, worker

Act = Callable[[AsyncStore, str | None], Awaitable[Any]]
NOW = 10
MESSAGE: Any = {"from_id": "user", "to_id": "echo"}


async def setup(store: AsyncStore) -> None:
    """Make a thread with something for `echo`, one without, a chain, and a dead letter."""
    await threads(store).append("t", "first", **MESSAGE)
    await threads(store, now=2).append("u", "x", from_id="user")
    await AsyncRegistry(Scope(store)).start("user", id="chain")
    letter = {"thread_id": "t", "index": 0, "handler": "echo", "error": "no luck", "attempts": 1, "at": 0}
    await store.commit(Commit(new_id(), (), (Put(Key("default", DEAD, "letter"), encode(letter)),)))


async def deeper(store: AsyncStore) -> None:
    """Make the same, with somebody called from the chain, who called somebody else."""
    await setup(store)
    registry = AsyncRegistry(Scope(store))
    await registry.extend(await registry.extend("chain", "back"), "store")


def limited(store: AsyncStore) -> AsyncThreads:
    return threads(store, limits=Limits(max_threads=2, archive=lambda thread_id, pack: None), now=NOW)


ACTS: dict[str, Act] = {
    "append": lambda store, id: threads(store).append("u", "y", from_id="user", commit_id=id),
    "send": lambda store, id: threads(store).append("t", "second", **MESSAGE, commit_id=id),
    "append many": lambda store, id: threads(store).append_many("t", [1, 2], **MESSAGE, commit_id=id),
    "begin": lambda store, id: Mail(threads(store)).begin("new", **MESSAGE, commit_id=id),
    "begin in a full space": lambda store, id: limited(store).append("v", "z", **MESSAGE, commit_id=id),
    "delete": lambda store, id: threads(store).delete("t", commit_id=id),
    "sweep": lambda store, id: threads(store, now=NOW).sweep(ttl_seconds=0, commit_id=id),
    "archive": lambda store, id: limited(store).make_room(commit_id=id),
    "replay": lambda store, id: Mail(threads(store)).replay("letter", id),
    "start": lambda store, id: AsyncRegistry(Scope(store)).start("a.b", id="named", commit_id=id),
    "get or create": lambda store, id: AsyncRegistry(Scope(store)).get_or_create("a.b", root="chain", commit_id=id),
    "extend": lambda store, id: AsyncRegistry(Scope(store)).extend("chain", "next", commit_id=id),
    "cleanup": lambda store, id: AsyncRegistry(Scope(store)).cleanup("chain", commit_id=id),
}


def program(name: str, commit_id: str | None = None) -> Program:
    async def acting(store: AsyncStore) -> Any:
        return await ACTS[name](store, commit_id)

    return acting


PROGRAMS: dict[str, Program] = {**{name: program(name) for name in ACTS}, "claim and reply": worker("one", now=1)}


async def agree(store: AsyncStore, results: Sequence[Any] = ()) -> None:
    """Check that what is stored of threads, deliveries and chains tells one story."""
    scope = Scope(store)
    infos = await documents(scope, INFO)
    alive = [info.key.id for info in infos if info.tags == {"state": "live"}]
    slices = {info.key.id: await scope.get(Range(scope.key(THREAD, info.key.id))) for info in infos}
    assert sorted(alive) == sorted(id for id, here in slices.items() if here.length)
    count = await scope.get(Get(count_key("default")))
    assert count is not None and count.value.load() == {"live": len(alive)}
    for thread_id, here in slices.items():
        assert [record.index for record in here.records] == list(range(here.first, here.length))
        handled = read_delivery(await scope.get(Get(scope.key(DELIVERY, thread_id)))).next.get("echo", 0)
        if any(record.receiver == "echo" and record.index >= handled for record in here.records):
            flag = mail_key("default", thread_id=thread_id, receiver="echo")
            assert await scope.get(Get(flag)) is not None, f"a message of {thread_id} would never be found"
    await chains_agree(scope, slices.keys())


async def chains_agree(scope: Scope, threads: Collection[str]) -> None:
    chains = {chain.key.id: chain for chain in await documents(scope, CHAIN)}
    links = {id: msgspec.json.decode(chain.value, type=Link) for id, chain in chains.items()}
    begun = await documents(scope, FORGETTING)
    being_forgotten = {id for one in begun for id in msgspec.json.decode(one.value, type=Forgetting).open}
    calls = {call.key.id: call.value.load()["id"] for call in await documents(scope, CALL)}
    for id, link in links.items():
        if link.parent is not None:
            known = link.parent in links or link.parent in threads or link.parent in being_forgotten
            assert known, "a call that nobody will ever forget"
            assert calls[link.call] == id
    assert set(calls.values()) <= links.keys()


async def documents(scope: Scope, kind: str) -> tuple[Document, ...]:
    return (await scope.get(Scan(scope.space, kind, limit=1000))).documents


async def shape(store: Any) -> Counter[str]:
    """Return how many documents and records of each kind there are."""
    counted: Counter[str] = Counter()
    for item in (await store.unload(None, 10_000)).items:
        if item.alive:
            counted[item.key.kind] += len(item.records) if item.stream else 1
    return counted


def outcome(name: str, setup: Program = deeper) -> Counter[str]:
    """Return what is there after an operation that nothing disturbs."""
    told: list[Counter[str]] = []

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        told.append(await shape(store))

    assert explore([program(name, "once")], check, setup=setup).failure is None
    return told[0]


CHAINS = ["start", "get or create", "extend", "cleanup"]
LONG = {"begin in a full space", "sweep", "archive", "replay", "claim and reply"}
# Threads and chains have nothing in common. Of the long ones, those that race for a lease are in `test_threads`, and
# what happens in a full space is an archiving and a beginning, each of which is paired with everything.
PAIRS = [
    pair
    for group in (CHAINS, [name for name in PROGRAMS if name not in CHAINS])
    for pair in combinations_with_replacement(group, 2)
    if pair != ("claim and reply",) * 2 and not ("begin in a full space" in pair and set(pair) <= LONG)
]


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_whoever_comes_first_everything_agrees(pair: tuple[str, str]) -> None:
    found = explore([PROGRAMS[name] for name in pair], agree, setup=setup, reads_in_order=True)
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("name", PROGRAMS)
def test_everything_agrees_between_any_two_steps(name: str) -> None:
    found = explore([PROGRAMS[name]], agree, setup=deeper, always=agree)
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("name", ACTS)
def test_a_crash_anywhere_and_a_repeat_end_as_one_call(name: str) -> None:
    once = outcome(name)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await agree(store)
        assert await shape(store) == once

    found = explore([program(name, "id")], check, setup=deeper, crashes=1, recover=[program(name, "id")])
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("name", ACTS)
def test_unknown_outcomes_and_repeats_end_as_one_call(name: str) -> None:
    once = outcome(name)

    async def stubborn(store: AsyncStore) -> Any:
        while True:
            try:
                return await ACTS[name](store, "id")
            except CommitUnknown as unknown:
                assert unknown.commit_id == "id"

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await agree(store)
        assert await shape(store) == once
        assert await ACTS[name](store, "id") == results[0]
        assert await shape(store) == once

    found = explore([stubborn], check, setup=deeper, unknowns=2)
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("name", ACTS)
def test_an_id_that_was_chosen_for_the_caller_can_be_repeated(name: str) -> None:
    once = outcome(name)

    async def stubborn(store: AsyncStore) -> Any:
        id = None
        while True:
            try:
                return await ACTS[name](store, id)
            except CommitUnknown as unknown:
                id = unknown.commit_id

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await agree(store)
        there = await shape(store)
        del once["thread_sweep"], there["thread_sweep"]  # which is written for ids only
        assert there == once

    found = explore([stubborn], check, setup=deeper, unknowns=1)
    assert found.failure is None, str(found.failure)


@pytest.mark.parametrize("name", [name for name in ACTS if name not in ("begin in a full space", "sweep")])
def test_two_calls_under_one_id_are_one(name: str) -> None:
    two_calls(name, setup)


def test_two_sweeps_under_one_id_are_one() -> None:
    async def one_thread(store: AsyncStore) -> None:
        await threads(store).append("t", "first", **MESSAGE)

    two_calls("sweep", one_thread)


def two_calls(name: str, setup: Program) -> None:
    once = outcome(name, setup)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await agree(store)
        assert results[0] == results[1]
        assert await shape(store) == once

    found = explore([program(name, "id")] * 2, check, setup=setup)
    assert found.failure is None, str(found.failure)


def test_the_checks_see_a_message_that_was_appended_without_its_flag() -> None:
    """The negative control: a crash between the two would lose the message."""

    async def careless(store: AsyncStore) -> None:
        entry = threads(store).entry("third", **MESSAGE)
        await store.commit(Commit(new_id(), (), (Append(Key("default", THREAD, "u"), (entry,)),)))

    assert explore([careless], agree, setup=setup).failure is not None
