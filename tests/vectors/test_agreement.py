"""The same memories give the same answers, whichever store holds them and whichever index their vectors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.services.memories.values import Mode
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.pgvector import PgvectorMemories
from strongroom.vectors.qdrant import QdrantMemories
from tests.hashed import hashing
from tests.servers.postgres import fresh_schema
from tests.services.memory_samples import mcr

WORDS = ["deploy", "friday", "lunch", "noon", "office", "lyon", "editor", "dark", "tea", "coffee", "invoice", "refund"]
MODES: tuple[Mode, ...] = ("lexical", "vector", "hybrid")
Answer = list[tuple[str, float]]
INDEXES: dict[str, Callable[[], Any]] = {
    "exact": LocalVectors,
    "graph": lambda: LocalVectors(exact_up_to=0),
    "qdrant": lambda: QdrantMemories(":memory:"),
}


def remember(ctx: Context) -> None:
    """Make 120 memories of three owners, then end some of them in each way."""
    rng = random.Random(3)
    owners: list[dict[str, Any]] = [{}, {"scope": "user", "user_id": "u1"}, {"scope": "project", "project_id": "p1"}]
    requests = [
        mcr(
            f"{' '.join(rng.choices(WORDS, k=rng.randint(2, 6)))} {n}",
            memory_id=f"mem_{n:03}",
            source_refs=[f"feed-{n % 10}"],
            **owners[n % 3],
        )
        for n in range(120)
    ]
    ctx.memories.commit(ctx.memories.propose(requests, proposer="agent-7").id, reviewer="ana")
    changes = [mcr(f"tea {n}", op="supersede", supersedes=[f"mem_{n:03}"], memory_id=f"mem_{n}x") for n in (0, 3, 6)]
    changes += [mcr("gone", op="deprecate", target_memory_id=f"mem_{n:03}") for n in (9, 12)]
    ctx.memories.commit(ctx.memories.propose(changes, proposer="agent-7").id, reviewer="ana")
    ctx.memories.revoke(source_ref="feed-7")


def answers(ctx: Context, index: Any) -> list[Answer]:
    rng = random.Random(4)
    memories = ctx.memories.using(embedder=hashing(), index=index)
    found = []
    for _ in range(20):
        query = " ".join(rng.choices(WORDS, k=3))
        filters: dict[str, Any] = rng.choice([{}, {"user_id": "u1"}, {"user_id": "u1", "project_id": "p1"}])
        for mode in MODES:
            hits = memories.search(query, 10, mode=mode, **filters)
            assert hits.degraded is None
            found.append([(hit.memory.id, hit.score) for hit in hits])
    return found


@pytest.fixture(scope="module")
def wanted() -> list[Answer]:
    with strongroom.open("memory://") as ctx:
        remember(ctx)
        return answers(ctx, LocalVectors())


@contextmanager
def made(kind: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    if kind != "pgvector":
        yield INDEXES[kind]()
        return
    with fresh_schema(request.getfixturevalue("vector_url")) as url:
        index = PgvectorMemories(url)
        yield index
        index.close()


@pytest.mark.parametrize("kind", [*INDEXES, "pgvector"])
def test_every_store_and_every_index_gives_the_same_answers(
    address: str, kind: str, wanted: list[Answer], request: pytest.FixtureRequest
) -> None:
    with strongroom.open(address) as ctx, made(kind, request) as index:
        remember(ctx)
        for found, expected in zip(answers(ctx, index), wanted, strict=True):
            assert [id for id, _ in found] == [id for id, _ in expected]
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_the_answers_are_worth_comparing(wanted: list[Answer]) -> None:
    assert sum(len(answer) for answer in wanted) > 500
    assert len({id for answer in wanted for id, _ in answer}) > 60
