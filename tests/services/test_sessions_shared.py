"""Sessions that several spaces, threads and processes use at once, and what they cost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.bridge import can_search
from strongroom.store import Key, Range, ask
from tests.services.test_sessions import HELLO, said


def test_a_space_sees_only_its_own_sessions(address: str) -> None:
    if address == "memory://":
        pytest.skip("two contexts do not share a memory store")
    with strongroom.open(address, space="a") as a, strongroom.open(address, space="b") as b:
        a.sessions.open("s").append(said("secret word"))
        assert list(b.sessions.list()) == []
        assert b.sessions.open("s").load() == []
        if can_search(b.store):
            assert b.sessions.search("secret word") == []


async def test_fifty_tasks_append_fifty_messages(ctx: Any) -> None:
    session = await ctx.sessions.open("s")

    async def write(number: int) -> None:
        await session.append([{**HELLO, "content": str(number), "id": f"m{number}"}])

    await asyncio.gather(*(write(number) for number in range(50)))
    loaded = await session.load()
    assert sorted(int(m["content"]) for m in loaded) == list(range(50))
    for message in loaded:
        assert (await session.get(message.id)).index == message.index


def test_threads_with_a_handle_each_lose_nothing(address: str) -> None:
    with strongroom.open(address) as ctx:

        def write(name: str) -> None:
            session = ctx.sessions.open("s")
            for number in range(25):
                session.append({"role": "user", "content": f"{name}{number}"})

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [message["content"] for message in ctx.sessions.open("s").load()]
    for name in "abcd":
        assert [text for text in found if text.startswith(name)] == [f"{name}{number}" for number in range(25)]
    assert len(found) == 100


WRITER = """
import sys, strongroom
with strongroom.open(sys.argv[1]) as ctx:
    session = ctx.sessions.open("s")
    for number in range(100):
        session.append({"role": "user", "content": f"{sys.argv[2]}{number}", "id": f"{sys.argv[2]}-{number}"})
"""


def test_two_processes_append_two_hundred_messages(address: str) -> None:
    if address == "memory://":
        pytest.skip("a memory store lives in one process")
    strongroom.open(address).close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, address, name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with strongroom.open(address) as ctx:
        found = [message["content"] for message in ctx.sessions.open("s").load()]
    for name in "ab":
        assert [text for text in found if text.startswith(name)] == [f"{name}{number}" for number in range(100)]
    assert len(found) == 200


def test_the_text_of_a_message_is_stored_once(tmp_path: Path) -> None:
    """Not in the body too, so a gigabyte of conversation is not two."""
    with strongroom.open(tmp_path / "a.db") as ctx:
        text = "needle in a haystack"
        for content in (text, [{"type": "text", "text": text}]):
            session = ctx.sessions.open()
            session.append({"role": "user", "content": content})
            [record] = ask(ctx.store, Range(Key("default", "message", session.id))).records
            assert record.text is not None and text in record.text
            assert record.body is not None and text.encode() not in bytes(record.body)


def test_memory_does_not_grow_with_the_session(tmp_path: Path) -> None:
    """A slice of benchmarks/search.py, where it is a million messages."""
    with strongroom.open(tmp_path / "a.db") as ctx:
        session = ctx.sessions.open("s")
        for start in range(0, 6000, 500):
            session.append(said(*(f"turn {number} of many" for number in range(start, start + 500))))
        tracemalloc.start()
        try:
            session.window(max_tokens=1000)
            session.page(after="3000", limit=50)
            session.search("turn 4711", k=5)
            session.delete()
            assert tracemalloc.get_traced_memory()[1] < 5_000_000  # loading it all takes 7
        finally:
            tracemalloc.stop()
