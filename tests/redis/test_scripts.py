"""The scripts themselves: their hash, their atomicity, their keys, and what the server may do to them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import redis
from strongroom.backends.redis import RedisStore, core, encoding, scripts
from strongroom.backends.redis.layout import Layout
from strongroom.backends.redis.scripts import COMMIT, Script
from strongroom.codec import encode
from strongroom.errors import Conflict, Damaged, InvalidInput
from strongroom.store import (
    EXISTS,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Truncate,
    ask,
    new_id,
)
from tests.redis.proxy import Proxy
from tests.redis.words import DOC, LOG, append, bodies, put, value
from tests.servers.valkey import ValkeyServer

Connect = Callable[..., Any]
HASH = (Path(scripts.__file__).parent / "sha256.lua").read_text() + "\nreturn sha256(ARGV[1])"
COMMIT_POINT = "redis.call('HSET', HEADS, unpack(heads))"

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.isprintable)


@given(st.binary(min_size=64, max_size=64))
def test_the_hash_in_lua_is_sha256(valkey_server: ValkeyServer, block: bytes) -> None:
    with valkey_server.client() as client:
        assert client.eval(HASH, 0, block) == sha256(block).digest()


def test_a_long_chain_is_the_same_as_in_python(connect: Connect, valkey_server: ValkeyServer) -> None:
    store = connect(valkey_server.address())
    commitments = [sha256(bytes([n])).digest() for n in range(40)]
    entries = tuple(Entry("t", encode(n), commitment=each) for n, each in enumerate(commitments))
    store.commit(Commit(new_id(), (), (Append(LOG, entries[:25]), Append(LOG, entries[25:]))))
    chain, wanted = bytes(32), []
    for each in commitments:
        chain = sha256(chain + each).digest()
        wanted.append(chain)
    assert [record.chain for record in store.read([Range(LOG)])[0].records] == wanted


def test_scripts_that_were_flushed_are_sent_again(connect: Connect, valkey_server: ValkeyServer) -> None:
    store = connect(valkey_server.address())
    with valkey_server.client() as client:
        for n in range(5):
            client.script_flush()
            store.commit(append(n))
            client.script_flush()
            assert bodies(store)[-1] == n


def broken(where: str) -> Script:
    """Return the commit script with an error just before a line, or just after it."""
    before, point, after = COMMIT.text.decode().partition(COMMIT_POINT)
    line, _, rest = after.partition("\n")
    boom = "error('boom')\n"
    return Script(f"{before}{boom}{point}{after}" if where == "before" else f"{before}{point}{line}\n{boom}{rest}")


def _fill_and_fail(store: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Make one commit that works and one, of every kind of write, whose script fails half-way."""
    store.commit(Commit(new_id(), (), (*append(1, 2, 3).writes, *put("old", a="1").writes)))
    with monkeypatch.context() as patch:
        patch.setattr(core, "COMMIT", broken(where))
        with pytest.raises(Damaged):
            store.commit(
                Commit(
                    new_id(),
                    (),
                    (
                        *append(4).writes,
                        Truncate(LOG, 1),
                        Erase(LOG, 1, 2),
                        *append("new", key=Key("space", "log", "two")).writes,
                        Put(DOC, encode("new"), {"a": "2"}),
                        Put(Key("space", "doc", "two"), encode("new")),
                    ),
                )
            )


def _seen(store: Any) -> list[Any]:
    documents = store.read([Scan("space", "doc"), Scan("space", "doc", {"a": "2"})])
    return [bodies(store), bodies(store, Key("space", "log", "two")), value(store), documents]


def test_a_script_that_fails_half_way_leaves_nothing_visible(
    connect: Connect, valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, untouched = connect(valkey_server.address()), connect(valkey_server.address())
    _fill_and_fail(store, monkeypatch, "before")
    untouched.commit(Commit(new_id(), (), (*append(1, 2, 3).writes, *put("old", a="1").writes)))
    assert _seen(store) == _seen(untouched)


def test_what_a_failed_script_left_behind_is_overwritten(
    connect: Connect, valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = connect(valkey_server.address())
    _fill_and_fail(store, monkeypatch, "before")
    assert store.commit(append("four")).versions == (4,)
    assert bodies(store) == [1, 2, 3, "four"]
    store.commit(put("again", Key("space", "doc", "two")))
    assert [document.key.id for document in store.read([Scan("space", "doc")])[0].documents] == ["one", "two"]


def test_a_script_that_fails_after_the_commit_point_is_noticed(
    connect: Connect, valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the test above looks at the right things."""
    store = connect(valkey_server.address())
    _fill_and_fail(store, monkeypatch, "after")
    assert value(store) == "new"


@settings(max_examples=30)
@given(names, st.lists(st.tuples(names, names), min_size=1, max_size=5))
def test_all_keys_of_a_commit_are_in_one_slot(space: str, things: list[tuple[str, str]]) -> None:
    keys = [Key(space, kind, id) for kind, id in things]
    writes = tuple(Put(key, encode(1), {"a": "b"}) for key in keys) + tuple(Delete(key) for key in keys)
    called = encoding.encode_commit(Layout("prefix"), Commit("id", (Expect(keys[0], 0),), writes), 60)
    asked = encoding.encode_questions(Layout("prefix"), [Get(keys[0]), Range(keys[-1]), Scan(space, keys[0].kind)])
    slots = {redis.crc.key_slot(key) for key in called.keys + asked.keys}
    assert len(slots) == 1


@settings(max_examples=30)
@given(names, names, names, names)
def test_different_things_have_different_keys(space: str, kind: str, id: str, other: str) -> None:
    layout = Layout("prefix")
    keys = {
        Key(space, kind, id),
        Key(space, kind, id + other),
        Key(space, kind + other, id),
        Key(space + other, kind, id),
    }
    assert len({layout.records(key) for key in keys}) == len(keys)


def test_a_commit_that_would_stop_the_server_is_refused_unsent(connect: Connect, valkey_server: ValkeyServer) -> None:
    store = connect(valkey_server.address())
    too_many_keys = tuple(Put(Key("space", "doc", str(n)), encode(n)) for n in range(encoding.MAX_KEYS + 1))
    with pytest.raises(InvalidInput, match="nothing changed"):
        store.commit(Commit(new_id(), (), too_many_keys))
    chained = Entry("t", encode(1), commitment=bytes(32))
    too_much_work = (chained,) * (encoding.MAX_COST // encoding.CHAINED_COST)
    with pytest.raises(InvalidInput, match="nothing changed"):
        store.commit(Commit(new_id(), (), (Append(LOG, too_much_work),)))
    assert store.read([Scan("space", "doc"), Range(LOG)]) == [
        *store.read([Scan("space", "none")]),
        store.read([Range(DOC)])[0],
    ]


def test_what_one_commit_erases_is_bounded_together(valkey_server: ValkeyServer) -> None:
    with RedisStore(valkey_server.address()) as store:
        for _ in range(3):
            store.commit(append(*range(40_000)))
        halves = Erase(LOG, 0, 60_000), Erase(LOG, 60_000, 120_000)
        with pytest.raises(InvalidInput, match="one commit can erase 100000 records at most; nothing changed"):
            store.commit(Commit(new_id(), (), halves))
        first, last = ask(store, Range(LOG, 0, 1), Range(LOG, 119_999))
        assert first.records[0].body is not None and last.records[0].body is not None
        for half in halves:
            store.commit(Commit(new_id(), (), (half,)))


def test_the_largest_commit_is_made(valkey_server: ValkeyServer) -> None:
    with RedisStore(valkey_server.address()) as store:
        keys = [Key("space", "doc", str(n)) for n in range(encoding.MAX_KEYS)]
        store.commit(
            Commit(new_id(), tuple(Expect(key, 0) for key in keys), tuple(Put(key, encode(1)) for key in keys))
        )
        store.commit(append(*range(5000)))
        store.commit(Commit(new_id(), (), (Erase(LOG, 1000, 4000), Truncate(LOG, 2000))))
        log, page = ask(store, Range(LOG), Scan("space", "doc", limit=encoding.MAX_KEYS))
    assert [record.body is None for record in log.records] == [True] * 2000 + [False] * 1000
    assert len(page.documents) == encoding.MAX_KEYS


def test_old_receipts_are_forgotten_and_young_ones_are_not(valkey_server: ValkeyServer) -> None:
    prefix = new_id()
    address = valkey_server.address(prefix)
    heads = Layout(prefix).heads("space")
    with RedisStore(address) as store, valkey_server.client() as client:
        old, young, newest = ([append(n) for n in range(16)] for _ in range(3))
        for commit in (*old, *young):
            store.commit(commit)
        day_old = int(client.time()[0]) - 26 * 3600
        client.hset(heads, "\x1fdue\x1f16", f"{day_old} {old[-1].id}")
        for commit in newest:
            store.commit(commit)
        left = client.hkeys(heads)
        receipts = {field[len("\x1freceipt\x1f") :].decode() for field in left if field.startswith(b"\x1freceipt")}
        due = [field for field in left if field.startswith(b"\x1fdue")]
    assert receipts == {commit.id for commit in (*young, *newest)}
    assert len(due) == len(receipts)


def test_a_receipt_that_was_written_again_is_as_young_as_the_second_one(
    connect: Connect, valkey_server: ValkeyServer, proxy: Proxy
) -> None:
    """A voided id that was used again has two numbers; forgetting the first must not take the second with it."""
    prefix = new_id()
    store = connect(valkey_server.address(prefix, proxy.port))
    heads = Layout(prefix).heads("space")
    commit = Commit(new_id(), (Expect(DOC, EXISTS),), append("again").writes)
    store.commit(append("before"))
    proxy.cut_replies = 1
    with pytest.raises(Conflict):
        store.commit(commit)
    for n in range(14):
        store.commit(append(n))
    store.commit(put("now it exists"))
    receipt = store.commit(commit)
    with valkey_server.client() as client:
        day_old = int(client.time()[0]) - 26 * 3600
        client.hset(heads, "\x1fdue\x1f16", f"{day_old} anything")
        for n in range(16):
            store.commit(append(n))
        assert not client.hexists(heads, "\x1fdue\x1f1")
    assert store.commit(commit) == replace(receipt, repeated=True)
