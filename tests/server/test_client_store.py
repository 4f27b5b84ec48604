"""The store behind a server: what travels, what a repeat is told, and what a cancelled caller waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from strongroom.client.store import AsyncHttpStore, HttpStore
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, InvalidInput, Unavailable
from strongroom.protocol import wire
from strongroom.services.memories import keys as memory_keys
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Key, Put, Receipt, ReceiptOf, new_id
from tests.server.line import Line
from tests.server.serving import PATIENCE_SECONDS, Served, served

LOG = Key("default", "log", "a")


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def line(server: Served) -> Iterator[Line]:
    made = Line(server.url)
    yield made
    made.close()


def append(id: str, key: Key = LOG) -> Commit:
    entry = Entry("note", encode(id))
    return Commit(id, (), (Append(key, (entry,)),), b"what was asked", encode({"said": id}), True)


def test_a_commit_travels_whole() -> None:
    commit = replace(append("one"), expects=(Expect(LOG, EXISTS), Expect(LOG, 3)))
    assert wire.load_commit(wire.dump_commit(commit)) == commit


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "text"},
        {"digest": b"d" * 33},
        {"answer": b"{ }"},
        {"answer": b"not JSON"},
        {"answer": {"a": 1}},
        {"keep": 1},
        {"more": 1},
        {"id": 7},
    ],
    ids=str,
)
def test_what_is_no_commit_is_refused(changed: dict[str, object]) -> None:
    told: dict[str, object] = {
        "id": "c",
        "expects": [],
        "writes": [["delete", {"key": {"space": "s", "kind": "k", "id": "i"}}]],
    }
    told |= {"digest": b"", "answer": None, "keep": False}
    assert wire.load_commit(wire.dump(told)).id == "c"
    with pytest.raises(InvalidInput):
        wire.load_commit(wire.dump(told | changed))


def test_a_repeat_gets_the_first_receipt_and_other_content_is_refused(server: Served) -> None:
    store, commit = HttpStore(server.url), append("one")
    assert store.commit(commit) == Receipt("one", (1,), commit.digest, commit.answer)
    first = Receipt("one", (1,), commit.digest, commit.answer, repeated=True)
    assert store.commit(commit) == first
    assert store.read([ReceiptOf("default", "one"), ReceiptOf("default", "two")]) == [first, None]
    with pytest.raises(InvalidInput) as refused:
        store.commit(replace(commit, digest=b"something else"))
    assert refused.value.path == "commit_id"
    store.close()


def test_a_repeat_takes_the_right_that_the_first_took(server: Served) -> None:
    memory = Key("default", memory_keys.MEMORY, "m")
    commit = Commit("one", (), (Put(memory, encode(1)),))
    reviewer = HttpStore(server.url, key=server.key("default", role="admin"))
    reviewer.commit(commit)
    writer = HttpStore(server.url, key=server.key("default", role="writer"))
    with pytest.raises(Unavailable) as refused:
        writer.commit(commit)
    assert refused.value.reason == "permission"
    reviewer.close()
    writer.close()


def test_a_receipt_of_another_space_is_not_shown(server: Served) -> None:
    store = HttpStore(server.url, key=server.key("mine"))
    with pytest.raises(Unavailable) as refused:
        store.read([ReceiptOf("theirs", "one")])
    assert refused.value.reason == "permission"
    store.close()


def test_a_commit_that_is_never_answered_names_its_id(line: Line) -> None:
    store, commit = HttpStore(line.url, retry_seconds=0.3), append("one")
    line.swallow = 1000
    with pytest.raises(CommitUnknown) as unknown:
        store.commit(commit)
    assert unknown.value.commit_id == "one"
    line.swallow = 0
    assert store.commit(commit).versions == (1,)
    store.close()


@pytest.mark.parametrize("times", [1, 2, 5])
def test_however_often_a_caller_is_cancelled_it_waits_for_its_commit(line: Line, times: int) -> None:
    async def scene() -> None:
        store, commit = await AsyncHttpStore.open(line.url), append(new_id())
        line.hold = True
        committing = asyncio.create_task(store.commit(commit))
        assert await asyncio.to_thread(line.held.wait, PATIENCE_SECONDS)
        for _ in range(times):
            committing.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        assert not committing.done()
        line.release.set()
        with pytest.raises(asyncio.CancelledError):
            await committing
        assert await store.read([ReceiptOf("default", commit.id)]) != [None]
        await store.close()

    asyncio.run(scene())
