"""Whatever somebody puts into the server by hand is reported as damage, runs nothing, and hurts nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.backends.redis import RedisStore
from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.store import (
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
    Slice,
    Tail,
    Truncate,
    Write,
    new_id,
)
from tests.redis.words import DOC, LOG, append, bodies, put, value
from tests.servers.valkey import ValkeyServer

Connect = Callable[..., Any]
OTHER_LOG, OTHER_DOC = Key("space", "log", "other"), Key("space", "doc2", "other")


class Place:
    """A filled store, and the raw values it keeps."""

    def __init__(self, store: Any, client: Any, prefix: str) -> None:
        self.store, self.client = store, client
        self.space = f"{{{prefix}:space}}\x1f"
        self.heads = self.space + "heads"
        self.records = self.space + "records\x1flog\x1fone"
        chained = Entry("t", encode("chained"), weight=3, at=9, sender="s", text="x", commitment=b"c" * 32)
        store.commit(Commit(new_id(), (), (*append("a", "b").writes, Append(LOG, (chained,)), *put("v", t="1").writes)))
        store.commit(Commit(new_id(), (), (*append("other", key=OTHER_LOG).writes, Put(OTHER_DOC, encode("other")))))

    def check_the_rest(self) -> None:
        assert bodies(self.store, OTHER_LOG) == ["other"]
        assert value(self.store, OTHER_DOC) == "other"


@pytest.fixture
def place(connect: Connect, valkey_server: ValkeyServer) -> Any:
    prefix = new_id()
    with valkey_server.client() as client:
        yield Place(connect(valkey_server.address(prefix)), client, prefix)


def test_a_record_that_is_missing_is_a_gap(place: Place) -> None:
    place.client.hdel(place.records, 1)
    with pytest.raises(Damaged) as caught:
        place.store.read([Range(LOG)])
    assert caught.value.reason == "gap"
    assert place.store.read([Tail(LOG, 1)])[0].records[0].body == encode("chained")
    place.check_the_rest()


def test_a_record_of_another_place_is_not_believed(place: Place) -> None:
    place.client.hset(place.records, 1, place.client.hget(place.records, 0))
    with pytest.raises(Damaged):
        place.store.read([Range(LOG)])


def test_a_record_of_another_stream_is_not_believed(place: Place) -> None:
    place.client.hset(place.records, 0, place.client.hget(place.space + "records\x1flog\x1fother", 0))
    with pytest.raises(Damaged):
        place.store.read([Range(LOG)])


def test_a_head_of_another_stream_is_not_believed(place: Place) -> None:
    place.client.hset(place.heads, "log\x1fone", place.client.hget(place.heads, "log\x1fother"))
    with pytest.raises(Damaged):
        place.store.read([Range(LOG)])
    with pytest.raises(Damaged):
        place.store.commit(append("no"))
    place.check_the_rest()


def test_a_value_that_was_exchanged_is_not_believed(place: Place) -> None:
    place.client.hset(place.heads, "doc\x1fone\x1f", place.client.hget(place.heads, "doc2\x1fother\x1f"))
    for question in (Get(DOC), Scan("space", "doc"), Scan("space", "doc", {"t": "1"})):
        with pytest.raises(Damaged):
            place.store.read([question])
    place.check_the_rest()


@pytest.mark.parametrize("key", ["heads", "index", "records\x1flog\x1fone"])
def test_a_key_of_another_type_is_reported(place: Place, key: str) -> None:
    place.client.delete(place.space + key)
    place.client.set(place.space + key, "something else")
    with pytest.raises(Damaged):
        place.store.read([Range(LOG), Get(DOC), Scan("space", "doc")])
    with pytest.raises(Damaged):
        place.store.commit(Commit(new_id(), (), (*append(1).writes, *put(1, Key("space", "doc", "new")).writes)))
    assert place.client.get(place.space + key) == b"something else"


def test_messages_are_found_beside_one_that_is_damaged(valkey_server: ValkeyServer) -> None:
    prefix = new_id()
    with strongroom.open(valkey_server.address(prefix)) as ctx, valkey_server.client() as client:
        ctx.sessions.open("s").append([{"role": "user", "content": f"tea {n}"} for n in range(3)])
        [records] = [key for key in client.scan_iter(match=f"*{prefix}*") if key.endswith(b"records\x1fmessage\x1fs")]
        client.hset(records, 1, client.hget(records, 0))
        found = ctx.sessions.search("tea")
        assert ([hit.message.index for hit in found], found.damaged) == ([2, 0], ("s[1]",))


def test_a_list_of_receipts_that_was_damaged_stops_nobody(place: Place) -> None:
    for number in (1, 2, 16):
        place.client.hset(place.heads, f"\x1fdue\x1f{number}", "something else")
    for number in range(40):
        assert place.store.commit(append("d")).versions == (4 + number,)
    place.check_the_rest()


@pytest.mark.parametrize("key", [DOC, LOG])
def test_what_is_damaged_is_deleted_and_can_be_made_anew(place: Place, key: Key) -> None:
    place.client.hset(place.heads, f"{key.kind}\x1f{key.id}", "something else")
    place.store.commit(Commit(new_id(), (), (Delete(key), Erase(LOG, 0, 0))))
    assert place.store.read([Get(DOC) if key == DOC else Range(LOG)])[0] in (None, Slice(0, 0, ()))
    assert place.store.read([Scan("space", "doc", {"t": "1"})])[0].documents == () or key == LOG
    place.store.commit(put("new") if key == DOC else append("new"))
    assert value(place.store) == "new" if key == DOC else bodies(place.store) == ["new"]
    assert [item.key for item in place.store.unload(None, 100).items].count(key) == 1
    place.check_the_rest()


@pytest.mark.parametrize("write", [Put(DOC, encode(1)), append("no").writes[0], Truncate(LOG, 2), Erase(LOG, 0, 2)])
def test_nothing_else_is_written_to_what_is_damaged(place: Place, write: Write) -> None:
    for key in (DOC, LOG):
        place.client.hset(place.heads, f"{key.kind}\x1f{key.id}", "something else")
    refused = [
        Commit(new_id(), (), (write,)),
        Commit(new_id(), (), (Delete(write.key), write)),
        Commit(new_id(), (Expect(write.key, 1),), (Delete(write.key),)),
    ]
    for commit in refused:
        with pytest.raises(Damaged):
            place.store.commit(commit)
    assert place.client.hget(place.heads, "doc\x1fone") == b"something else"
    place.check_the_rest()


def test_an_erasure_of_no_record_leaves_what_is_damaged_as_it_is(place: Place) -> None:
    place.client.hset(place.heads, "log\x1fone", "something else")
    place.store.commit(Commit(new_id(), (), (Erase(LOG, 0, 0),)))
    assert place.client.hget(place.heads, "log\x1fone") == b"something else"


def test_a_stream_that_claims_too_much_is_a_gap(place: Place) -> None:
    place.client.delete(place.records)
    for question in (Range(LOG), Tail(LOG, 2), Tail(LOG, max_weight=100)):
        with pytest.raises(Damaged):
            place.store.read([question])
    for write in (Truncate(LOG, 2), Erase(LOG, 0, 3)):
        with pytest.raises(Damaged):
            place.store.commit(Commit(new_id(), (), (write,)))


def test_a_damaged_receipt_is_not_believed(place: Place) -> None:
    commit = append("once")
    place.store.commit(commit)
    place.client.hset(place.heads, f"\x1freceipt\x1f{commit.id}", "12|nonsense")
    with pytest.raises(Damaged):
        place.store.commit(commit)
    assert place.store.commit(append("twice")).versions == (5,)


class Trap:
    """An object that leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_nothing_that_is_stored_is_ever_run(place: Place, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    traps = [pickle.dumps(Trap(sprung), protocol) for protocol in range(6)]
    traps += [
        b"redis.call('FLUSHALL')",
        b"\x1bLua",
        b"\xc7\x05\x01hello",
        b"\xd4\x00\x00",
        b'{"lc":1,"type":"constructor"}',
    ]
    for trap in traps:
        for name, field in ((place.heads, "doc\x1fone"), (place.heads, "doc\x1fone\x1f"), (place.records, "0")):
            kept = place.client.hget(name, field)
            place.client.hset(name, field, trap)
            with pytest.raises(Damaged):
                place.store.read([Get(DOC), Range(LOG)])
            place.client.hset(name, field, kept)
    assert not sprung.exists()
    place.check_the_rest()


@settings(max_examples=100)
@given(data=st.data())
def test_no_flipped_bit_goes_unnoticed(data: st.DataObject, valkey_server: ValkeyServer) -> None:
    """Flip any bit of any value that holds content; reading it never returns something else."""
    prefix = new_id()
    with valkey_server.client() as client, RedisStore(valkey_server.address(prefix)) as store:
        place = Place(store, client, prefix)
        fields = [(place.heads, name) for name in (b"doc\x1fone", b"doc\x1fone\x1f", b"log\x1fone")]
        name, field = data.draw(st.sampled_from(fields + [(place.records, b"%d" % n) for n in range(3)]))
        raw = bytearray(client.hget(name, field))
        bit = data.draw(st.integers(0, len(raw) * 8 - 1))
        raw[bit // 8] ^= 1 << bit % 8
        client.hset(name, field, bytes(raw))
        with pytest.raises(Damaged):
            store.read([Get(DOC), Range(LOG)])
        place.check_the_rest()
