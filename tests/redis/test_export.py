"""Everything in a store can be exported to another kind of store and back, exactly as it is."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.backends.redis import RedisStore, core, export
from strongroom.codec import encode
from strongroom.copying import copy, survey
from strongroom.errors import Conflict, Damaged, InvalidInput
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Exportable,
    ExportItem,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Truncate,
    new_id,
)
from tests.redis.test_scripts import broken
from tests.redis.words import append, put
from tests.servers.valkey import ValkeyServer

SPACES = ("acme", "heads", "zeta{x}", "ünï")
LOG, EMPTY, GONE = ("log", "long"), ("log}", "heads"), ("log", "gone")
BORN, DEAD = ("doc", "born"), ("doc", "dead")


def fill(store: Any) -> None:
    for space in SPACES:
        for n in range(30):
            entry = Entry("note", encode([space, n]), n, n, "from", "to", f"text {n}", sha256(bytes([n])).digest())
            plain = Entry("plain", encode(n))
            key = Key(space, "doc", f"d{29 - n}")
            store.commit(
                Commit(
                    new_id(), (), (Append(Key(space, *LOG), (entry, plain)), Put(key, encode(n), {"odd": str(n % 2)}))
                )
            )
        last = (
            Truncate(Key(space, *LOG), 7),
            Erase(Key(space, *LOG), 10, 12),
            Append(Key(space, *EMPTY), (Entry("t", encode(1), commitment=bytes(32)),)),
            Truncate(Key(space, *EMPTY), 1),
            Append(Key(space, *GONE), (Entry("t", encode(1)),)),
            Delete(Key(space, *GONE)),
            Put(Key(space, *DEAD), encode("secret"), {"odd": "1"}, "text"),
            Delete(Key(space, *DEAD)),
            Put(Key(space, *BORN), encode(1), {"a": "b"}, "some text"),
        )
        store.commit(Commit(new_id(), (), last))


def contents(store: Any) -> list[Any]:
    found: list[Any] = []
    for space in SPACES:
        scans = [Scan(space, "doc", limit=100), Scan(space, "doc", {"odd": "1"}, reverse=True, limit=100)]
        pages = [page.documents for page in store.read(scans)]
        streams = store.read([Range(Key(space, *name)) for name in (LOG, EMPTY, GONE)])
        found += [*pages, *streams, store.read([Get(Key(space, *BORN)), Get(Key(space, *DEAD))])]
    return found


@pytest.fixture
def reference() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


@pytest.fixture
def store(redis: str) -> Iterator[RedisStore]:
    with RedisStore(redis) as store:
        yield store


def test_what_is_copied_in_reads_as_before(reference: MemoryStore, store: RedisStore) -> None:
    assert isinstance(store, Exportable)
    assert copy(reference, store).fingerprint == survey(reference).fingerprint
    assert contents(store) == contents(reference)


def test_what_is_copied_out_reads_as_before(reference: MemoryStore, store: RedisStore) -> None:
    fill(store)
    back = MemoryStore()
    copy(store, back)
    assert contents(back) == contents(reference)


def test_items_are_those_of_the_reference(reference: MemoryStore, store: RedisStore) -> None:
    """Tombstones, chains and gaps included."""
    fill(store)

    def by_key(items: tuple[ExportItem, ...]) -> list[ExportItem]:
        return sorted(items, key=lambda item: item.key)

    assert by_key(store.unload(None, 10**6).items) == by_key(reference.unload(None, 10**6).items)


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_small_pages_hold_the_same(reference: MemoryStore, store: RedisStore, limit: int) -> None:
    fill(store)
    target, cursor = MemoryStore(), None
    while True:
        exported = store.unload(cursor, limit)
        assert sum(max(len(item.records), 1) for item in exported.items) <= limit
        target.load(exported.items)
        cursor = exported.next
        if cursor is None:
            break
    assert contents(target) == contents(reference)


def test_a_broken_move_is_resumed_by_another_store(store: RedisStore, reference: MemoryStore, redis: str) -> None:
    fill(store)
    target = MemoryStore()
    first = store.unload(None, 40)
    target.load(first.items)
    with RedisStore(redis) as another:
        target.load(another.unload(first.next, 10**6).items)
    assert contents(target) == contents(reference)


def test_loading_twice_changes_nothing(reference: MemoryStore, store: RedisStore) -> None:
    for _ in range(2):
        store.load(reference.unload(None, 10**6).items)
    assert contents(store) == contents(reference)


def test_counting_goes_on_after_a_copy(reference: MemoryStore, store: RedisStore) -> None:
    copy(reference, store)
    for space in SPACES:
        dead, gone, log = (Key(space, *name) for name in (DEAD, GONE, LOG))
        commit = Commit(
            new_id(),
            (Expect(log, 60),),
            (Put(dead, encode(1)), *append(1, key=gone).writes, *append(1, key=log).writes),
        )
        assert store.commit(commit).versions == reference.commit(commit).versions == (3, 2, 61)
        with pytest.raises(Conflict):
            store.commit(Commit(new_id(), (Expect(log, 60),), append(1, key=log).writes))
    assert contents(store) == contents(reference)


def test_large_loads_are_cut(reference: MemoryStore, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MAX_LOAD", 7)
    monkeypatch.setattr(export, "MAX_LOAD_BYTES", 60)
    monkeypatch.setattr(export, "MAX_ITEMS", 5)
    copy(reference, store)
    assert contents(store) == contents(reference)


def test_what_a_failed_script_left_behind_is_not_carried(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(core, "COMMIT", broken("before"))
        with pytest.raises(Damaged):
            store.commit(put("never"))
    store.commit(append("before it"))
    store.commit(put("after all"))
    assert [item.key.kind for item in store.unload(None, 100).items] == ["log", "doc"]


def test_stores_on_one_server_are_moved_apart(valkey_server: ValkeyServer) -> None:
    with RedisStore(valkey_server.address()) as one, RedisStore(valkey_server.address()) as other:
        one.commit(put("one"))
        other.commit(put("other"))
        assert [item.value for item in one.unload(None, 100).items] == [encode("one")]


def test_a_made_up_cursor_is_refused(store: RedisStore) -> None:
    for cursor in ("", "nonsense", "1:x:space"):
        with pytest.raises(InvalidInput):
            store.unload(cursor, 1)
