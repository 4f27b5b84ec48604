"""Threads that have to leave: archived first, least recently used first, readable afterwards."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.archives import FolderArchive, pack_thread, read_archive, unpack_thread
from strongroom.errors import Damaged, StrongroomError


@pytest.fixture
def ctx(address: str) -> Any:
    with strongroom.open(address) as opened:
        yield opened


def test_the_least_recently_used_thread_is_archived_before_it_leaves(ctx: Any, tmp_path: Path) -> None:
    threads = ctx.threads.limited(max_threads=2, archive=FolderArchive(tmp_path / "archive"))
    threads.append_many("first", ["a", {"b": 1}], from_id="x", to_id="y")
    threads.append("second", "c", from_id="x")
    threads.append("first", "d", from_id="x")
    threads.append("third", "e", from_id="x")
    assert {info.thread_id for info in threads.list()} == {"first", "third"}
    [file] = (tmp_path / "archive").iterdir()
    name, [slot] = read_archive(file)
    assert (name, slot.index, slot.payload, slot.from_id) == ("second", 0, "c", "x")


def test_a_thread_that_comes_back_from_the_archive_goes_on_counting(ctx: Any, tmp_path: Path) -> None:
    threads = ctx.threads.limited(max_threads=1, archive=FolderArchive(tmp_path))
    threads.append_many("first", [1, 2, 3], from_id="x")
    threads.append("second", 4, from_id="x")
    assert threads.append("first", 5, from_id="x").index == 3


def test_a_thread_is_still_there_if_archiving_fails(ctx: Any) -> None:
    def broken(thread_id: str, pack: bytes) -> None:
        raise OSError("disk full")

    threads = ctx.threads.limited(max_threads=1, archive=broken)
    threads.append("first", 1, from_id="x")
    with pytest.raises(OSError, match="disk full"):
        threads.append("second", 2, from_id="x")
    assert [info.thread_id for info in threads.list()] == ["first"]


def test_a_thread_that_is_written_to_while_it_is_archived_stays(ctx: Any) -> None:
    def meddle(thread_id: str, pack: bytes) -> None:
        if len(ctx.threads.get(thread_id)) == 1:
            ctx.threads.append(thread_id, "meanwhile", from_id="x")

    ctx.threads.append("t", "x", from_id="x")
    assert ctx.threads.limited(archive=meddle).sweep(ttl_seconds=0) == ()
    assert len(ctx.threads.get("t")) == 2


def test_expiry_archives_first(ctx: Any, tmp_path: Path) -> None:
    threads = ctx.threads.limited(ttl_seconds=1, archive=FolderArchive(tmp_path / "archive"))
    threads.append("t", {"kept": True}, from_id="x")
    assert threads.sweep(ttl_seconds=0) == ("t",)
    [file] = (tmp_path / "archive").iterdir()
    assert read_archive(file)[1][0].payload == {"kept": True}


def test_the_same_slots_make_the_same_pack(ctx: Any) -> None:
    slots = ctx.threads.append_many("t", ["a", {"b": [1]}], from_id="x", to_id="y")
    pack = pack_thread("t", slots)
    assert pack == pack_thread("t", list(ctx.threads.get("t")))
    assert unpack_thread(pack) == ("t", list(slots))


def _pack() -> bytes:
    with strongroom.open("memory://") as ctx:
        return pack_thread("t", ctx.threads.append_many("t", ["a", "b"], from_id="x"))


@given(place=st.integers(0, 400), flip=st.integers(1, 255))
def test_a_damaged_pack_is_refused_or_says_the_same(place: int, flip: int) -> None:
    pack = bytearray(_pack())
    pack[place % len(pack)] ^= flip
    try:
        _, slots = unpack_thread(bytes(pack))
    except StrongroomError:
        return
    assert [slot.payload for slot in slots] == ["a", "b"]


def test_a_pack_whose_sizes_lie_is_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("manifest.json", '{"format":"strongroom-thread/1","thread_id":"t","size":3,"sha256":""}')
        archive.writestr("thread.jsonl", b"x" * 1_000_000)
    with pytest.raises(Damaged):
        unpack_thread(target.getvalue())
