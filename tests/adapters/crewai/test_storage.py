"""StrongroomStorage under CrewAI: the rules of its contract, and what a store adds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord

from strongroom.adapters.crewai import StrongroomStorage

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the framework's own making

NOON = datetime(2026, 1, 2, 12)


def record(id: str, scope: str = "/", *vector: float, **more: Any) -> MemoryRecord:
    at = NOON + timedelta(minutes=more.pop("minute", 0))
    fields = {"content": f"record {id}", "created_at": at, "last_accessed": at, **more}
    return MemoryRecord(id=id, scope=scope, embedding=list(vector) or None, **fields)


RECORDS = [
    record("a", "/", 1, 0, categories=["x"], metadata={"n": 1, "deep": [{"a": None}]}, minute=1),
    record("b", "/team", 0, 1, categories=["x", "y"], importance=0.9, minute=3),
    record("c", "/team/ana", 1, 1, metadata={"n": 1}, source="ana", private=True, minute=2),
    record("d", "/teammates", 0.5, 1, content="zwölf \0", minute=4),
]


@pytest.fixture
def storage(address: str) -> Iterator[StrongroomStorage]:
    with StrongroomStorage(address) as made:
        yield made


@pytest.fixture
def everywhere(every_address: str) -> Iterator[StrongroomStorage]:
    with StrongroomStorage(every_address) as made:
        yield made


def ids(found: Any) -> list[str]:
    return [one.id if isinstance(one, MemoryRecord) else one[0].id for one in found]


@pytest.mark.parametrize("value", [NOON, {"tag"}])
def test_metadata_that_json_would_not_bring_back_is_refused_and_changes_nothing(
    storage: StrongroomStorage, value: object
) -> None:
    storage.save(RECORDS[:1])
    with pytest.raises(TypeError, match="not JSON serializable"):
        storage.update(RECORDS[0].model_copy(update={"metadata": {"value": value}}))
    assert storage.get_record("a") == RECORDS[0]


def test_it_is_a_backend_to_crewai(storage: StrongroomStorage) -> None:
    assert isinstance(storage, StorageBackend)


def test_records_come_back_exactly_with_their_vectors(everywhere: StrongroomStorage) -> None:
    everywhere.save(RECORDS)
    for one in RECORDS:
        found = everywhere.get_record(one.id)
        assert found is not None and found == one and found.embedding == one.embedding
    assert everywhere.get_record("none") is None


def answers(storage: Any) -> list[Any]:
    """Ask everything, and return what was told."""
    storage.save(RECORDS[:3])  # LanceDB takes /teammates for a part of /team
    told: list[Any] = []
    for scope in (None, "/", "/team/", "/team/ana", "/none"):
        told += [sorted(ids(storage.list_records(scope))), storage.count(scope), storage.list_categories(scope)]
    told += [ids(storage.list_records(limit=2, offset=1)), storage.list_records(limit=0)]
    told += [storage.list_scopes(), storage.list_scopes("/team"), storage.get_scope_info("/team/ana").model_dump()]
    told.append(storage.get_scope_info("/none").model_dump())
    told += [ids(storage.search([1, 0], limit=2)), ids(storage.search([1, 0], categories=["y"]))]
    told += [ids(storage.search([0, 1], metadata_filter={"n": 1})), ids(storage.search([0, 1], "/team/ana"))]
    told.append(storage.delete(record_ids=["a", "none"]))
    told.append(storage.delete(categories=["y"], older_than=NOON))
    told.append(storage.delete(scope_prefix="/team/ana", metadata_filter={"n": 1}))
    told.append(sorted(ids(storage.list_records())))
    storage.update(RECORDS[1].model_copy(update={"content": "changed"}))
    told.append(storage.get_record("b").content)
    told.append(storage.delete())
    return [*told, storage.count()]


def test_everything_is_answered_as_by_the_frameworks_own_storage(everywhere: StrongroomStorage, tmp_path: Path) -> None:
    assert answers(everywhere) == answers(LanceDBStorage(path=str(tmp_path / "lance"), vector_dim=2))


def test_scores_are_cosines_and_the_best_come_first(storage: StrongroomStorage) -> None:
    storage.save([*RECORDS, record("e", "/")])
    found = storage.search([2.0, 0.0])
    assert ids(found)[:2] == ["a", "c"] and found[0][1] == pytest.approx(1) and found[1][1] == pytest.approx(0.5**0.5)
    assert ids(storage.search([1.0, 0.0], min_score=0.9)) == ["a"] and storage.search([1.0, 0.0], limit=0) == []


def test_a_scope_is_compared_part_by_part_at_any_depth(storage: StrongroomStorage) -> None:
    deep = "/" + "/".join(str(number) for number in range(20))
    storage.save([*RECORDS, record("deep", deep), record("other", deep + "x")])
    assert ids(storage.list_records(deep)) == ["deep"] and sorted(ids(storage.list_records("/team/"))) == ["b", "c"]


# ---- vectors of another length --------------------------------------------------------------------------------------


def test_a_vector_of_another_length_is_refused_as_crewai_wants_it(everywhere: StrongroomStorage) -> None:
    everywhere.save([record("a", "/", 1, 0)])
    for call in (
        lambda: everywhere.save([record("b", "/", 1, 0, 0)]),
        lambda: everywhere.update(record("a", "/", 1, 0, 0)),
        lambda: everywhere.search([1.0, 0.0, 0.0]),
    ):
        with pytest.raises(EmbeddingDimensionMismatchError) as told:
            call()
        assert (told.value.stored_dim, told.value.new_dim) == (2, 3)
        assert not isinstance(told.value, RuntimeError)  # which CrewAI's background saves would swallow
    assert everywhere.count() == 1


def test_a_batch_of_two_lengths_is_refused_whole(storage: StrongroomStorage) -> None:
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([record("a", "/", 1, 0), record("b", "/", 1)])
    assert storage.count() == 0


def test_of_two_lengths_at_once_one_is_refused(storage: StrongroomStorage) -> None:
    def save(length: int) -> int | None:
        try:
            storage.save([record(f"r{length}", "/", *[1.0] * length)])
        except EmbeddingDimensionMismatchError:
            return None
        return length

    with ThreadPoolExecutor(4) as pool:
        kept = [length for length in pool.map(save, [2, 3, 4, 5]) if length]
    assert len(kept) == 1 and ids(storage.list_records()) == [f"r{kept[0]}"]


def test_after_a_reset_vectors_may_have_another_length(storage: StrongroomStorage) -> None:
    storage.save([record("a", "/x", 1, 0)])
    storage.reset("/x")
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([record("b", "/", 1)])
    storage.reset()
    storage.save([record("b", "/", 1)])
    assert ids(storage.search([1.0])) == ["b"]


# ---- threads, loops, processes --------------------------------------------------------------------------------------


def test_threads_that_save_touch_and_delete_at_once_lose_nothing(storage: StrongroomStorage) -> None:
    storage.save([record(f"old {number}", "/", 1, 0) for number in range(8)])

    def work(number: int) -> int:
        storage.save([record(f"new {number}", "/", 1, number)])
        storage.touch_records([f"new {number}", "old 0"])
        return storage.delete(record_ids=[f"old {place}" for place in range(1, 8)])

    with ThreadPoolExecutor(4) as pool:
        deleted = sum(pool.map(work, range(8)))
    assert deleted == 7  # each counted once
    assert sorted(ids(storage.list_records())) == sorted(["old 0", *(f"new {number}" for number in range(8))])


async def test_async_calls_see_what_blocking_ones_wrote(everywhere: StrongroomStorage) -> None:
    everywhere.save(RECORDS[:1])
    await everywhere.asave(RECORDS[1:])
    assert ids(await everywhere.asearch([1.0, 0.0], limit=2)) == ids(everywhere.search([1.0, 0.0], limit=2))
    assert await everywhere.adelete(scope_prefix="/team") == 2 and everywhere.count() == 2


def test_touching_changes_nothing_but_the_time(storage: StrongroomStorage) -> None:
    storage.save(RECORDS[:1])
    storage.touch_records(["a", "none"])
    found = storage.get_record("a")
    assert found is not None and found.last_accessed > NOON and found.embedding == [1, 0]
    assert found.model_copy(update={"last_accessed": NOON + timedelta(minutes=1)}) == RECORDS[0]
