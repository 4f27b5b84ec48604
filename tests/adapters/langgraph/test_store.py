"""StrongroomStore: the same answers as LangGraph's own SQLite store, from blocking and async code."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

import strongroom
from strongroom import Context
from strongroom.adapters.contexts import Opened
from strongroom.adapters.langgraph import StrongroomStore
from strongroom.adapters.langgraph import store as stored
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline, run
from strongroom.scope import Scope
from strongroom.store import Answer, AnyQuestion, Page
from tests.server.serving import served

NAMES = [("u",), ("u", "1"), ("u", "1", "x"), ("u", "10"), ("v",), ("v", "%"), ("v", "_x"), ("V",), ("ü", "naïve")]
VALUES: list[Any] = [None, {"n": 1, "s": "a'\"--%", "t": True}, {"n": 3}, {"n": 7, "x": [1, {"y": None}]}]
FILTERS: list[Any] = [None, {"n": 3}, {"n": {"$gt": 2}}, {"n": {"$lte": 4, "$ne": 1}}, {"s": "a'\"--%"}]
CONDITIONS: list[Any] = [None, (MatchCondition("prefix", ("u", "*")),), (MatchCondition("suffix", ("x",)),)]


class Both:
    """A store whose blocking or async verbs are called."""

    def __init__(self, store: StrongroomStore, mode: str) -> None:
        self.store, self.mode, self.loop = store, mode, asyncio.Runner()

    def batch(self, ops: Sequence[Any]) -> list[Any]:
        return self.store.batch(ops) if self.mode == "blocking" else self.loop.run(self.store.abatch(ops))


@pytest.fixture(params=["blocking", "async"])
def both(request: pytest.FixtureRequest, every_context: Context) -> Iterator[Both]:
    with StrongroomStore(every_context) as store:
        made = Both(store, request.param)
        yield made
        made.loop.close()


@pytest.fixture
def store(address: str) -> Iterator[StrongroomStore]:
    with StrongroomStore(address) as made:
        yield made


def operations(chance: random.Random) -> list[Any]:
    ops: list[Any] = []
    for _ in range(chance.randint(1, 5)):
        name, key, kind = chance.choice(NAMES), f"k{chance.randint(0, 4)}", chance.random()
        if kind < 0.45:
            ops.append(PutOp(name, key, chance.choice(VALUES)))
        elif kind < 0.65:
            ops.append(GetOp(name, key))
        elif kind < 0.85:
            ops.append(SearchOp(chance.choice([(), *NAMES]), filter=chance.choice(FILTERS), limit=100))
        else:
            ops.append(ListNamespacesOp(chance.choice(CONDITIONS), chance.choice([None, 1, 2])))
    return ops


def plain(answer: Any) -> Any:
    if isinstance(answer, list):
        return [plain(one) for one in answer]
    return answer if answer is None or isinstance(answer, tuple) else (answer.namespace, answer.key, answer.value)


def test_random_batches_are_answered_as_by_the_framework_s_own_store(both: Both) -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)) as connection:
        theirs = SqliteStore(connection)
        theirs.setup()
        chance = random.Random(7)
        for _ in range(60):
            ops = operations(chance)
            for op, ours, other in zip(ops, both.batch(ops), theirs.batch(ops), strict=True):
                if isinstance(op, SearchOp):  # they tell times to the millisecond
                    assert sorted(map(repr, plain(ours))) == sorted(map(repr, plain(other))), op
                    times = [one.updated_at for one in ours]
                    assert times == sorted(times, reverse=True)
                else:
                    assert plain(ours) == plain(other), op


def test_the_newest_updates_come_first_in_pages(both: Both) -> None:
    both.batch([PutOp(("n",), f"k{number}", {"n": number}) for number in range(5)])
    both.batch([PutOp(("n",), "k1", {"n": 10})])
    pages = [both.batch([SearchOp(("n",), limit=2, offset=offset)])[0] for offset in (0, 2, 4)]
    assert [one.key for page in pages for one in page] == ["k1", "k4", "k3", "k2", "k0"]


class Counting(MemoryStore):
    """Counts the documents that scans give."""

    given = 0

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        answers = super().read(questions)
        self.given += sum(len(one.documents) for one in answers if isinstance(one, Page))
        return answers


def test_the_newest_few_are_read_and_no_more() -> None:
    counting = Counting()
    items = stored.Items(Scope(Inline(counting)), ["$"], set(), {}, None)
    run(items.batch([PutOp(("n",), f"k{number}", {"n": number}) for number in range(500)]))
    counting.given = 0
    [found] = plain(run(items.batch([SearchOp(("n",), limit=3, offset=1)])))
    assert [key for _, key, _ in found] == ["k498", "k497", "k496"]
    assert counting.given == 4


def once_after(store: Any, verb: str, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another do something behind the first answer of a store."""
    real, todo = getattr(store, verb), [work]

    def hooked(asked: Any) -> Any:
        answer = real(asked)
        if todo:
            todo.pop()()
        return answer

    monkeypatch.setattr(store, verb, hooked)


def test_an_item_that_is_updated_during_a_long_search_is_found_once(
    every_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PAGE", 10)
    ours, other = StrongroomStore(every_context), StrongroomStore(every_context)
    other.batch([PutOp(("n",), f"k{number}", {"n": number}) for number in range(25)])
    update = [PutOp(("n",), "k3", {"n": -1})]
    once_after(every_context.store, "read", lambda: other.batch(update), monkeypatch)
    found = [(one.key, one.value["n"]) for one in ours.search(("n",), limit=100)]
    assert found == [("k3", -1), *[(f"k{number}", number) for number in reversed(range(25)) if number != 3]]


def test_an_item_that_fits_no_more_makes_room_for_the_next_that_does(
    every_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PAGE", 4)
    ours, other = StrongroomStore(every_context), StrongroomStore(every_context)
    other.batch([PutOp(("n",), f"k{number}", {"even": number % 2 == 0}) for number in range(16)])
    once_after(every_context.store, "read", lambda: other.put(("n",), "k14", {"even": False}), monkeypatch)
    assert [one.key for one in ours.search(("n",), filter={"even": True}, limit=3)] == ["k12", "k10", "k8"]


def test_an_item_that_is_updated_between_words_and_the_newest_is_found_once_as_it_is(
    store: StrongroomStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = StrongroomStore(store.opened.ctx)
    for key, text in (("drink", "likes tea"), ("food", "likes bread")):
        other.put(("u",), key, {"text": text})
    ctx = store.opened.ctx
    once_after(ctx.store, "search", lambda: other.put(("u",), "drink", {"text": "no more"}), monkeypatch)
    found = [(one.key, one.value["text"]) for one in store.search(("u",), query="tea")]
    assert found == [("drink", "no more"), ("food", "likes bread")]


def test_as_many_namespaces_are_looked_at_as_are_listed() -> None:
    counting = Counting()
    items = stored.Items(Scope(Inline(counting)), ["$"], set(), {}, None)
    run(items.batch([PutOp(("users", f"u{number:03}"), "k", {"n": 1}) for number in range(500)]))
    counting.given = 0
    [found] = run(items.batch([ListNamespacesOp(limit=2, offset=1)]))
    assert found == [("users", "u001"), ("users", "u002")]
    assert counting.given == 500 + stored.PAGE  # all of their names, and an item of each that was looked at


def test_namespaces_are_listed_in_order_across_pages(store: StrongroomStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PAGE", 2)
    for name in (("b", "1"), ("a", "3"), ("a", "1"), ("c",), ("a", "2")):
        store.put(name, "k", {"n": 1})
    store.delete(("a", "2"), "k")
    assert store.list_namespaces(max_depth=1, limit=2) == [("a",), ("b",)]
    assert store.list_namespaces(offset=1, limit=2) == [("a", "3"), ("b", "1")]
    assert store.list_namespaces() == [("a", "1"), ("a", "3"), ("b", "1"), ("c",)]


def test_reads_of_a_batch_see_the_state_before_its_writes(both: Both) -> None:
    assert both.batch([PutOp(("n",), "k", {"n": 1}), GetOp(("n",), "k")]) == [None, None]
    both.batch([PutOp(("n",), "k", {"n": 2}), PutOp(("n",), "k", {"n": 3})])
    [found] = both.batch([GetOp(("n",), "k")])
    assert found.value == {"n": 3} and found.created_at < found.updated_at


def test_a_namespace_is_checked_whichever_way_it_comes(store: StrongroomStore) -> None:
    for name in ((), ("a.b",), ("",), ("langgraph",)):
        with pytest.raises(InvalidNamespaceError):
            store.put(name, "k", {})
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "k", {})])
    with pytest.raises(NotImplementedError):
        store.batch([PutOp(("a",), "k", {}, ttl=5.0)])
    assert store.list_namespaces() == []


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abcdefgh"] for text in texts]


def test_a_query_goes_by_meaning_where_there_is_an_embedder(address: str) -> None:
    index: Any = {"dims": 8, "embed": letters, "fields": ["t"]}
    theirs = InMemoryStore(index=index)
    with StrongroomStore(address, index=index) as ours:
        for store in (ours, theirs):
            for number, text in enumerate(("aaa", "bbb", "abab", "hhh")):
                store.put(("d",), f"k{number}", {"t": text})
            store.put(("d",), "unseen", {"t": "aaa"}, index=False)
        found = [(one.key, round(one.score or 0, 5)) for one in ours.search(("d",), query="aab", limit=3)]
        assert found == [(one.key, round(one.score or 0, 5)) for one in theirs.search(("d",), query="aab", limit=3)]


def test_a_query_goes_by_words_where_there_is_none(store: StrongroomStore) -> None:
    for number, text in enumerate(("the cat sat", "a dog ran", "birds")):
        store.put(("d",), f"k{number}", {"t": text})
    assert [one.key for one in store.search(("d",), query="cats", limit=1)] == ["k0"]
    assert len(store.search(("d",), query="cats")) == 3


def test_writers_of_one_item_leave_one_item(address: str) -> None:
    with StrongroomStore(address) as store:

        def puts(writer: int) -> None:
            for number in range(5):
                store.put(("n",), "k", {"writer": writer, "number": number})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(puts, range(4)))
        [found] = store.search(("n",))
        assert found.value["number"] == 4


def test_an_address_of_a_server_is_opened_with_a_key(tmp_path: Path) -> None:
    key = {"role": "writer"}
    with served(str(tmp_path / "agent.db")) as server, StrongroomStore(server.url, key=server.key(**key)) as store:
        store.put(("users", "u1"), "food", {"likes": "tea"})
        found = store.get(("users", "u1"), "food")
        assert found is not None and found.value == {"likes": "tea"}


def test_what_others_did_to_an_item_is_what_an_update_replaces(every_address: str) -> None:
    with strongroom.open(every_address) as ctx:
        one, other = StrongroomStore(ctx), StrongroomStore(ctx)
        one.put(("u",), "k", {"n": 1})
        other.put(("u",), "k", {"n": 2})
        one.put(("u",), "k", {"n": 3})
        assert [item.value for item in one.search(("u",))] == [{"n": 3}]
        other.delete(("u",), "k")
        one.put(("u",), "k", {"n": 4})
        [item] = other.search(("u",))
        assert item.value == {"n": 4} and item.created_at == item.updated_at
        other.delete(("u",), "k")
        one.delete(("u",), "k")
        assert other.get(("u",), "k") is None and one.search(("u",)) == []


def test_no_more_namespaces_and_places_are_remembered_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_PLACES", 10)
    with strongroom.open("memory://") as ctx:
        items = stored.Items(Opened(ctx, {}).blocking, ["$"], set(), {}, None)
        for number in range(100):
            run(items.batch([PutOp(("user", str(number)), "k", {"n": number})]))
            assert len(items.seen) <= 11 and len(items.places) <= 11
        [found] = run(items.batch([ListNamespacesOp(limit=1000)]))
        assert isinstance(found, list) and len(found) == 100


def test_a_filter_reaches_into_values_by_names_with_dots(store: StrongroomStore) -> None:
    store.put(("docs",), "a", {"user": {"access-level": "nested"}, "x.y": 1})
    asked: list[Any] = [{"user.access-level": "nested"}, {"x.y": {"$gte": 1}}, {"user.other": {"$ne": 1}}, {"x.z": 1}]
    assert [len(store.search(("docs",), filter=filter)) for filter in asked] == [1, 1, 1, 0]


def test_what_is_indexed_can_be_asked(store: StrongroomStore) -> None:
    assert store.index_config is None and store.embeddings is None
