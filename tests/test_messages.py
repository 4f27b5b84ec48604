"""What errors say: what is wrong, what would be right, and only of writes that nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.codec import encode
from strongroom.errors import Closed, InvalidInput, StrongroomError, Unavailable
from strongroom.opening import open_store
from strongroom.store import Append, Commit, Entry, Get, Key, Put, Range, Store, new_id
from tests.server.serving import free_port

DOC, LOG = Key("default", "doc", "d"), Key("default", "log", "l")


def test_a_folder_is_called_a_folder(tmp_path: Path) -> None:
    wanted: list[dict[str, Any]] = [{}, {"read_only": True}]
    for options in wanted:
        with pytest.raises(InvalidInput, match=r"is a folder; name a file in it, such as .*agent\.db"):
            strongroom.open(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "https://example.org"])
async def test_a_server_is_to_be_connected_to(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"is a server, which strongroom\.connect"):
        strongroom.open(address)
    with pytest.raises(InvalidInput, match=r"aconnect"):
        await strongroom.aopen(address)


async def test_a_port_where_nobody_listens_is_named_with_what_to_look_at() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    told = rf"{url} did not answer for 0\.2 seconds .*`strongroom serve` running there, and is the address right"
    with pytest.raises(Unavailable, match=told) as blocking:
        strongroom.connect(url, retry_seconds=0.2)
    with pytest.raises(Unavailable, match=told):
        await strongroom.aconnect(url, retry_seconds=0.2)
    assert blocking.value.reason == "unreachable"
    assert "nothing changed" not in str(blocking.value)


def said(call: Any) -> str:
    with pytest.raises(StrongroomError) as refused:
        call()
    return str(refused.value)


def test_a_message_that_is_too_large_is_not_called_by_the_name_of_its_session() -> None:
    with strongroom.open("memory://", max_record_bytes=1000) as ctx:
        session = ctx.sessions.open("support")
        message = said(lambda: session.append({"role": "user", "content": "x" * 2000}))
    assert message.startswith("a record (message of 'support') of ")
    assert message.endswith(" bytes is over the limit of 1000; nothing changed")


@pytest.mark.parametrize("id", ["", "a\0b", "x" * 2_000])
def test_an_id_that_cannot_be_one_is_called_by_its_argument(id: str) -> None:
    with strongroom.open("memory://") as ctx:
        for name, call in (
            ("session_id", ctx.sessions.open),
            ("session_id", ctx.sessions.get),
            ("run_id", ctx.runs.get),
            ("memory_id", ctx.memories.get),
            ("batch_id", ctx.memories.batch),
            ("thread_id", ctx.threads.get),
        ):
            told = said(lambda call=call: call(id))
            assert f"{name} must be 1 to " in told and " printable characters, not '" in told


def test_an_id_that_is_too_long_is_told_how_long_it_is() -> None:
    with strongroom.open("memory://") as ctx:
        assert said(lambda: ctx.sessions.open("x" * 2_000)).endswith(" (2,000 characters)")


def test_a_question_of_the_wrong_shape_does_not_say_that_nothing_changed(store: Store) -> None:
    store.commit(Commit(new_id(), (), (Put(DOC, encode(1)), Append(LOG, (Entry("n", encode(1)),)))))
    for question in (Get(LOG), Range(DOC)):
        message = said(lambda question=question: store.read([question]))
        assert "is a " in message and "nothing changed" not in message
    assert "nothing changed" in said(lambda: store.commit(Commit(new_id(), (), (Put(LOG, encode(1)),))))


def test_a_closed_store_says_only_to_writers_that_nothing_changed(address: str) -> None:
    store = open_store(address)
    store.close()
    with pytest.raises(Closed) as read:
        store.read([Get(DOC)])
    with pytest.raises(Closed) as written:
        store.commit(Commit(new_id(), (), (Put(DOC, encode(1)),)))
    assert "nothing changed" not in str(read.value)
    assert "nothing changed" in str(written.value)


WRONG_PATHS: dict[str, Callable[[Context], object]] = {
    "write": lambda ctx: ctx.files.write("notes.md", "x"),
    "restore a version": lambda ctx: ctx.files.restore("notes.md", 1),
    "delete": lambda ctx: ctx.files.delete("notes.md"),
    "rename": lambda ctx: ctx.files.rename("notes.md", "/b"),
    "rename to": lambda ctx: ctx.files.rename("/a", "notes.md"),
    "erase": lambda ctx: ctx.files.erase("notes.md"),
    "restore a run": lambda ctx: ctx.runs.restore("missing"),
    "restore everything": lambda ctx: ctx.restore("missing"),
    "restore with a key": lambda ctx: ctx.restore(__file__, key="secret"),
    "attach": lambda ctx: ctx.runs.create(objective="o").attach("missing", type="text"),
    "export": lambda ctx: ctx.runs.create(objective="o").export("a\0b"),
}


@pytest.mark.parametrize("name", WRONG_PATHS)
def test_a_write_with_a_path_that_cannot_be_says_that_nothing_changed(name: str) -> None:
    with strongroom.open("memory://") as ctx:
        assert said(lambda: WRONG_PATHS[name](ctx)).endswith("; nothing changed")
