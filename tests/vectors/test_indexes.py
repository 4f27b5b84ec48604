"""What every vector index does: the same answers from the same data, whoever computes them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from strongroom.embedders import Fingerprint, unit
from strongroom.errors import InvalidInput, Unavailable
from strongroom.vectors import Row, Vector, VectorIndex
from strongroom.vectors.graph import Graph
from strongroom.vectors.local import LocalVectors
from strongroom.vectors.pgvector import PgvectorMemories
from strongroom.vectors.qdrant import QdrantMemories
from tests.servers.postgres import fresh_schema

PRINT = Fingerprint("test", "1", 16)
OWNERS = ["-", "u1", "u2"]


@pytest.fixture(params=["exact", "graph", "qdrant", "pgvector"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], VectorIndex]]:
    """Make indexes of one kind. Of those that keep things elsewhere, each new one sees what the last one left."""
    if request.param == "qdrant":
        # A server if QDRANT_URL names one, else the client's own stand-in.
        first = QdrantMemories(os.environ.get("QDRANT_URL", ":memory:"), collection=f"test_{uuid4().hex}")
        yield lambda: QdrantMemories(client=first._client, collection=first.collection)
        first._client.delete_collection(first.collection)
    elif request.param == "pgvector":
        opened: list[PgvectorMemories] = []
        with fresh_schema(request.getfixturevalue("vector_url")) as url:

            def connect() -> PgvectorMemories:
                opened.append(PgvectorMemories(url))
                return opened[-1]

            yield connect
            for index in opened:
                index.close()
    elif request.param == "graph":
        yield lambda: Settled(exact_up_to=0, folder=tmp_path)
    else:
        yield LocalVectors


class Settled(LocalVectors):
    """An index whose graph is ready before it is asked anything."""

    def apply(self, *args: Any, **kwargs: Any) -> None:
        super().apply(*args, **kwargs)
        self.settle()


@pytest.fixture
def index(make: Callable[[], VectorIndex]) -> VectorIndex:
    made = make()
    made.open("acme", PRINT)
    return made


def random_vectors(count: int, seed: int = 0, dimension: int = 16) -> Vector:
    return unit(np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32))


def rows(count: int, seed: int = 0) -> list[Row]:
    vectors = random_vectors(count, seed)
    return [Row(f"mem_{seed}_{n:04}", OWNERS[n % 3], vectors[n]) for n in range(count)]


def by_hand(some: list[Row], vector: Vector, limit: int, owners: list[str]) -> list[str]:
    seen = [row for row in some if row.owner in owners]
    return [row.id for row in sorted(seen, key=lambda row: (-float(row.vector @ vector), row.id))[:limit]]


@pytest.mark.parametrize("owners", [["-"], ["-", "u1"], ["u1", "u2", "-"], ["nobody"], []])
def test_the_nearest_of_the_owners_are_found_best_first(index: VectorIndex, owners: list[str]) -> None:
    some = rows(200)
    index.apply("acme", 0, 5, some, [])
    for vector in random_vectors(10, seed=7):
        found = index.search("acme", vector, 10, owners)
        assert [id for id, _ in found] == by_hand(some, vector, 10, owners)
        np.testing.assert_allclose(
            [score for _, score in found],
            sorted((float(row.vector @ vector) for row in some if row.owner in owners), reverse=True)[:10],
            atol=1e-5,
        )


def test_what_was_removed_is_not_found(index: VectorIndex) -> None:
    some = rows(50)
    index.apply("acme", 0, 1, some, [])
    index.apply("acme", 1, 2, [], [row.id for row in some[:25]])
    for row in some[:25]:
        assert row.id not in [id for id, _ in index.search("acme", row.vector, 50, OWNERS)]


def test_what_was_added_later_is_found(index: VectorIndex) -> None:
    index.apply("acme", 0, 1, rows(50), [])
    late = rows(5, seed=3)
    index.apply("acme", 1, 2, late, [])
    for row in late:
        assert index.search("acme", row.vector, 1, OWNERS)[0][0] == row.id


def test_an_index_remembers_how_far_it_has_come(index: VectorIndex) -> None:
    assert index.open("acme", PRINT) == 0
    index.apply("acme", 0, 7, rows(3), [])
    assert index.open("acme", PRINT) == 7


def test_the_same_changes_twice_are_the_same_changes(index: VectorIndex) -> None:
    some = rows(20)
    index.apply("acme", 0, 1, some, [])
    index.apply("acme", 0, 1, some, [])
    vector = some[0].vector
    assert [id for id, _ in index.search("acme", vector, 40, OWNERS)] == by_hand(some, vector, 40, OWNERS)


def test_rebuilding_forgets_and_takes_another_dimension(index: VectorIndex) -> None:
    index.apply("acme", 0, 1, rows(20), [])
    other = Fingerprint("other", "1", 8)
    index.rebuild("acme", other)
    assert index.open("acme", other) == 0
    [vector] = random_vectors(1, dimension=8)
    assert index.search("acme", vector, 5, OWNERS) == []
    index.apply("acme", 0, 1, [Row("mem_new", "-", vector)], [])
    assert index.search("acme", vector, 5, OWNERS)[0][0] == "mem_new"


def test_an_empty_index_finds_nothing(index: VectorIndex) -> None:
    assert index.search("acme", random_vectors(1)[0], 5, OWNERS) == []


def test_a_new_index_answers_like_the_old_one_after_the_same_log(
    make: Callable[[], VectorIndex], index: VectorIndex
) -> None:
    some = rows(120)
    index.apply("acme", 0, 1, some, [])
    index.apply("acme", 1, 2, [], [some[0].id])
    again = make()
    position = again.open("acme", PRINT)
    if position == 0:
        again.apply("acme", 0, 2, some[1:], [some[0].id])
    vector = random_vectors(1, seed=9)[0]
    assert [id for id, _ in again.search("acme", vector, 10, OWNERS)] == by_hand(some[1:], vector, 10, OWNERS)


# ---- the local index ------------------------------------------------------------------------------------------------


def test_a_local_index_serves_one_space() -> None:
    index = LocalVectors()
    index.open("acme", PRINT)
    with pytest.raises(InvalidInput, match="serves space 'acme'"):
        index.open("other", PRINT)


def test_changes_that_do_not_follow_are_ignored() -> None:
    index = LocalVectors()
    index.open("acme", PRINT)
    some = rows(2)
    index.apply("acme", 0, 1, [], [])
    index.apply("acme", 0, 1, some, [])
    assert index.search("acme", some[0].vector, 5, OWNERS) == []


def test_rows_that_are_gone_make_room() -> None:
    index = LocalVectors()
    index.open("acme", PRINT)
    some = rows(3_000)
    index.apply("acme", 0, 1, some, [])
    index.apply("acme", 1, 2, [], [row.id for row in some[:2_000]])
    assert len(index._matrix) == 1_000
    vector = random_vectors(1, seed=5)[0]
    assert [id for id, _ in index.search("acme", vector, 10, OWNERS)] == by_hand(some[2_000:], vector, 10, OWNERS)


def test_equal_vectors_are_ordered_by_id() -> None:
    index = LocalVectors()
    index.open("acme", PRINT)
    [vector] = random_vectors(1)
    index.apply("acme", 0, 1, [Row(f"mem_{n}", "-", vector) for n in (3, 1, 4, 0, 2)], [])
    assert [id for id, _ in index.search("acme", vector, 3, ["-"])] == ["mem_0", "mem_1", "mem_2"]


def test_a_graph_is_kept_in_a_file_and_used_again(tmp_path: Path) -> None:
    some = rows(100)
    first = Settled(exact_up_to=0, folder=tmp_path)
    first.open("acme", PRINT)
    first.apply("acme", 0, 1, some, [])
    [file] = tmp_path.iterdir()
    second = Settled(exact_up_to=0, folder=tmp_path)
    second.open("acme", PRINT)
    second.apply("acme", 0, 1, some[10:], [])
    assert second._graph is not None and len(second._graph) == 90
    vector = random_vectors(1, seed=5)[0]
    assert [id for id, _ in second.search("acme", vector, 10, OWNERS)] == by_hand(some[10:], vector, 10, OWNERS)
    assert file.exists()


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "foreign"])
def test_a_damaged_graph_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    some = rows(100)
    first = Settled(exact_up_to=0, folder=tmp_path)
    first.open("acme", PRINT)
    first.apply("acme", 0, 1, some, [])
    [file] = tmp_path.iterdir()
    raw = file.read_bytes()
    middle = len(raw) // 2
    flipped = raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]
    file.write_bytes({"empty": b"", "short": raw[:middle], "flipped": flipped, "foreign": b"x" * 500}[damage])
    second = Settled(exact_up_to=0, folder=tmp_path)
    second.open("acme", PRINT)
    second.apply("acme", 0, 1, some, [])
    vector = random_vectors(1, seed=5)[0]
    assert [id for id, _ in second.search("acme", vector, 10, OWNERS)] == by_hand(some, vector, 10, OWNERS)
    assert file.read_bytes() != b""


def test_where_a_caller_sees_few_rows_the_search_is_exact() -> None:
    index = Settled(exact_up_to=100)
    index.open("acme", PRINT)
    some = rows(300)
    index.apply("acme", 0, 1, some, [])
    assert index._graph is not None
    vector = random_vectors(1, seed=5)[0]
    assert [id for id, _ in index.search("acme", vector, 100, ["u1"])] == by_hand(some, vector, 100, ["u1"])


def test_a_graph_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    index = Settled(exact_up_to=0, folder=tmp_path / "file" / "below")
    index.open("acme", PRINT)
    index.apply("acme", 0, 1, rows(50), [])
    assert index._graph is not None and len(index._graph) == 50


def test_a_graph_that_could_not_be_built_is_built_with_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    index = Settled(exact_up_to=0)
    index.open("acme", PRINT)
    with monkeypatch.context() as short:
        short.setattr(Graph, "reconcile", lambda *_: 1 / 0)
        index.apply("acme", 0, 1, rows(50), [])
    assert index._graph is None
    index.apply("acme", 1, 2, rows(1, seed=1), [])
    assert index._graph is not None and len(index._graph) == 51


# ---- pgvector -------------------------------------------------------------------------------------------------------


def test_tables_that_were_not_committed_are_made_again(vector_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_schema(vector_url) as url:
        index = PgvectorMemories(url)
        connection = index._connection

        @contextmanager
        def cut() -> Iterator[Any]:
            with connection() as con:
                yield con
                con.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        with monkeypatch.context() as short:
            short.setattr(index, "_connection", cut)
            with pytest.raises(Unavailable):
                index.open("acme", PRINT)
        assert index.open("acme", PRINT) == 0
        index.close()


# ---- Qdrant ---------------------------------------------------------------------------------------------------------


def test_spaces_in_one_collection_do_not_see_each_other() -> None:
    index = QdrantMemories(":memory:")
    some = rows(30)
    for space, part in (("acme", some[:15]), ("other", some[15:])):
        index.open(space, PRINT)
        index.apply(space, 0, 1, part, [])
    vector = some[0].vector
    assert [id for id, _ in index.search("other", vector, 30, OWNERS)] == by_hand(some[15:], vector, 30, OWNERS)


def test_a_collection_of_another_dimension_is_refused() -> None:
    index = QdrantMemories(":memory:")
    index.open("acme", PRINT)
    with pytest.raises(InvalidInput, match=r"16 dimensions.*8 dimensions"):
        QdrantMemories(client=index._client).open("acme", Fingerprint("test", "1", 8))


def test_a_collection_of_another_embedder_is_refused() -> None:
    index = QdrantMemories(":memory:")
    index.open("acme", PRINT)
    index.apply("acme", 0, 1, rows(3), [])
    with pytest.raises(InvalidInput, match=r"test@1 .*test@2"):
        index.open("acme", Fingerprint("test", "2", 16))


def test_rebuilding_does_not_destroy_what_other_spaces_have() -> None:
    index = QdrantMemories(":memory:")
    some = rows(5)
    for space in ("acme", "other"):
        index.open(space, PRINT)
        index.apply(space, 0, 1, some, [])
    with pytest.raises(InvalidInput, match="also serves other spaces"):
        index.rebuild("acme", Fingerprint("test", "1", 8))
    index.rebuild("acme", Fingerprint("test", "2", 16))
    assert index.search("acme", some[0].vector, 5, OWNERS) == []
    assert len(index.search("other", some[0].vector, 5, OWNERS)) == 5


def test_the_environment_says_where_qdrant_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_URL", raising=False)
    with pytest.raises(InvalidInput, match="QDRANT_URL"):
        QdrantMemories()
    monkeypatch.setenv("QDRANT_URL", ":memory:")
    assert QdrantMemories().collection == "agent_memories"
    monkeypatch.setenv("QDRANT_COLLECTION", "mine")
    assert QdrantMemories().collection == "mine"


# ---- pgvector -------------------------------------------------------------------------------------------------------


@pytest.fixture
def pgvector(vector_url: str) -> Iterator[PgvectorMemories]:
    with fresh_schema(vector_url) as url:
        index = PgvectorMemories(url)
        yield index
        index.close()


def test_spaces_in_one_table_do_not_see_each_other(pgvector: PgvectorMemories) -> None:
    some = rows(30)
    for space, part in (("acme", some[:15]), ("other", some[15:])):
        pgvector.open(space, PRINT)
        pgvector.apply(space, 0, 1, part, [])
    vector = some[0].vector
    assert [id for id, _ in pgvector.search("other", vector, 30, OWNERS)] == by_hand(some[15:], vector, 30, OWNERS)


def test_vectors_of_another_embedder_in_a_table_are_refused(pgvector: PgvectorMemories) -> None:
    pgvector.open("acme", PRINT)
    pgvector.apply("acme", 0, 1, rows(3), [])
    for other in (Fingerprint("test", "2", 16), Fingerprint("test", "1", 8)):
        with pytest.raises(InvalidInput, match="reembed"):
            pgvector.open("acme", other)


def test_a_postgres_that_is_not_there_is_unavailable() -> None:
    index = PgvectorMemories("postgresql://nobody@127.0.0.1:9/none", timeout_seconds=0.2)
    with pytest.raises(Unavailable):
        index.open("acme", PRINT)
    index.close()


def test_a_table_name_is_plain() -> None:
    with pytest.raises(InvalidInput):
        PgvectorMemories("postgresql://", table="x; DROP TABLE y")
