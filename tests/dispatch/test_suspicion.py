"""What is held against a message when workers vanish, decided on the delivery's state alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from strongroom.codec import encode, pack
from strongroom.dispatch import Retry
from strongroom.errors import InvalidInput
from strongroom.services.threads.deliveries import (
    Begun,
    Delivery,
    attempts,
    failed,
    handed_back,
    handled,
    interrupted,
    noted,
    read_delivery,
    released,
    renewed,
    suspicious,
    taken,
    vanished,
)
from strongroom.store import Document, Key, Record


def message(index: int, receiver: str = "echo") -> Record:
    return Record(index, "str", encode("x"), 0, 0, "user", receiver, None, None, None, None)


THREE, OTHER = message(3), message(4, "other")
HELD = Delivery("gone", 10, {"echo": 3}, {}, {"echo": Begun(3, 5), "other": Begun(4, 2)})


def test_a_thread_that_was_given_back_is_not_suspicious() -> None:
    assert not suspicious(taken(Delivery(None, 0, {"echo": 3}), owner="next", until=20))


def test_a_thread_that_is_taken_over_is_suspicious() -> None:
    assert suspicious(taken(Delivery("gone", 10, {"echo": 3}), owner="next", until=20))


def test_a_thread_that_its_own_worker_takes_again_is_not_suspicious() -> None:
    assert not suspicious(taken(HELD, owner="gone", until=20))


def test_what_is_known_stays_known_when_a_thread_is_taken() -> None:
    assert taken(HELD, owner="next", until=20).begun == HELD.begun
    assert taken(msgspec.structs.replace(HELD, owner=None), owner="next", until=20).begun == HELD.begun


ENDS: dict[str, tuple[Callable[[Delivery], Delivery], dict[str, Begun] | object]] = {
    "renewed": (lambda state: renewed(state, until=20), HELD.begun),
    "handled": (lambda state: handled(state, THREE, until=20), {"other": Begun(4, 2)}),
    "failed": (lambda state: failed(state, THREE, error="no", not_before=20), {"other": Begun(4, 2)}),
    "released": (lambda state: released(state, receivers=["echo"], length=9), {"other": Begun(4, 2)}),
    "released by one who serves both": (lambda state: released(state, receivers=["echo", "other"], length=9), UNSET),
    "handed back": (handed_back, UNSET),
    "interrupted": (lambda state: interrupted(state, ()), UNSET),
}


@pytest.mark.parametrize("end", ENDS)
def test_whoever_lives_to_say_how_it_ended_clears_a_message(end: str) -> None:
    act, left = ENDS[end]
    assert act(HELD).begun == left


@pytest.mark.parametrize("end", ENDS)
def test_nothing_makes_a_thread_suspicious_but_taking_it_over(end: str) -> None:
    act, _ = ENDS[end]
    assert not suspicious(act(Delivery("first", 10, {"echo": 3})))


@pytest.mark.parametrize(
    ("record", "times"), [(THREE, 6), (message(4), 1), (OTHER, 3), (message(5, "new"), 1)], ids=["3", "4", "o", "n"]
)
def test_a_note_counts_on_for_the_same_message_and_begins_anew_for_another(record: Record, times: int) -> None:
    assert vanished(noted(HELD, record, until=20), record) == times


@given(st.lists(st.sampled_from(["vanishes", "vanishes early", "fails", "is stopped", "handles"]), max_size=40))
def test_a_count_is_that_of_the_workers_that_began_one_message_and_vanished_in_a_row(fates: list[str]) -> None:
    state, index, expected = Delivery(), 0, 0
    for n, fate in enumerate(fates):
        state = taken(state, owner=f"worker {n}", until=n)
        assert vanished(state, message(index)) == expected
        if fate == "vanishes early":
            continue
        known = suspicious(state)
        state = noted(state, message(index), until=n) if known else state
        if fate == "vanishes":
            expected += known
            continue
        expected = 0
        if fate == "fails":
            state = failed(state, message(index), error="no", not_before=n)
        elif fate == "is stopped":
            state = handed_back(state)
        else:
            state = released(handled(state, message(index), until=n), receivers=["echo"], length=index + 1)
            index += 1
        assert not suspicious(state)


def test_what_another_programs_worker_handles_does_not_begin_the_attempts_of_a_message_anew() -> None:
    state = failed(Delivery(), THREE, error="no", not_before=5)
    after = released(handled(state, OTHER, until=20), receivers=["other"], length=5)
    assert (attempts(after, THREE), attempts(handled(after, THREE, until=20), THREE)) == (2, 1)


def test_a_document_from_before_there_were_notes_is_read_as_it_is() -> None:
    old = {"owner": "first", "until": 7, "next": {"echo": 3}, "put_off": {}}
    state = read_delivery(Document(Key("default", "delivery", "t"), 1, encode(old), {}))
    assert state == Delivery("first", 7, {"echo": 3})


def test_a_document_without_suspicion_is_written_as_before() -> None:
    assert set(pack(Delivery()).load()) == {"owner", "until", "next", "put_off"}


@pytest.mark.parametrize("takeovers", [0, -1, "20", None, 1.5])
def test_a_number_of_takeovers_that_makes_no_sense_is_refused(takeovers: int) -> None:
    with pytest.raises(InvalidInput):
        Retry(takeovers=takeovers)
