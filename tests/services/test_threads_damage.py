"""Threads with something wrong in them: hostile bytes, damaged records, types that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import strongroom
from redis import Redis
from strongroom.codec import encode
from strongroom.errors import Damaged, InvalidInput, NotFound
from strongroom.services.threads.payloads import Inert
from strongroom.store import Append, Commit, Entry, Erase, Key

HOSTILE = b"cos\nsystem\n(S'touch owned'\ntR."


class Text(msgspec.Struct):
    message: str


def put(ctx: Any, type: str, body: Any) -> None:
    """Place a record in a thread directly, as somebody with access to the store could."""
    key = Key(ctx.space, "thread", "t")
    ctx.store.commit(Commit(f"direct-{len(ctx.threads.get('t'))}", (), (Append(key, (Entry(type, encode(body)),)),)))


@pytest.fixture
def ctx(address: str) -> Any:
    with strongroom.open(address) as opened:
        yield opened


@pytest.mark.parametrize("body", [{}, [], 7, None, "x", [1, 2], {"payload": 1}], ids=str)
def test_a_record_of_another_shape_is_reported_and_the_rest_stays_readable(ctx: Any, body: Any) -> None:
    ctx.threads.append("t", "before", from_id="a")
    put(ctx, "Text", body)
    ctx.threads.append("t", "after", from_id="a")
    before, bad, after = list(ctx.threads.get("t"))
    assert (before.payload, after.payload) == ("before", "after")
    for part in ("payload", "data", "metadata"):
        with pytest.raises(Damaged):
            getattr(bad, part)


def test_a_hostile_type_name_is_only_a_name(ctx: Any) -> None:
    ctx.threads.append("t", "before", from_id="a")
    put(ctx, "os.system", [{"command": "touch owned", "__class__": "os.system", "__reduce__": ["os.system"]}])
    payload = ctx.threads.get("t")[1].payload
    assert (type(payload), payload.type) == (Inert, "os.system")
    assert payload.data["command"] == "touch owned"


def test_hostile_bytes_in_the_file_execute_nothing_and_the_rest_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        ctx.threads.append_many("t", ["before", "victim", "after"], from_id="a")
    con = apsw.Connection(str(path))
    con.execute("UPDATE record SET body = ? WHERE body = ?", (HOSTILE, b'["victim"]'))
    assert con.changes() == 1
    con.close()
    with strongroom.open(path) as ctx:
        first, bad, last = list(ctx.threads.get("t"))
        assert (first.payload, last.payload) == ("before", "after")
        with pytest.raises(Damaged):
            _ = bad.payload
    assert not (tmp_path / "owned").exists() and not Path("owned").exists()


def test_hostile_bytes_on_a_redis_server_execute_nothing_and_the_rest_stays_readable(
    redis: str, redis_url: str
) -> None:
    victim = "v" * (len(HOSTILE) - len('[""]'))  # as long as what takes its place, so that only the bytes are wrong
    with strongroom.open(redis) as ctx:
        ctx.threads.append_many("t", ["before", victim, "after"], from_id="a")
    with Redis.from_url(redis_url) as client:
        changed = 0
        for key in client.scan_iter(match=f"{{{redis.partition('prefix=')[2]}:*", _type="hash"):
            for field, value in client.hgetall(key).items():
                hostile = value.replace(encode([victim]), HOSTILE)
                if hostile != value:
                    client.hset(key, field, hostile)
                    changed += 1
        assert changed == 1
    with strongroom.open(redis) as ctx:
        first, bad, last = list(ctx.threads.get("t"))
        assert (first.payload, last.payload) == ("before", "after")
        with pytest.raises(Damaged):
            _ = bad.payload
    assert not Path("owned").exists()


def test_what_does_not_fit_the_registered_type_is_said_and_still_readable_as_data(ctx: Any) -> None:
    ctx.threads.register(Text)
    ctx.threads.append("t", "before", from_id="a")
    put(ctx, "Text", [{"message": 7}])
    slot = ctx.threads.get("t")[1]
    with pytest.raises(InvalidInput):
        _ = slot.payload
    assert slot.data == {"message": 7}


def test_an_erased_slot_says_so_and_keeps_its_place(ctx: Any) -> None:
    ctx.threads.append_many("t", ["secret", "kept"], from_id="a")
    ctx.store.commit(Commit("erase", (), (Erase(Key(ctx.space, "thread", "t"), 0, 1),)))
    erased, kept = list(ctx.threads.get("t"))
    with pytest.raises(NotFound):
        _ = erased.payload
    assert (erased.index, kept.index, kept.payload) == (0, 1, "kept")


@pytest.mark.parametrize(("at", "year"), [(2**60, 9999), (-(2**60), 1)])
def test_a_time_of_no_calendar_is_shown_as_the_nearest_there_is(ctx: Any, at: int, year: int) -> None:
    key = Key(ctx.space, "thread", "t")
    entry = Entry("str", encode("x"), at=at, sender="a", receiver="b")
    ctx.store.commit(Commit("direct", (), (Append(key, (entry,)),)))
    assert ctx.threads.get("t")[0].at.year == year
