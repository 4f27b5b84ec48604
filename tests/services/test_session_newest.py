"""What a handle remembers of the end of its session: less is read, and nothing else is seen than without it."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.context import AsyncContext
from strongroom.errors import BudgetExceeded, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions.newest import MOST_BYTES, STEP, Newest
from strongroom.store import Slice
from strongroom.tokens import Custom

EXAMPLES = settings(max_examples=int(os.environ.get("STRONGROOM_EXAMPLES", "30")))
WORDS = Custom(str.split, name="words")
ACT = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 40)),
    st.tuples(st.sampled_from(["erase", "erase_before", "pin"]), st.integers(0, 200)),
    st.sampled_from([("pop", 0), ("restore", 0), ("replace", 2), ("delete", 0), ("rename", 0)]),
    st.tuples(st.just("window"), st.sampled_from([30, 30, 60])),
)


class Counting(MemoryStore):
    """A store that counts what it hands out."""

    records = 0

    def read(self, questions: Any) -> Any:
        answers = super().read(questions)
        self.records += sum(len(answer.records) for answer in answers if isinstance(answer, Slice))
        return answers


def said(start: int, count: int) -> list[Any]:
    return [{"role": "user", "content": f"message {number}"} for number in range(start, start + count)]


def opened(store: MemoryStore) -> Any:
    return Context(AsyncContext(Scope(Inline(store)))).sessions.open("s", tokenizer=WORDS)


def act(ctx: Any, name: str, number: int) -> None:
    """Do something to the session, as somebody else would."""
    session = ctx.sessions.open("s", tokenizer=WORDS)
    ids = [message.id for message in session.load()]
    if name in ("append", "replace"):
        getattr(session, name)(said(len(ids), number))
    elif name == "delete":
        session.delete()
        ctx.sessions.open("s", tokenizer=WORDS)
    elif name == "rename":
        session.rename("another")
    elif name == "pop":
        session.pop()
    elif name == "restore":
        try:
            session.restore()
        except NotFound:
            pass
    elif ids:
        one = ids[number % len(ids)]
        if name == "pin":
            session.pin(one)
        elif name == "erase":
            session.erase([one])
        else:
            session.erase(before=one)


def seen(session: Any, budget: int) -> Any:
    try:
        window = session.window(max_tokens=budget)
    except (BudgetExceeded, NotFound) as problem:
        return type(problem)
    return [(one.id, dict(one), one.tokens) for one in window.messages], window.receipt


@EXAMPLES
@given(acts=st.lists(ACT, max_size=30))
def test_a_handle_that_remembers_sees_what_one_sees_that_does_not(acts: list[tuple[str, int]]) -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s", tokenizer=WORDS)
        for name, number in acts:
            if name != "window":
                act(ctx, name, number)
            budget = number if name == "window" else 30
            assert seen(session, budget) == seen(ctx.sessions.open("s", tokenizer=WORDS), budget)


def test_the_next_window_reads_only_what_is_new() -> None:
    store = Counting()
    session = opened(store)
    session.append(said(0, 100))
    session.window(max_tokens=300)
    session.append(said(100, 2))
    before = store.records
    window = session.window(max_tokens=300)
    assert [message["content"] for message in window.messages[-3:]] == ["message 99", "message 100", "message 101"]
    assert store.records - before == 3


def test_many_new_messages_are_read_with_the_others() -> None:
    session = opened(MemoryStore())
    session.append(said(0, 10))
    session.window(max_tokens=1000)
    session.append(said(10, 2 * STEP))
    assert len(session.window(max_tokens=1000).messages) == 10 + 2 * STEP


def test_what_somebody_else_erased_is_not_shown(tmp_path: Any) -> None:
    with strongroom.open(tmp_path / "a.db") as ours, strongroom.open(tmp_path / "a.db") as theirs:
        session = ours.sessions.open("s")
        session.append(said(0, 5))
        session.window(max_tokens=1000)
        other = theirs.sessions.open("s")
        other.erase([other.load()[3].id])
        assert "message 3" not in str(session.window(max_tokens=1000).messages)


def test_a_store_in_the_place_of_the_one_that_was_read_is_not_taken_for_it() -> None:
    stores = MemoryStore(), MemoryStore()
    for number, store in enumerate(stores):
        opened(store).append(said(10 * number, 5))
    newest, found = Newest(), []
    for store in stores:
        _, part, _ = run(newest.read(Scope(Inline(store)), "s", 1000))
        found.append([record.text for record in part.records])
    assert found[1] == [f"message {number}" for number in range(10, 15)]


def test_what_is_too_much_to_remember_is_read_anew() -> None:
    store = Counting()
    session = opened(store)
    session.append([{"role": "user", "content": "x" * MOST_BYTES}, {"role": "user", "content": "and"}])
    session.window(max_tokens=100)
    before = store.records
    session.window(max_tokens=100)
    assert store.records - before == 2
