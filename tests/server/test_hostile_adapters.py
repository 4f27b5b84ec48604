"""What a writer puts where adapters keep theirs, of any shape: it neither hides what is beside it, nor keeps anybody
from deleting a session or erasing a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

import strongroom
from strongroom.codec import encode
from strongroom.services.sessions.layouts import digest
from strongroom.services.sessions.records import draft, entry
from strongroom.services.sessions.state import MESSAGE, SESSION, State, dump, is_visible
from strongroom.store import Append, Commit, Entry, Key, Put, Write, new_id
from strongroom.tokens.counting import tokenizer
from tests.server.conftest import client
from tests.server.serving import Served, served

COUNTING = tokenizer("approximate")
STATE = State("t", 0, COUNTING.name, COUNTING.name)
SESSION_ID = "langgraph/t"


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


@pytest.fixture
def admin(server: Served, space: str) -> Iterator[strongroom.Context]:
    with strongroom.connect(server.url, key=server.key(space, "admin")) as ctx:
        yield ctx


@pytest.fixture
def reader(server: Served, space: str) -> Iterator[httpx.Client]:
    with client(server.url, server.key(space, "reader")) as http:
        yield http


# ---- times of no calendar -------------------------------------------------------------------------------------------

TIMES = [2**63 - 1, 10**18, -(10**18), -(2**63)]


@pytest.mark.parametrize("at", TIMES)
def test_a_session_made_at_no_time_hides_no_other(
    writer: strongroom.Context, reader: httpx.Client, space: str, at: int
) -> None:
    writer.sessions.open("good")
    state = replace(STATE, created=at)
    writer.store.commit(Commit(new_id(), (), (Put(Key(space, SESSION, SESSION_ID), dump(state), {"by": "langgraph"}),)))
    assert {one["id"] for one in reader.get("/sessions").json()["sessions"]} >= {"good"}
    assert reader.get("/activity").status_code == 200
    assert reader.get("/figures/sessions", params={"id": SESSION_ID}).status_code == 200


@pytest.mark.parametrize("at", TIMES)
def test_a_message_said_at_no_time_hides_no_other(
    writer: strongroom.Context, reader: httpx.Client, space: str, at: int
) -> None:
    said = [
        entry(draft({"role": "user", "content": "hello"}, COUNTING, named=False), STATE, COUNTING, n) for n in (7, at)
    ]
    document = Put(Key(space, SESSION, SESSION_ID), dump(STATE), {"by": "langgraph"})
    writer.store.commit(Commit(new_id(), (), (document, Append(Key(space, MESSAGE, SESSION_ID), tuple(said)))))
    assert [one.at.year in (1, 1970, 9999) for one in writer.sessions.get(SESSION_ID).load()] == [True, True]
    assert len(reader.get("/sessions/search", params={"q": "hello"}).json()["hits"]) == 2
    assert reader.get("/activity").status_code == 200
    assert reader.get("/memories/sources", params={"ref": f"{SESSION_ID}#1"}).status_code == 200


def test_what_is_shown_in_many_stretches_is_found_as_in_few() -> None:
    ranges = (*((2 * n, 2 * n + 1) for n in range(1000)), (3000, None))
    shown = [index for index in range(3010) if is_visible(ranges, index)]
    assert shown == [*range(0, 2000, 2), *range(3000, 3010)]


# ---- shapes that no adapter writes ----------------------------------------------------------------------------------


def checkpoints(id: str, *bodies: Any, name: str = "c") -> list[tuple[str, str, Any, str]]:
    return [("langgraph_checkpoint", id, body, name) for body in bodies]


def early(*bodies: Any) -> list[tuple[str, str, Any, str]]:
    return [("langgraph_early", "l", body, "c") for body in bodies]


AT = {"at": {"other": [0, 1]}}
LINES: dict[str, tuple[str, Any, list[tuple[str, str, Any, str]]]] = {
    "a line that is a number": ("l", 5, checkpoints("l", AT)),
    "a line of nothing": ("l", {}, checkpoints("l", AT)),
    "a line whose names are none": ("l", {"thread": 5, "ns": None}, checkpoints("l", AT)),
    "checkpoints that are none": ("l", {"thread": "t", "ns": ""}, checkpoints("l", [1], "c", 7, None, {"at": 5})),
    "a checkpoint without a name": ("l", {"thread": "t", "ns": ""}, checkpoints("l", AT, name="")),
    "names that are none": ("l", {"thread": "t", "ns": ""}, early([1], {}, 7, None)),
    "names that no key can have": ("l" * 250, {"thread": "t", "ns": ""}, checkpoints("l" * 250, AT, name="c" * 60)),
}


def put_line(writer: strongroom.Context, space: str, name: str) -> None:
    id, value, streams = LINES[name]
    tags = {"thread": digest("t"), "user_id": "ana"}
    own: list[Write] = [Put(Key(space, "langgraph_line", id), encode(value), tags)]
    own += [Append(Key(space, kind, at), (Entry(type, encode(body)),)) for kind, at, body, type in streams]
    writer.sessions.open(SESSION_ID, user_id="ana").append({"role": "user", "content": "hello"})
    writer.store.commit(Commit(new_id(), (), tuple(own)))


@pytest.mark.parametrize("name", LINES)
def test_a_session_is_deleted_whatever_is_kept_beside_it(writer: strongroom.Context, space: str, name: str) -> None:
    put_line(writer, space, name)
    writer.sessions.delete(SESSION_ID)
    assert not writer.sessions.list()


@pytest.mark.parametrize("name", LINES)
def test_a_person_is_erased_whatever_is_kept_beside_their_sessions(
    writer: strongroom.Context, admin: strongroom.Context, space: str, name: str
) -> None:
    put_line(writer, space, name)
    assert admin.erase(user_id="ana", by="ben").messages == 1
    assert not writer.sessions.list()


@pytest.mark.parametrize("value", [5, [], {}, {"app": 1, "user": 2, "id": 3}])
def test_a_session_of_adk_is_erased_whatever_is_kept_of_it(
    writer: strongroom.Context, admin: strongroom.Context, space: str, value: Any
) -> None:
    writer.sessions.open("adk/t").append({"role": "user", "content": "hello"})
    writer.store.commit(Commit(new_id(), (), (Put(Key(space, "adk_session", "adk/t"), encode(value)),)))
    assert admin.sessions.get("adk/t").erase(all=True).messages == 1
    assert not writer.sessions.list()


@pytest.mark.parametrize("kind", ["langgraph_checkpoint", "langgraph_early"])
def test_nor_does_more_than_one_read_holds_keep_anybody_from_it(
    writer: strongroom.Context, admin: strongroom.Context, space: str, kind: str
) -> None:
    put_line(writer, space, "a checkpoint without a name")
    for number in range(12):
        writer.store.commit(
            Commit(new_id(), (), (Append(Key(space, kind, "l"), (Entry(f"c{number}", encode("x" * 900_000)),)),))
        )
    assert admin.erase(user_id="ana", by="ben").messages == 1
    assert not writer.sessions.list()
