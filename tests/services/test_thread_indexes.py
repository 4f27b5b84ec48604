"""What is said where a thread has no slot at an index, or the index is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.blocking.threads import Thread
from strongroom.errors import InvalidInput, NotFound


@pytest.fixture
def thread() -> Iterator[Thread]:
    with strongroom.open("memory://") as ctx:
        ctx.threads.append("t", "a", from_id="x")
        ctx.threads.append("t", "b", from_id="x")
        yield ctx.threads.get("t")


@pytest.mark.parametrize("place", [0, 7, -1])
def test_a_thread_without_slots_is_said_to_be_empty(place: int) -> None:
    with (
        strongroom.open("memory://") as ctx,
        pytest.raises(NotFound, match=rf"^thread 'nope' has no slot {place}; it is empty$"),
    ):
        ctx.threads.get("nope")[place]


@pytest.mark.parametrize("place", [2, -3])
def test_a_thread_says_which_slots_it_holds(thread: Thread, place: int) -> None:
    with pytest.raises(NotFound, match=rf"^thread 't' has no slot {place}; it holds 0 to 1$"):
        thread[place]


@pytest.mark.parametrize("place", ["a", None, 1.0, True, (0, 1)])
def test_an_index_that_is_none_is_refused_with_what_may_be_one(thread: Thread, place: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^an index of a thread is a whole number, or a slice of them, not "):
        thread[place]
