"""What is remembered of a commit, for how long, and what the store counts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strongroom.backends.redis import RedisStore, core
from strongroom.backends.redis.layout import Layout, receipt_field
from strongroom.backends.redis.scripts import COMMIT, Script
from strongroom.codec import encode
from strongroom.elapsed import elapsed
from strongroom.errors import Conflict, Damaged
from strongroom.store import EXISTS, Commit, Expect, ReceiptOf, new_id
from tests.redis.proxy import Proxy
from tests.redis.words import DOC, append, bodies
from tests.servers.valkey import ValkeyServer

Connect = Callable[..., Any]
DAY = 86400


def chosen(id: str) -> Commit:
    return replace(append(id, id=id), digest=b"what was asked", answer=encode({"said": id}), keep=True)


class Place:
    """A space on the server, seen from behind the store's back."""

    def __init__(self, server: ValkeyServer) -> None:
        self.prefix = new_id()
        self.address = server.address(self.prefix)
        self.client = server.client()
        self.heads, self.index = Layout(self.prefix).heads("space"), Layout(self.prefix).index("space")

    def now(self) -> int:
        return int(self.client.time()[0])

    def ends(self) -> dict[str, int]:
        """Return when the receipts under ids that callers chose end."""
        found = self.client.zrangebylex(self.index, "[\x1f\x1f", "(\x1f\x1f\xff")
        return {id.decode(): int(end) for end, id in (member[2:].split(b"\x1f") for member in found)}

    def has(self, id: str) -> bool:
        return bool(self.client.hexists(self.heads, receipt_field(id)))


@pytest.fixture
def place(valkey_server: ValkeyServer) -> Iterator[Place]:
    place = Place(valkey_server)
    yield place
    place.client.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let time pass on the server, as far as the commit script can tell."""

    def pass_by(seconds: int) -> None:
        clock = f"tostring(redis.call('TIME')[1] + {seconds})"
        text = COMMIT.text.decode()
        assert text.count("redis.call('TIME')[1]") == 2
        monkeypatch.setattr(core, "COMMIT", Script(text.replace("redis.call('TIME')[1]", clock)))

    return pass_by


@pytest.mark.parametrize(("options", "days"), [({}, 30), ({"repeats": "90d"}, 90), ({"repeats": "12h"}, 0.5)])
def test_a_receipt_under_a_chosen_id_is_kept_as_long_as_the_store_was_told(
    connect: Connect, place: Place, options: dict[str, Any], days: float
) -> None:
    connect(place.address, **options).commit(chosen("one"))
    assert 0 <= place.now() + days * DAY - place.ends()["one"] < 600


def test_for_ever_is_for_ever(connect: Connect, place: Place, later: Callable[[int], None]) -> None:
    store = connect(place.address, repeats="forever")
    store.commit(chosen("one"))
    assert place.ends() == {}
    later(10**9)
    store.commit(chosen("two"))
    assert place.has("one")


def test_what_has_ended_is_swept_and_nothing_else(connect: Connect, place: Place, later: Callable[[int], None]) -> None:
    connect(place.address, repeats="20d").commit(chosen("short"))
    store = connect(place.address)
    store.commit(chosen("long"))
    ours = append("ours")
    store.commit(ours)
    later(29 * DAY)
    store.commit(chosen("new"))
    assert [place.has(id) for id in ("short", "long", "new", ours.id)] == [False, True, True, True]
    assert place.ends().keys() == {"long", "new"}


def test_commits_under_our_own_ids_sweep_too(connect: Connect, place: Place, later: Callable[[int], None]) -> None:
    store = connect(place.address)
    for n in range(40):
        store.commit(chosen(f"id-{n}"))
    later(31 * DAY)
    for n in range(3 * 16):
        store.commit(append(n))
    assert not any(place.has(f"id-{n}") for n in range(40))
    assert place.ends() == {}


def test_an_entry_of_a_script_that_failed_takes_no_receipt_with_it(connect: Connect, place: Place) -> None:
    store = connect(place.address)
    store.commit(chosen("one"))
    for id in ("one", "never made"):
        place.client.zadd(place.index, {f"\x1f\x1f{place.now() - 1:012d}\x1f{id}": 0})
    store.commit(chosen("two"))
    assert place.has("one")
    assert place.ends().keys() == {"one", "two"}
    assert store.commit(chosen("one")).repeated


def test_a_move_does_not_take_the_list_of_receipts_for_things(connect: Connect, place: Place) -> None:
    store = connect(place.address)
    store.commit(chosen("one"))
    assert [item.key.id for item in store.unload(None, 100).items] == ["one"]


def test_what_voids_a_lost_copy_is_no_receipt(connect: Connect, valkey_server: ValkeyServer, proxy: Proxy) -> None:
    store = connect(valkey_server.address(port=proxy.port))
    commit = replace(chosen("one"), expects=(Expect(DOC, EXISTS),))
    proxy.cut_replies = 1
    with pytest.raises(Conflict):
        store.commit(commit)
    assert store.read([ReceiptOf("space", "one")]) == [None]


def test_a_digest_that_looks_like_a_void_is_not_taken_for_one(connect: Connect, place: Place) -> None:
    store = connect(place.address)
    commit = replace(append("once"), digest=b"1||void,a,9|")
    store.commit(commit)
    assert store.commit(commit).repeated
    assert bodies(store) == ["once"]


# ---- what the store counts on ---------------------------------------------------------------------------------------


def test_a_repeated_receipt_is_not_counted_on(connect: Connect, place: Place) -> None:
    commit = chosen("one")
    connect(place.address).commit(commit)
    other = connect(place.address)
    other.commit(commit)
    place.client.hdel(place.heads, receipt_field("one"))  # its time was over
    assert other.commit(append("more")).versions == (2,)


@pytest.mark.parametrize(("minutes", "counted_on"), [(50, True), (59, False)])
def test_a_receipt_is_counted_on_as_long_as_it_is_kept_though_the_machine_was_suspended(
    connect: Connect, place: Place, monkeypatch: pytest.MonkeyPatch, minutes: int, counted_on: bool
) -> None:
    store = connect(place.address, repeats="1h")
    store.commit(chosen("one"))
    place.client.hdel(place.heads, receipt_field("one"))
    # Not `time.monotonic`, which stands still meanwhile.
    monkeypatch.setattr(core, "elapsed", lambda: elapsed() + minutes * 60)
    if counted_on:
        with pytest.raises(Damaged) as caught:
            store.commit(append("more"))
        assert caught.value.reason == "regressed"
    else:
        assert store.commit(append("more")).versions == (2,)


# ---- damage ---------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(data=st.data())
def test_no_flipped_bit_of_a_receipt_goes_unnoticed(data: st.DataObject, valkey_server: ValkeyServer) -> None:
    place = Place(valkey_server)
    with place.client, RedisStore(place.address) as store:
        store.commit(chosen("one"))
        raw = bytearray(place.client.hget(place.heads, receipt_field("one")))
        bit = data.draw(st.integers(0, len(raw) * 8 - 1))
        raw[bit // 8] ^= 1 << bit % 8
        place.client.hset(place.heads, receipt_field("one"), bytes(raw))
        with pytest.raises(Damaged):
            store.read([ReceiptOf("space", "one")])
        with pytest.raises(Damaged):
            store.commit(chosen("one"))
