"""A long history is indexed while it is written, so that its first search is a short call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom.backends.sqlite import SqliteStore, committer, search
from strongroom.backends.sqlite.search import how_far_behind
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Find, Key, Put, new_id

MOST, STEP = 40, 10
BODY = encode({})


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(committer, "MOST_BEHIND", MOST)
    monkeypatch.setattr(search, "SHORT_STEP", STEP)
    yield


def append(number: int, count: int = 1) -> Commit:
    entries = tuple(Entry("note", BODY, text=f"apple pear{number + place}") for place in range(count))
    return Commit(new_id(), (), (Append(Key("s", "k", "one"), entries),))


def behind(path: Path) -> int:
    with closing(apsw.Connection(str(path))) as con:
        return how_far_behind(con)


def found(store: SqliteStore, *words: str) -> int:
    return store.search(Find("s", "k", words, limit=1000)).total


def test_a_search_by_tags_asks_the_index_for_nothing_that_others_have_too() -> None:
    everything, owned = Find("s", "k", ("apple",)), Find("s", "k", ("apple",), tags={"owner": "ana"})
    assert search.narrowing(everything) not in search.narrowing(owned)


def test_a_search_of_one_stream_asks_the_index_for_its_words_alone() -> None:
    assert search.matching(Find("s", "k", ("apple",), id="one"), "apple") == '"apple"'
    tagged = Find("s", "k", ("apple",), id="one", tags={"owner": "ana"})
    for find in (tagged, Find("s", "k", ("apple",))):
        assert search.matching(find, "apple") == f'{search.narrowing(find)} AND "apple"'


@pytest.mark.parametrize(
    "other", [Find("t", "k", (), tags={"owner": "ana"}), Find("s", "l", (), tags={"owner": "ana"})]
)
def test_the_same_tag_of_another_space_or_kind_is_another_word_of_the_index(other: Find) -> None:
    assert search.narrowing(other) != search.narrowing(Find("s", "k", (), tags={"owner": "ana"}))


@pytest.mark.parametrize(
    ("find", "space", "kind"),
    [
        (Find("s", "k", ("apple",), id="one"), "s", "k"),
        (Find("s", "k", ("apple",)), "t", "k"),
        (Find("s", "k", ("apple",)), "s", "l"),
    ],
    ids=["of one stream", "of one space", "of one kind"],
)
def test_a_search_costs_the_same_however_many_others_wait_for_one(
    tmp_path: Path, find: Find, space: str, kind: str
) -> None:
    def steps() -> int:
        """Return how many instructions SQLite takes to know that nothing of it is behind."""
        taken = 0

        def step() -> bool:
            nonlocal taken
            taken += 1
            return False

        with closing(apsw.Connection(str(tmp_path / "a.db"))) as con:
            con.set_progress_handler(step, 1)
            assert not search.is_behind(con, find)
        return taken

    with SqliteStore(tmp_path / "a.db") as store:
        store.commit(append(0))
        store.search(find)
        others = [Key(space, kind, f"other{number}") for number in range(MOST - 1)]
        store.commit(Commit(new_id(), (), (Append(others[0], (Entry("note", BODY, text="pear"),)),)))
        few = steps()
        for other in others[1:]:
            store.commit(Commit(new_id(), (), (Append(other, (Entry("note", BODY, text="pear"),)),)))
        assert behind(store.path) == len(others)
        assert steps() == few


def test_a_short_history_is_not_indexed_before_somebody_searches(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        for number in range(MOST):
            store.commit(append(number))
        assert behind(store.path) == MOST
        assert found(store, "apple") == MOST


def test_no_more_than_a_few_texts_of_a_long_one_wait_for_a_search(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        for number in range(3 * MOST):
            store.commit(append(number))
            assert behind(store.path) <= MOST
        assert found(store, "apple") == 3 * MOST
        assert found(store, "pear0") and found(store, f"pear{3 * MOST - 1}")


def test_a_commit_of_many_texts_leaves_no_more_of_them(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        store.commit(append(0, 5 * MOST))
        assert behind(store.path) <= MOST
        assert found(store, "apple") == 5 * MOST


def test_documents_wait_like_records(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        for number in range(3 * MOST):
            store.commit(Commit(new_id(), (), (Put(Key("s", "k", str(number)), BODY, text="apple"),)))
        assert behind(store.path) <= MOST
        assert found(store, "apple") == 3 * MOST


def test_what_an_earlier_process_left_is_counted(tmp_path: Path) -> None:
    for number in range(3):
        with SqliteStore(tmp_path / "a.db") as store:
            store.commit(append(number * MOST, MOST // 2))
            assert behind(store.path) <= MOST


def test_what_an_earlier_process_left_is_indexed_a_little_with_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "MOST_BEHIND", 10**9)
    with SqliteStore(tmp_path / "a.db") as store:
        store.commit(append(0, 10 * MOST))
    monkeypatch.setattr(committer, "MOST_BEHIND", MOST)
    with SqliteStore(tmp_path / "a.db") as store:
        for commits in range(1, 10):
            store.commit(append(10 * MOST))
            assert behind(store.path) == 10 * MOST + commits - commits * STEP
        for _ in range(40):
            store.commit(append(10 * MOST))
        assert behind(store.path) <= MOST
        assert found(store, "apple") == 10 * MOST + 49


def test_a_task_has_its_answer_before_anything_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, indexed = threading.Event(), list[bool]()

    def indexing(con: apsw.Connection) -> int:
        indexed.append(answered.wait(20))
        return search.catch_up_anywhere(con)

    monkeypatch.setattr(committer, "catch_up_anywhere", indexing)

    async def write() -> None:
        async with strongroom.aopen(tmp_path / "a.db") as ctx:
            session = await ctx.sessions.open("s")
            await session.append([{"role": "user", "content": f"apple {number}"} for number in range(MOST + 1)])
            answered.set()

    asyncio.run(write())
    assert indexed and all(indexed)


def test_tasks_index_too(tmp_path: Path) -> None:
    async def write() -> None:
        async with strongroom.aopen(tmp_path / "a.db") as ctx:
            session = await ctx.sessions.open("s")
            for number in range(3 * MOST):
                await session.append({"role": "user", "content": f"apple {number}"})
            assert behind(tmp_path / "a.db") <= MOST + 1  # one that was begun on the loop is indexed by the next
            assert len(await session.search("apple", k=500)) == 3 * MOST

    asyncio.run(write())


def test_what_was_erased_while_it_waited_is_not_found(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "a.db") as ctx:
        session = ctx.sessions.open("s")
        messages = session.append([{"role": "user", "content": f"secret {number}"} for number in range(2 * MOST)])
        session.erase(before=messages[-1].id)
        assert [hit.message_id for hit in session.search("secret", k=500)] == [messages[-1].id]


def test_a_list_that_is_damaged_costs_no_commit(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        store.commit(append(0, MOST))
        with closing(apsw.Connection(str(store.path))) as con:
            con.execute("UPDATE unindexed SET start = -5")
        assert store.commit(append(MOST, 2 * MOST)).versions
        with pytest.raises(strongroom.Damaged):
            found(store, "apple")


def test_something_listed_where_no_search_looks_is_told_by_a_check(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        store.commit(append(0))
        with closing(apsw.Connection(str(store.path))) as con:
            con.execute("UPDATE unindexed SET place = place + 1")
        assert [problem for problem in store.check().problems if "no search of k in 's' looks" in problem]
