"""What a writer may commit past the services: an adapter's own, and messages as a session stores them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import strongroom
from strongroom.codec import encode
from strongroom.errors import InvalidInput, Unavailable
from strongroom.server.committing import _require_message
from strongroom.services.sessions.records import draft, entry
from strongroom.services.sessions.state import KEPT, MESSAGE, SESSION, State, dump
from strongroom.store import Append, Commit, Entry, Expect, Key, Put, Write, new_id
from strongroom.tokens.counting import tokenizer
from tests.server.serving import Served, served

COUNTING = tokenizer("approximate")
STATE = State("t", 0, COUNTING.name, COUNTING.name)
HERE = "langgraph/t"
TAGS = {"by": "langgraph"}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def space() -> str:
    return f"space-{new_id()}"


@pytest.fixture
def writer(server: Served, space: str) -> Iterator[strongroom.Context]:
    with strongroom.connect(server.url, key=server.key(space, "writer")) as ctx:
        yield ctx


def record(message: dict[str, Any], sidecar: Any = None) -> Entry:
    return entry(draft(message, COUNTING, sidecar=sidecar, named=False), STATE, COUNTING, 7)


HELLO = record({"role": "user", "content": "hello", "id": "h"}, {"kind": "human"})


def opening(space: str, state: State = STATE, tags: dict[str, str] = TAGS) -> Put:
    return Put(Key(space, SESSION, HERE), dump(state), tags)


def saying(space: str, *entries: Entry, kind: str = MESSAGE) -> Append:
    return Append(Key(space, kind, HERE), entries)


def test_a_session_of_an_adapter_is_written_in_one_commit_with_what_is_the_adapters_own(
    writer: strongroom.Context, space: str
) -> None:
    own = Put(Key(space, "langgraph_line", "l"), encode({}))
    wanted = Commit(new_id(), (Expect(own.key, 0),), (own, opening(space), saying(space, HELLO)))
    first, again = writer.store.commit(wanted), writer.store.commit(wanted)
    assert (first.id, first.repeated, again.id, again.repeated) == (wanted.id, False, wanted.id, True)
    [message] = writer.sessions.get(HERE).load()
    assert (message["content"], message.sidecar, message.tokens) == ("hello", {"kind": "human"}, HELLO.weight)


LIES: dict[str, Entry] = {
    "fewer tokens": replace(HELLO, weight=0),
    "another text to be found by": replace(record({"role": "user", "content": ["a"]}), text="hello"),
    "an id that is not free": Entry("user", encode({"id": "h"}), HELLO.weight, 7, text="hello"),
    "a body of another shape": replace(HELLO, body=encode([1, 2, 3])),
    "a body that is no message": replace(HELLO, body=encode("hello")),
    "a note that is none": replace(HELLO, body=encode([{}, {"parts": [[0, 3]]}])),
    "a tokenizer that is no name": replace(HELLO, body=encode([{}, {"by": 7}])),
    "a mark that is no word": replace(HELLO, body=encode([{}, {"mark": {}}])),
    "a sender": replace(HELLO, sender="ana"),
    "a link of a chain": replace(HELLO, commitment=b"1" * 32),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_message_is_what_a_session_stores_or_nothing_changes(
    lie: str, writer: strongroom.Context, space: str
) -> None:
    with pytest.raises(InvalidInput, match=r"not what a session stores.*nothing changed"):
        writer.store.commit(Commit(new_id(), (), (opening(space), saying(space, HELLO, LIES[lie]))))
    assert not writer.sessions.list()


@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "id", "name", "priority", "pinned"]),
        st.sampled_from(["system", "user", "", "\0", "text", 3, True])
        | st.lists(st.sampled_from([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"n": 1}, "x"])),
    ),
    st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
    st.none() | st.just("a1b2"),
)
def test_whatever_a_session_stores_is_accepted(message: dict[str, Any], sidecar: Any, mark: str | None) -> None:
    one = draft(message, COUNTING, sidecar=sidecar, named=False)
    for state in (STATE, State("t", 0, "o200k_base", "o200k_base")):
        _require_message(entry(one, state, COUNTING, 7, mark), state.counted_by)


def wrong(space: str) -> dict[str, list[Write]]:
    return {
        "no document of a session": [Put(Key(space, SESSION, HERE), encode({"title": 1}), TAGS)],
        "ranges that descend": [opening(space, replace(STATE, visible=((5, 3), (9, None))))],
        "an end that is closed": [opening(space, replace(STATE, visible=((0, 5),)))],
        "nothing shown": [opening(space, replace(STATE, visible=()))],
        "the name of another adapter": [opening(space, tags={"by": "adk"})],
        "messages without a session": [saying(space, HELLO)],
        "a note that says nothing": [opening(space), saying(space, Entry("pinned", encode({})), kind=KEPT)],
        "a note of no such kind": [opening(space), saying(space, Entry("x", encode([0, "m"])), kind=KEPT)],
    }


@pytest.mark.parametrize("name", wrong("-"))
def test_a_session_is_one_or_nothing_changes(name: str, writer: strongroom.Context, space: str) -> None:
    with pytest.raises(InvalidInput, match="nothing changed"):
        writer.store.commit(Commit(new_id(), (), tuple(wrong(space)[name])))
    assert not writer.sessions.list()


@pytest.mark.parametrize("key", [("run", "r"), ("memory", "m"), ("session", "support-7"), ("receipt", "r")])
def test_versions_of_what_is_out_of_reach_are_not_told(
    key: tuple[str, str], writer: strongroom.Context, space: str
) -> None:
    own = Put(Key(space, "langgraph_line", "l"), encode({}))
    with pytest.raises(Unavailable) as refused:
        writer.store.commit(Commit(new_id(), (Expect(Key(space, *key), 5),), (own,)))
    assert refused.value.reason == "permission" and "nothing changed" in str(refused.value)


def test_an_id_is_the_callers_own(server: Served, writer: strongroom.Context, space: str) -> None:
    id = new_id()
    with strongroom.connect(server.url, key=server.key(space, "writer")) as other:
        for number, ctx in enumerate((writer, other)):
            put = Put(Key(space, "langgraph_line", f"{number}"), encode(number))
            assert not ctx.store.commit(Commit(id, (), (put,))).repeated
