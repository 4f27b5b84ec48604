"""Whatever is done to memories, in whatever order: a search returns only what is active, in time, and the caller's.

The model is a dictionary of what each memory is. `STRONGROOM_SEARCHES` says how many searches to make (default 1,600).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import at_least
from strongroom.store import Store
from strongroom.values import moment
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.qdrant import QdrantMemories
from tests.hashed import hashing
from tests.services.memory_samples import mcr

SEARCHES = int(os.environ.get("STRONGROOM_SEARCHES", "1600"))
WORDS = ["deploy", "friday", "lunch", "noon", "office", "lyon", "editor", "dark", "tea", "coffee", "invoice", "refund"]
SPACES, USERS, PROJECTS = ("acme", "other"), (None, "u1", "u2"), (None, "p1")
SOURCES = ("feed", "wiki", "mail")
LIVES = 40


class Known(Struct, frozen=True):
    """What the model knows of a memory."""

    space: str
    status: str
    user_id: str | None
    project_id: str | None
    scope: str
    type: str
    confidence: float
    trust: str
    source_refs: tuple[str, ...]
    expires_at: int | None
    words: frozenset[str]


class World:
    """A store, a clock, and a model of what is in it."""

    def __init__(self, store: Store, rng: random.Random, index: Callable[[], Any] | None) -> None:
        self.rng = rng
        self.time = 1_700_000_000_000_000
        self.known: dict[tuple[str, str], Known] = {}
        self.pending: list[tuple[str, str]] = []
        self.revoked: set[tuple[str, str]] = set()
        policy = Policy(trust={"web": "untrusted", "user": "trusted"})
        self.memories = {}
        for space in SPACES:
            context = Context(AsyncContext(Scope(Inline(store), space, clock=lambda: self.time)))
            embedder = hashing() if index else None
            self.memories[space] = context.memories.using(
                policy=policy, embedder=embedder, index=index() if index else None
            )

    def act(self) -> None:
        action = self.rng.choices(
            [self.propose, self.commit, self.reject, self.revoke, self.wait, self.sweep], [6, 6, 1, 0.15, 1, 0.3]
        )[0]
        action()

    def propose(self) -> None:
        space = self.rng.choice(SPACES)
        requests = [self.request(space) for _ in range(self.rng.randint(1, 4))]
        try:
            batch = self.memories[space].propose(requests, proposer=self.rng.choice(["web", "user", "agent"]))
        except (InvalidInput, Conflict, NotFound):
            return
        self.pending.append((space, batch.id))

    def request(self, space: str) -> Any:
        rng = self.rng
        active = [id for (where, id), memory in self.known.items() if where == space and memory.status == "active"]
        sources = [source for source in SOURCES if rng.random() < 0.2]
        if active and rng.random() < 0.3:
            sources.append(rng.choice(active))
        if active and rng.random() < 0.3:
            target = rng.choice(active)
            old = self.known[space, target]
            place: dict[str, Any] = {"scope": old.scope, "user_id": old.user_id, "project_id": old.project_id}
            change: dict[str, Any] = {"op": "deprecate", "target_memory_id": target}
            if rng.random() < 0.5:
                change = {"op": "supersede", "supersedes": [target]}
        else:
            user, project = rng.choice(USERS), rng.choice(PROJECTS)
            scope = "user" if user else "project" if project else "global"
            place = {"scope": scope, "user_id": user, "project_id": project}
            change = {"op": rng.choice(["add", "add", "add", "noop"])}
        expires = None
        if rng.random() < 0.3:
            expires = moment(self.time + rng.randint(1, 100) * 1_000_000).isoformat()
        return mcr(
            " ".join(rng.choices(WORDS, k=rng.randint(1, 5))),
            type=rng.choice(["fact", "policy"]),
            confidence=rng.choice([0.2, 0.5, 0.9]),
            source_refs=sources,
            trust=rng.choice([None, "untrusted", "trusted"]),
            expires_at=expires,
            **place,
            **change,
        )

    def commit(self) -> None:
        if not self.pending:
            return
        space, id = self.pending.pop(self.rng.randrange(len(self.pending)))
        batch = self.memories[space].batch(id)
        places = range(len(batch.proposals))
        reject = {place: "no" for place in places if self.rng.random() < 0.2}
        try:
            done = self.memories[space].commit(id, reviewer="ana", reject=reject)
        except StrongroomError:
            return
        for memory_id in done.ended_ids:
            self.end(space, memory_id, "ended")
        for proposal in batch.proposals:
            if proposal.memory_id in done.memory_ids:
                self.learn(space, proposal)

    def learn(self, space: str, proposal: Any) -> None:
        request = proposal.request
        memory = self.memories[space].get(proposal.memory_id)
        expires = request.expires_at
        for source in memory.derived_from:
            assert at_least(self.memories[space].get(source).trust, memory.trust)
        self.known[space, proposal.memory_id] = Known(
            space,
            "active",
            request.user_id,
            request.project_id,
            request.scope,
            request.type,
            request.confidence,
            memory.trust,
            tuple(request.source_refs),
            None if expires is None else int((expires - moment(0)) / timedelta(microseconds=1)),
            frozenset(request.content.split()),
        )

    def reject(self) -> None:
        if self.pending:
            space, id = self.pending.pop(self.rng.randrange(len(self.pending)))
            self.memories[space].reject(id, reason="no")

    def revoke(self) -> None:
        space = self.rng.choice(SPACES)
        active = [id for (where, id) in self.known if where == space]
        source = self.rng.choice([*SOURCES[:1], *active[:3]])
        self.memories[space].revoke(source_ref=source, by="ana")
        gone = {source}
        while True:
            more = {
                id
                for (where, id), memory in self.known.items()
                if where == space and (id in gone or gone.intersection(memory.source_refs))
            } - gone
            if not more:
                break
            gone |= more
        for id in gone:
            self.end(space, id, "revoked")

    def wait(self) -> None:
        self.time += self.rng.randint(1, 20) * 1_000_000

    def sweep(self) -> None:
        self.memories[self.rng.choice(SPACES)].sweep()

    def end(self, space: str, id: str, status: str) -> None:
        if (space, id) in self.known:
            self.known[space, id] = replace(self.known[space, id], status=status)

    def search(self, mode: Any) -> None:
        rng = self.rng
        space, user, project = rng.choice(SPACES), rng.choice(USERS), rng.choice(PROJECTS)
        filters: dict[str, Any] = {"user_id": user, "project_id": project}
        if rng.random() < 0.3:
            filters["scope"] = rng.choice(["user", "project", "global"])
        if rng.random() < 0.3:
            filters["type"] = rng.choice(["fact", "policy"])
        if rng.random() < 0.3:
            filters["min_confidence"] = rng.choice([0.3, 0.6])
        if rng.random() < 0.3:
            filters["min_trust"] = rng.choice(["unverified", "trusted"])
        query = " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))
        hits = self.memories[space].search(query, k=rng.choice([1, 3, 50]), mode=mode, **filters)
        for hit in hits:
            assert self.fits(space, hit.memory.id, filters), (hit.memory, filters)
        scores = [(-hit.score, hit.memory.id) for hit in hits]
        assert scores == sorted(scores)
        if mode == "lexical" and not filters.keys() - {"user_id", "project_id"}:
            self.complete(space, query, filters, {hit.memory.id for hit in hits})

    def fits(self, space: str, id: str, filters: dict[str, Any]) -> bool:
        memory = self.known[space, id]
        return (
            memory.status == "active"
            and (memory.expires_at is None or memory.expires_at > self.time)
            and memory.user_id in (None, filters["user_id"])
            and memory.project_id in (None, filters["project_id"])
            and filters.get("scope") in (None, memory.scope)
            and filters.get("type") in (None, memory.type)
            and memory.confidence >= filters.get("min_confidence", 0)
            and at_least(memory.trust, filters.get("min_trust", "untrusted"))  # type: ignore[arg-type]
        )

    def complete(self, space: str, query: str, filters: dict[str, Any], found: set[str]) -> None:
        """Nothing that fits and holds a word of the query is missing, as long as everything fits on the page; what else
        is found stands beside such a one: known to the same owner, from the same first source."""
        if len(found) in (1, 3):
            return
        asked = set(query.split())
        said = [id for (where, id), memory in self.known.items() if where == space and asked & memory.words]
        expected = {id for id in said if self.fits(space, id, filters)}
        assert found >= expected or len(expected) > 50
        rows = {self.row(space, id) for id in expected}
        assert all(self.row(space, id) in rows for id in found - expected) or len(expected) > 50

    def row(self, space: str, id: str) -> tuple[Any, ...]:
        memory = self.known[space, id]
        return (memory.user_id, memory.project_id, memory.source_refs[:1] or id)


INDEXES: dict[str, Callable[[], Any] | None] = {
    "words": None,
    "exact": LocalVectors,
    "graph": lambda: LocalVectors(exact_up_to=0),
    "qdrant": lambda: QdrantMemories(":memory:"),
}
# Who gets how many of the searches: the quick ones most, so that a million of them take minutes and not hours.
SHARES = {"words": 0.45, "exact": 0.4, "graph": 0.1, "qdrant": 0.05}
STORES = {"memory": 0.75, "sqlite": 0.25}
LEAST = 200


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[int], Store]]:
    opened: list[Store] = []

    def make(life: int) -> Store:
        for store in opened:
            store.close()
        address = "memory://" if request.param == "memory" else str(tmp_path / f"{life}.db")
        options = {} if request.param == "memory" else {"durability": "relaxed"}
        opened[:] = [open_store(address, **options)]
        return opened[0]

    yield make
    for store in opened:
        store.close()


@pytest.mark.parametrize("kind", INDEXES)
def test_a_search_returns_only_what_it_may(
    make_store: Callable[[int], Store], kind: str, request: pytest.FixtureRequest
) -> None:
    share = max(LEAST, int(SEARCHES * SHARES[kind] * STORES[request.node.callspec.params["make_store"]]))
    lives = max(1, share // 2_000)
    for life in range(lives):
        world = World(make_store(life), random.Random(f"{kind} {life}"), INDEXES[kind])
        for turn in range(share // lives):
            if turn % 3 == 0 and len(world.known) < LIVES * 10:
                world.act()
            world.search("lexical" if kind == "words" else ("vector", "hybrid", "lexical")[turn % 3])


def test_the_check_catches_a_search_that_shows_too_much(make_store: Callable[[int], Store]) -> None:
    """The negative control: a memory the model knows to be ended, and the store does not, is found out."""
    world = World(make_store(0), random.Random(7), None)
    while not any(memory.status == "active" and memory.expires_at is None for memory in world.known.values()):
        world.propose()
        world.commit()
    world.known = {key: replace(memory, status="ended") for key, memory in world.known.items()}
    with pytest.raises(AssertionError):
        for _ in range(1_000):
            world.search("lexical")
