"""A bounded answer and the client that asks for the rest: together they answer what the store itself would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.codec import encode
from strongroom.protocol import paging, wire
from strongroom.protocol.paging import Reading
from strongroom.server.routes.store import MOST_PARTS
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Entry,
    Get,
    Key,
    Page,
    Put,
    Range,
    ReceiptOf,
    Scan,
    Slice,
    Tail,
    Truncate,
    new_id,
)
from tests.server.serving import served

LENGTH = 12
STREAM, EMPTY = Key("s", "stream", "full"), Key("s", "stream", "empty")


def filled(truncated: int = 0) -> MemoryStore:
    store = MemoryStore()
    entries = tuple(Entry("note", encode(number), weight=number % 4) for number in range(LENGTH))
    store.commit(Commit("known", (), (Append(STREAM, entries),), b"digest", encode({"an": "answer"})))
    for number in range(LENGTH):
        store.commit(Commit(new_id(), (), (Put(Key("s", "document", f"d{number}"), encode(number), {"a": "b"}),)))
    if truncated:
        store.commit(Commit(new_id(), (), (Truncate(STREAM, truncated),)))
    return store


def answered(store: MemoryStore, questions: Sequence[AnyQuestion], most: int, max_bytes: int = 10_000) -> bytes:
    """What a server does."""
    bounded = paging.capped(questions, most)
    part = store.read_within(bounded, max_bytes)
    answers = part.answers
    sizes = [len(answer.documents) for answer in answers if isinstance(answer, Page)]
    sizes += [len(answer.records) for answer in answers if isinstance(answer, Slice)]
    assert sum(sizes) <= max(most, len(sizes))
    return wire.dump_answers(answers, paging.cuts(questions, bounded, part))


def read(store: MemoryStore, questions: Sequence[AnyQuestion], most: int, max_bytes: int) -> list[Any]:
    """What a client does."""
    reading = Reading(questions)
    while asked := reading.next():
        reading.answered(asked, answered(store, asked, most, max_bytes))
    return reading.answers()


SMALL = st.integers(0, LENGTH + 2)
KEYS = st.sampled_from([STREAM, EMPTY])
QUESTIONS = st.one_of(
    st.builds(Get, st.just(Key("s", "document", "d3"))),
    st.builds(ReceiptOf, st.just("s"), st.sampled_from(["known", "unknown"])),
    st.builds(Range, KEYS, SMALL, st.none() | SMALL, st.none() | SMALL),
    st.builds(Tail, KEYS, st.none() | SMALL, st.none() | SMALL, st.none() | SMALL),
    st.builds(
        Scan,
        st.just("s"),
        st.just("document"),
        st.sampled_from([{}, {"a": "b"}, {"a": "c"}]),
        st.none(),
        SMALL,
        st.booleans(),
    ),
)


@given(st.lists(QUESTIONS, min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 5), st.integers(0, 12))
def test_pages_put_together_are_the_answer(
    questions: list[AnyQuestion], most: int, truncated: int, max_bytes: int
) -> None:
    store = filled(truncated)
    assert read(store, questions, most, max_bytes) == store.read(questions)


def test_what_is_appended_meanwhile_is_left_for_the_next_question() -> None:
    store, reading = filled(), Reading([Range(STREAM)])
    reading.answered(reading.next(), answered(store, reading.next(), 5))
    store.commit(Commit(new_id(), (), (Append(STREAM, (Entry("note", encode("new")),)),)))
    while asked := reading.next():
        reading.answered(asked, answered(store, asked, 5))
    [whole] = reading.answers()
    assert isinstance(whole, Slice)
    assert whole.length == LENGTH and [record.index for record in whole.records] == list(range(LENGTH))


def test_what_is_truncated_meanwhile_leaves_no_gap() -> None:
    store, reading = filled(), Reading([Range(STREAM)])
    reading.answered(reading.next(), answered(store, reading.next(), 5))
    store.commit(Commit(new_id(), (), (Truncate(STREAM, 8),)))
    while asked := reading.next():
        reading.answered(asked, answered(store, asked, 5))
    [whole] = reading.answers()
    assert isinstance(whole, Slice)
    assert whole.first == 8 and [record.index for record in whole.records] == [8, 9, 10, 11]


def test_a_long_stream_is_read_whole_through_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    load = wire.load_answers

    def watched(raw: bytes, questions: Sequence[AnyQuestion]) -> Any:
        answers, cut = load(raw, questions)
        sizes.extend(len(answer.records) for answer in answers if isinstance(answer, Slice))
        return answers, cut

    monkeypatch.setattr(paging, "load_answers", watched)
    with served(str(tmp_path / "agent.db")) as server, strongroom.connect(server.url) as ctx:
        key = Key(ctx.space, "note", "long")
        entries = tuple(Entry("note", encode(number)) for number in range(1000))
        ctx.store.commit(Commit(new_id(), (), (Append(key, entries),)))
        [found] = ctx.store.read([Range(key)])
        assert isinstance(found, Slice)
        assert [record.index for record in found.records] == list(range(1000))
        assert max(sizes) == paging.MOST


def requests(store: MemoryStore, questions: Sequence[AnyQuestion]) -> tuple[list[list[AnyQuestion]], list[Any]]:
    """Read as a client does; return what each request asks, and the answers."""
    reading, sent = Reading(questions), list[list[AnyQuestion]]()
    while asked := reading.next():
        sent.append(asked)
        reading.answered(asked, answered(store, asked, 256, 10_000_000))
    return sent, reading.answers()


def test_very_many_questions_are_asked_a_thousand_at_a_time() -> None:
    store = filled()
    questions: list[AnyQuestion] = [Get(Key("s", "document", f"d{number % LENGTH}")) for number in range(2500)]
    sent, answers = requests(store, questions)
    assert [len(asked) for asked in sent] == [1000, 1000, 500] and answers == store.read(questions)


def test_long_questions_are_asked_as_many_at_a_time_as_a_server_takes() -> None:
    store = filled()
    questions: list[AnyQuestion] = [Get(Key("s", "document", "é" * 250 + str(number))) for number in range(2500)]
    sent, answers = requests(store, questions)
    assert max(len(wire.dump_questions(asked)) for asked in sent) <= paging.MOST_BYTES and answers == [None] * 2500


def test_more_questions_than_a_server_takes_are_answered_through_one() -> None:
    with served() as server, strongroom.connect(server.url) as ctx:
        key = Key(ctx.space, "note", "n")
        ctx.store.commit(Commit(new_id(), (), (Put(key, encode("x")),)))
        found = ctx.store.read([Get(key)] * (MOST_PARTS + 1))
        assert len(found) == MOST_PARTS + 1 and None not in found
