"""Long-term memory through the old names, in memory and over Qdrant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from strongroom.compat.aos_context.memory import CommitResult, InMemoryMemoryStore, MemoryStore, StoredMemory
from strongroom.compat.aos_context.memory_qdrant import QdrantMemoryStore
from strongroom.compat.aos_context.validation import ValidationError, validate_instance
from strongroom.errors import Conflict
from tests.compat.aos_samples import item, mcr


def embed(text: str) -> list[float]:
    """Place a text by a few of its letters: near texts share them."""
    return [float(text.lower().count(letter)) + 0.1 for letter in "abcdefgh"]


@pytest.fixture(params=["in memory", "qdrant"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredMemory]:
    if request.param == "in memory":
        yield InMemoryMemoryStore()
        return
    client = QdrantClient(":memory:")
    yield QdrantMemoryStore(client, "memories", embed, address=tmp_path / "memories.db")
    client.close()


def known(memory: StoredMemory, *mcrs: dict[str, Any]) -> list[str]:
    staged = memory.propose(list(mcrs), scope_filters={})
    assert staged.batch_id is not None, staged.error
    done = memory.commit(staged.batch_id)
    assert done.committed_ids is not None, done.error
    return done.committed_ids


def contents(found: list[dict[str, Any]]) -> list[str]:
    return [each["content"] for each in found]


def test_what_is_staged_is_not_found_and_what_is_committed_is(memory: StoredMemory) -> None:
    staged = memory.propose([mcr("The sky is blue")], scope_filters={})
    assert staged.ok and staged.batch_id is not None
    assert memory.search("sky", filters={}) == []
    done = memory.commit(staged.batch_id)
    [found] = memory.search("sky", filters={})
    assert (done.ok, done.committed_ids) == (True, [found["memory_id"]])


def test_what_is_found_is_a_memory_item(memory: StoredMemory) -> None:
    known(memory, mcr())
    [found] = memory.search("sky", filters={})
    assert validate_instance("memory_item", found).ok


def test_what_is_found_is_the_callers_own(memory: StoredMemory) -> None:
    known(memory, mcr())
    memory.search("sky", filters={})[0]["content"] = "changed"
    assert contents(memory.search("sky", filters={})) == ["The sky is blue"]


def test_an_unknown_batch_is_said_to_be_unknown(memory: StoredMemory) -> None:
    assert (memory.commit("batch_nope").ok, memory.commit("batch_nope").error) == (False, "unknown batch_id")


def test_an_empty_batch_is_refused_when_it_is_proposed(memory: StoredMemory) -> None:
    assert not memory.propose([], scope_filters={}).ok


@pytest.mark.parametrize(
    "wrong", [{"memory_id": "ab"}, {"op": "guess"}, {"confidence": 2}, {"op": "supersede", "supersedes": []}]
)
def test_one_bad_request_refuses_the_batch_and_nothing_of_it_is_known(
    memory: StoredMemory, wrong: dict[str, Any]
) -> None:
    result = memory.propose([mcr("good"), mcr("bad", **wrong)], scope_filters={})
    assert not result.ok and str(result.error).startswith("mcr schema: ")
    assert memory.search("good", filters={}) == []


def test_committing_again_gives_the_same_answer_and_no_second_memory(memory: StoredMemory) -> None:
    staged = memory.propose([mcr()], scope_filters={})
    assert staged.batch_id is not None
    assert memory.commit(staged.batch_id) == memory.commit(staged.batch_id)
    assert len(memory.search("sky", filters={})) == 1


def test_scope_filters_say_whose_a_memory_is(memory: StoredMemory) -> None:
    staged = memory.propose([mcr(scope="user")], scope_filters={"user_id": "u1"})
    assert staged.batch_id is not None
    memory.commit(staged.batch_id)
    assert len(memory.search("sky", filters={"user_id": "u1"})) == 1
    assert memory.search("sky", filters={"user_id": "u2"}) == []


def test_a_request_outside_the_scope_filters_is_refused(memory: StoredMemory) -> None:
    result = memory.propose([mcr(scope="user", user_id="u2")], scope_filters={"user_id": "u1"})
    assert not result.ok and "scope_filters" in str(result.error)
    assert not memory.propose([mcr()], scope_filters={"usr": "u1"}).ok


def test_deprecating_an_unknown_memory_is_refused(memory: StoredMemory) -> None:
    result = memory.propose([mcr(op="deprecate", target_memory_id="mem_nope")], scope_filters={})
    assert not result.ok and "mem_nope" in str(result.error)


def test_deprecating_ends_the_target_and_adds_nothing(memory: StoredMemory) -> None:
    [id] = known(memory, mcr())
    assert known(memory, mcr("no longer", op="deprecate", target_memory_id=id)) == []
    assert memory.search("sky", filters={}) == []
    assert [each["memory_id"] for each in memory.search("sky", filters={"status": "deprecated"})] == [id]


def test_superseding_leaves_the_old_one_inactive(memory: StoredMemory) -> None:
    [old] = known(memory, mcr())
    [new] = known(memory, mcr("The sky is grey", op="supersede", supersedes=[old]))
    assert [each["memory_id"] for each in memory.search("sky", filters={})] == [new]
    assert [each["memory_id"] for each in memory.search("sky", filters={"status": "inactive"})] == [old]


def test_a_noop_becomes_no_memory(memory: StoredMemory) -> None:
    assert known(memory, mcr(op="noop")) == []
    assert memory.search("", filters={}) == []


def test_an_empty_query_lists(memory: StoredMemory) -> None:
    known(memory, mcr("one"), mcr("two"))
    assert sorted(contents(memory.search("", filters={}))) == ["one", "two"]
    assert len(memory.search("", filters={}, top_k=1)) == 1


def test_a_filter_that_does_not_exist_is_an_error(memory: StoredMemory) -> None:
    with pytest.raises(ValueError, match="no filter"):
        memory.search("sky", filters={"usr": "u1"})
    with pytest.raises(ValueError, match="status"):
        memory.search("sky", filters={"status": "asleep"})


@pytest.mark.parametrize("name", ["memory_id", "type", "content", "confidence", "created_at", "updated_at"])
def test_a_filter_may_name_any_field_of_an_item(memory: StoredMemory, name: str) -> None:
    times = {"created_at": "2024-01-01T00:00:00Z", "updated_at": "2024-06-01T00:00:00Z"}
    memory.add_memory_item(item("mem_a", content="The sky is grey", type="decision", confidence=0.5, **times))
    memory.add_memory_item(item("mem_b"))
    wanted = memory._mem["mem_a"]
    assert memory.search("sky", filters={name: wanted[name]}) == [wanted]


@pytest.mark.parametrize(("status", "found"), [("active", 1), ("deprecated", 0)])
def test_an_item_can_be_added_as_it_is(memory: StoredMemory, status: str, found: int) -> None:
    memory.add_memory_item(item(status=status))
    assert len(memory.search("sky", filters={})) == found


@pytest.mark.parametrize("status", ["active", "deprecated", "inactive"])
def test_an_item_comes_back_as_it_was_added(memory: StoredMemory, status: str) -> None:
    given = item(
        status=status,
        scope="user",
        user_id="u1",
        project_id=None,
        supersedes=["mem_gone"],
        source_refs=["a page", "mem_elsewhere"],
        created_at="2024-02-03T04:05:06+09:00",
        updated_at="2025-02-03T04:05:06Z",
    )
    memory.add_memory_item(given)
    assert memory.search("sky", filters={"status": status, "user_id": "u1"}) == [given]
    assert memory._mem["mem_one"] == given


def test_an_item_may_be_added_again_and_not_changed(memory: StoredMemory) -> None:
    memory.add_memory_item(item())
    memory.add_memory_item(item())
    with pytest.raises(Conflict, match="mem_one"):
        memory.add_memory_item(item(content="Grass is green"))
    assert memory._mem["mem_one"] == item() | {"user_id": None, "project_id": None, "supersedes": []}


def test_the_times_of_a_request_are_those_of_its_item(memory: StoredMemory) -> None:
    [id] = known(memory, mcr(created_at="2024-01-01T00:00:00Z", updated_at="2024-06-01T00:00:00Z"))
    [found] = memory.search("sky", filters={})
    assert (found["created_at"], found["updated_at"]) == ("2024-01-01T00:00:00Z", "2024-06-01T00:00:00Z")
    known(memory, mcr("no longer", op="deprecate", target_memory_id=id))
    [ended] = memory.search("sky", filters={"status": "deprecated"})
    assert ended["created_at"] == "2024-01-01T00:00:00Z" < "2026" < ended["updated_at"]


def test_a_staged_request_is_shown_in_the_words_of_its_schema(memory: StoredMemory) -> None:
    staged = memory.propose([mcr(created_at="2024-01-01T00:00:00Z")], scope_filters={})
    assert staged.batch_id is not None
    [request] = memory._batches[staged.batch_id]
    assert validate_instance("mcr", request).ok and request["created_at"] == "2024-01-01T00:00:00Z"


def test_what_is_no_item_cannot_be_added(memory: StoredMemory) -> None:
    with pytest.raises(ValidationError):
        memory.add_memory_item({"content": "only"})


def test_a_search_finds_nothing_without_a_word_in_common() -> None:
    memory = InMemoryMemoryStore()
    known(memory, mcr())
    assert memory.search("zzz", filters={}) == []


def test_the_views_look_inside_and_follow(memory: StoredMemory) -> None:
    staged = memory.propose([mcr(scope="user", user_id="u1")], scope_filters={})
    assert staged.batch_id is not None
    assert [each["content"] for each in memory._batches[staged.batch_id]] == ["The sky is blue"]
    done = memory.commit(staged.batch_id)
    assert staged.batch_id not in memory._batches
    assert list(memory._mem) == done.committed_ids
    assert [each["status"] for each in memory._mem.values()] == ["active"]


def test_what_is_taken_out_of_a_view_is_gone(memory: StoredMemory) -> None:
    known(memory, mcr())
    memory.propose([mcr("waiting")], scope_filters={})
    memory._mem.clear()
    memory._batches.clear()
    assert (len(memory._mem), len(memory._batches), memory.search("sky", filters={})) == (0, 0, [])


def test_a_view_can_be_replaced() -> None:
    memory = InMemoryMemoryStore()
    known(memory, mcr())
    memory._mem = {"mem_two": item("mem_two", content="Grass is green")}
    assert list(memory._mem) == ["mem_two"]


def test_a_batch_put_into_the_view_can_be_committed() -> None:
    memory = InMemoryMemoryStore()
    memory._batches = {"batch_mine": [mcr()]}
    assert memory.commit("batch_mine").ok


def test_two_stores_in_memory_share_nothing() -> None:
    first, second = InMemoryMemoryStore(), InMemoryMemoryStore()
    known(first, mcr())
    assert second.search("sky", filters={}) == []


def test_the_base_class_promises_only() -> None:
    for call in (
        lambda: MemoryStore().search("", filters={}),
        lambda: MemoryStore().propose([], scope_filters={}),
        lambda: MemoryStore().commit(""),
    ):
        with pytest.raises(NotImplementedError):
            call()


# ---- Qdrant ---------------------------------------------------------------------------------------------------------


def test_qdrant_finds_by_meaning(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    memory = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    known(memory, mcr("aaaa"), mcr("hhhh"))
    assert contents(memory.search("haaa", filters={}, top_k=1)) == ["aaaa"]
    client.close()


def test_the_collection_is_there_after_a_commit(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    memory = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    known(memory, mcr("aaaa"))
    assert client.collection_exists("memories")
    client.close()


def test_a_batch_is_committed_although_it_cannot_be_indexed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = QdrantClient(":memory:")
    client.create_collection("memories", vectors_config=models.VectorParams(size=9, distance=models.Distance.COSINE))
    memory = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    known(memory, mcr("aaaa"))
    assert contents(memory.get_all()) == ["aaaa"]
    assert "not indexed yet" in caplog.text
    client.close()


def test_all_that_is_active_is_listed(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    memory = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    [old] = known(memory, mcr("aaaa"))
    known(memory, mcr("bbbb", op="supersede", supersedes=[old]))
    assert contents(memory.get_all()) == ["bbbb"]
    client.close()


def test_memories_survive_the_process_that_made_them(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    known(QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db"), mcr())
    again = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    assert contents(again.get_all()) == contents(again.search("sky", filters={})) == ["The sky is blue"]
    client.close()


def test_a_collection_of_another_size_is_an_error_not_an_empty_answer(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    client.create_collection("memories", vectors_config=models.VectorParams(size=384, distance=models.Distance.COSINE))
    memory = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "m.db")
    known(memory, mcr())
    with pytest.raises(ValueError, match="384"):
        memory.search("sky", filters={})
    client.close()


def test_without_an_address_memories_are_under_the_runs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRONGROOM_URL", raising=False)
    monkeypatch.setenv("AOS_RUNS_ROOT", str(tmp_path / "runs"))
    client = QdrantClient(":memory:")
    memory = QdrantMemoryStore(client, "memories", embed)
    assert not (tmp_path / "runs").exists()
    known(memory, mcr())
    assert (tmp_path / "runs" / "strongroom.db").exists()
    client.close()


def test_a_batch_that_was_refused_is_unknown(memory: StoredMemory) -> None:
    refused: Any = memory.propose([{"op": "add"}], scope_filters={})
    assert memory.commit(refused.batch_id) == CommitResult(False, None, "unknown batch_id")


def test_no_query_lists(memory: StoredMemory) -> None:
    nothing: Any = None
    known(memory, mcr())
    assert memory.search(nothing, filters={}) == memory.search("", filters={}) != []


@pytest.mark.parametrize("query", ["", "sky"])
@pytest.mark.parametrize("top_k", [0, -1])
def test_less_than_one_item_is_no_search(memory: StoredMemory, query: str, top_k: int) -> None:
    known(memory, mcr())
    with pytest.raises(ValueError, match="top_k"):
        memory.search(query, filters={}, top_k=top_k)


def test_a_store_says_where_its_vectors_are(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    store = QdrantMemoryStore(client, "memories", embed, address=tmp_path / "memories.db")
    assert (store.client, store.collection_name, store.embedding_fn) == (client, "memories", embed)
    client.close()
