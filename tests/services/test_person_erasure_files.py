"""What of an erased person is left in the files of a store: no byte, whatever there was and whoever is killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

import strongroom
from strongroom.backends.sqlite import SqliteStore
from strongroom.backends.sqlite import erasure as sqlite_erasure
from strongroom.errors import NotFound
from strongroom.services.memories.sources import message_source
from strongroom.services.sessions import writes as session_writes
from strongroom.store import (
    Commit,
    Receipt,
    Store,
)
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import DURABLE, start_or_skip
from tests.services.test_person_erasure import CANARY, context, fill, in_store


def bytes_in(folder: Path) -> int:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.read_bytes().count(CANARY.encode()) for file in files)


def test_no_byte_is_left_in_any_file_of_a_sqlite_store(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        fill(ctx)
        assert bytes_in(tmp_path) > 0
        assert ctx.erase(user_id="u1", by="ana").complete
        assert bytes_in(tmp_path) == 0
    assert bytes_in(tmp_path) == 0


@pytest.mark.parametrize("session_id", ["chat", "chat#7"])
def test_why_a_message_of_a_person_was_revoked_is_in_no_file(tmp_path: Path, session_id: str) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.sessions.open(session_id, user_id="u1").append({"role": "user", "content": "hello", "id": "m1"})
        ctx.memories.revoke(source_ref=message_source(session_id, "m1"), by="bob", reason=f"Ana has {CANARY}")
        assert bytes_in(tmp_path) > 0
        assert ctx.erase(user_id="u1").complete
    assert bytes_in(tmp_path) == 0


def test_why_a_message_of_somebody_else_was_revoked_stays() -> None:
    with strongroom.open("memory://") as ctx:
        for id in ("chat", "chatter"):
            ctx.sessions.open(id, user_id=id).append({"role": "user", "content": "hello", "id": "m1"})
        ctx.memories.revoke(source_ref="message:chatter#m1", by="bob", reason=CANARY)
        ctx.erase(user_id="chat")
        assert in_store(ctx.store)


def worked_for(ctx: Any, session_id: str, run_id: str, user_id: str) -> None:
    """Do what an agent does with ids of its own, and may do again."""
    chat = ctx.sessions.open(session_id, user_id=user_id)
    work = ctx.runs.open(run_id, objective="o", user_id=user_id)
    with ctx.turn(commit_id=f"{run_id}:1") as turn:
        turn.append(chat, {"role": "user", "content": "hello"})
    work.record("TOOL_CALL", {"tool_name": "mail"}, commit_id=f"{run_id}:2")


def test_of_a_person_only_the_ids_of_sessions_and_runs_stay_in_the_files(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        worked_for(ctx, "id-of-a-session", "id-of-a-run", "id-of-a-person")
        assert ctx.erase(user_id="id-of-a-person").complete
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    ids = (b"id-of-a-session", b"id-of-a-run", b"id-of-a-person", b"id-of-a-run:1")
    assert [id in held for id in ids] == [True, True, False, False]


def test_an_agent_that_works_again_after_an_erasure_needs_new_ids() -> None:
    with strongroom.open("memory://") as ctx:
        worked_for(ctx, "s", "r", "u1")
        ctx.erase(user_id="u1")
        with pytest.raises(NotFound, match="was erased since"):
            worked_for(ctx, "s", "r", "u1")
        assert len(ctx.sessions.get("s")) == 1  # the turn was made again
        worked_for(ctx, "s", "another", "u1")
        assert [event.type for event in ctx.runs.get("another").events()] == ["RUN_START", "TOOL_CALL"]


def only_sessions(ctx: Any) -> None:
    for n in range(300):
        session = ctx.sessions.open(f"s{n % 10}", user_id=f"u{n % 2}")
        session.append({"role": "user", "content": f"{CANARY if n % 2 else 'tea'}{n} word " + "y" * (n * 7 % 600)})


def only_memories(ctx: Any) -> None:
    for n in range(20):
        ctx.memories.add(f"{CANARY} number {n}", user_id="u1", rationale=CANARY)
        ctx.memories.add(f"tea number {n}", user_id="u0")


def searched_sessions(ctx: Any) -> None:
    only_sessions(ctx)
    for n in range(10):
        ctx.sessions.get(f"s{n}").search("word")  # which fills the index of words


def all_searched(ctx: Any) -> None:
    searched_sessions(ctx)
    only_memories(ctx)
    for user_id in ("u0", "u1"):
        ctx.memories.search("number", user_id=user_id)


@pytest.mark.parametrize("filled", [only_sessions, only_memories, searched_sessions, all_searched])
@pytest.mark.parametrize("options", [{}, {"key": "a passphrase"}], ids=["plain", "encrypted"])
def test_no_byte_is_left_whatever_there_was_of_a_person(tmp_path: Path, filled: Any, options: Any) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path, **options) as ctx:
        filled(ctx)
        assert ctx.erase(user_id="u1").complete
        assert bytes_in(tmp_path) == words_in(ctx) == 0
    assert bytes_in(tmp_path) == 0


def words_in(ctx: Any) -> int:
    """Return how often the index of words holds the canary, in an encrypted file too."""
    (con,) = ctx.store._committer.connections
    blocks = [bytes(row[0]) for row in con.execute("SELECT block FROM word_data")]
    return sum(block.count(CANARY.encode()) for block in blocks)


def test_an_erasure_of_many_steps_cleans_a_large_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_erasure, "CLEARED_BYTES_A_SECOND", 1)  # so that the file rests after each cleaning
    with strongroom.open(tmp_path / "agent.db") as ctx:
        fill(ctx)
        assert ctx.erase(user_id="u1").complete
        assert bytes_in(tmp_path) == 0


class Killed(BaseException): ...


class Dying:
    """A store whose caller dies after so many commits."""

    def __init__(self, store: Any, commits: int) -> None:
        self._store, self._left = store, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> Receipt:
        receipt: Receipt = self._store.commit(commit)
        self._left -= 1
        if not self._left:
            raise Killed
        return receipt


def test_a_kill_after_any_commit_leaves_what_is_found_or_said_to_be_pending(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_writes, "DELETED_AT_ONCE", 2)
    for kill in range(1, 100):
        # A space for each kill: all that is in the store is of this one, because the others are erased.
        ctx = context(store, f"kill-{kill}")
        fill(ctx)
        ctx.memories.revoke(source_ref=ctx.memories.add("likes milk", user_id="u1").id, by="bob", reason=CANARY)
        try:
            context(cast("Store", Dying(store, kill)), ctx.space).erase(user_id="u1")
        except Killed:
            if isinstance(store, SqliteStore) and bytes_in(tmp_path) and not in_store(store):
                assert store.check().pending is not None
        else:
            assert kill > 10
            break
        assert ctx.erase(user_id="u1").complete
        assert not in_store(store)
        if isinstance(store, SqliteStore):
            assert bytes_in(tmp_path) == 0


def test_no_byte_is_left_in_the_tables_of_postgres_after_a_vacuum(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    database = address.rpartition("/")[2]
    with strongroom.open(address) as ctx:
        fill(ctx)
        tables = postgres_server.data / "base" / vacuum(postgres_server, database)
        assert bytes_in(tables) > 0
        ctx.erase(user_id="u1", by="ana")
        vacuum(postgres_server, database)
        assert bytes_in(tables) == 0


def vacuum(server: PostgresServer, database: str) -> str:
    """Return the folder of the database."""
    with psycopg.connect(server.superuser(database), autocommit=True) as con:
        con.execute("VACUUM FULL")
        con.execute("CHECKPOINT")
        found = con.execute("SELECT oid::text FROM pg_database WHERE datname = current_database()").fetchone()
    assert found is not None
    return str(found[0])


def test_no_byte_is_left_in_the_log_of_valkey_after_it_was_rewritten() -> None:
    with start_or_skip(*DURABLE) as server, strongroom.open(server.address()) as ctx:
        fill(ctx)
        assert bytes_in(server.folder) > 0
        ctx.erase(user_id="u1", by="ana")
        with server.client() as client:
            client.bgrewriteaof()
            while any(client.info("persistence")[f"aof_rewrite_{state}"] for state in ("in_progress", "scheduled")):
                time.sleep(0.01)
        assert bytes_in(server.folder) == 0
