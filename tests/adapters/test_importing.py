"""`strongroom import` from the frameworks' own files: counted, resumable, and nothing changed in the source."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from agents import SQLiteSession
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

import strongroom
from strongroom import InvalidInput
from strongroom.adapters import importing_openai_agents
from strongroom.adapters.importing_openai_agents import import_sessions
from strongroom.adapters.langgraph import StrongroomSaver
from strongroom.adapters.langgraph.importing import import_checkpoints
from strongroom.adapters.openai_agents import StrongroomSession
from strongroom.cli import main
from tests.adapters.langgraph.savers import ask, chat, config, delta_graph
from tests.adapters.test_openai_agents import ITEMS


@contextmanager
def opened(source: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open a saver of LangGraph's own."""
    if source.startswith("postgresql:"):
        with PostgresSaver.from_conn_string(source) as saver:
            yield saver
        return
    with closing(sqlite3.connect(source, check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


@pytest.fixture(params=["sqlite", "postgres"])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a saver of LangGraph's own keeps, with two threads, one of them of deltas."""
    source = str(tmp_path / "langgraph.db")
    if request.param == "postgres":
        source = request.getfixturevalue("foreign_postgres")
    with opened(source) as saver:
        if isinstance(saver, PostgresSaver):
            saver.setup()
        for text in ("hello", "and again"):
            ask(chat(saver), "t", text)
        for number in range(3):
            delta_graph(saver).invoke({"said": [f"q{number}"]}, config("d"), durability="sync")
    return source


TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    path = tmp_path / "agents.db"

    async def fill() -> None:
        for name in ("one", "two"):
            session = SQLiteSession(name, path)
            await session.add_items(ITEMS)
            session.close()

    asyncio.run(fill())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('two', '{broken')")
    return path


def content(source: str | Path) -> Any:
    """Return all that a source holds."""
    if not str(source).startswith("postgresql:"):
        return hashlib.sha256(Path(source).read_bytes()).hexdigest()
    with psycopg.connect(str(source)) as connection:
        return [
            connection.execute(f"SELECT t::text, xmin::text FROM {table} t ORDER BY 1").fetchall() for table in TABLES
        ]


def unchanged(source: str | Path, work: Callable[[], Any]) -> Any:
    """Do something, and make sure that a source is as it was."""
    before = content(source)
    done = work()
    assert content(source) == before
    return done


def test_checkpoints_come_in_as_they_were(address: str, checkpoints: str) -> None:
    with opened(checkpoints) as own:
        theirs = {thread: list(own.list(config(thread))) for thread in ("t", "d")}
    with strongroom.open(address) as ctx:
        told = unchanged(checkpoints, lambda: import_checkpoints(checkpoints, ctx))
        saver = StrongroomSaver(ctx)
        assert (told.threads, told.checkpoints, told.skipped) == (2, sum(map(len, theirs.values())), 0)
        for thread, expected in theirs.items():
            found = list(saver.list(config(thread)))
            assert [one.config for one in found] == [one.config for one in expected]
            for one, other in zip(found, expected, strict=True):
                assert one.metadata == other.metadata
                # A delta channel that did not change has the snapshot of its version here, and none in their file.
                assert thread == "d" or one.checkpoint == other.checkpoint
                assert one.parent_config == other.parent_config
                assert sorted(map(repr, one.pending_writes or [])) == sorted(map(repr, other.pending_writes or []))
        graph = chat(saver)
        assert len(ask(graph, "t", "third")["messages"]) == 6
        assert delta_graph(saver).get_state(config("d")).values["said"] == ["q0", "a1", "q1", "a3", "q2", "a5"]
        assert [one.content for one in ctx.sessions.get("langgraph/t").load(k=2)] == ["third", "answer 5"]


def test_an_import_of_checkpoints_goes_on_where_it_was(address: str, checkpoints: str) -> None:
    with strongroom.open(address) as ctx:
        first = import_checkpoints(checkpoints, ctx)
        again = import_checkpoints(checkpoints, ctx)
        assert (again.skipped, again.checkpoints) == (first.checkpoints, first.checkpoints)
        assert len(list(StrongroomSaver(ctx).list(None))) == first.checkpoints


def test_conversations_come_in_as_they_were_once(address: str, conversations: Path) -> None:
    with strongroom.open(address) as ctx:
        for skipped in (0, 2 * len(ITEMS)):
            told = unchanged(conversations, lambda: import_sessions(conversations, ctx))
            assert (told.sessions, told.items, told.skipped, told.damaged) == (2, 2 * len(ITEMS), skipped, 1)
        for name in ("one", "two"):
            assert asyncio.run(StrongroomSession(name, ctx).get_items()) == cast("Any", ITEMS)


def test_what_is_imported_from_is_closed_whatever_comes_of_it(
    conversations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with strongroom.open("memory://") as ctx:
        import_sessions(conversations, ctx)
        with pytest.raises(InvalidInput):
            import_checkpoints(conversations, ctx)
    assert len(opened) == 2
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


async def told_more(path: Path, name: str, items: Any) -> None:
    session = SQLiteSession(name, path)
    await session.add_items(items)
    session.close()


def test_of_a_conversation_that_went_on_only_the_rest_comes_in(address: str, conversations: Path) -> None:
    with strongroom.open(address) as ctx:
        import_sessions(conversations, ctx)
        asyncio.run(told_more(conversations, "one", ITEMS[:2]))
        assert import_sessions(conversations, ctx).skipped == 2 * len(ITEMS)
        assert asyncio.run(StrongroomSession("one", ctx).get_items()) == cast("Any", [*ITEMS, *ITEMS[:2]])


def test_files_with_sessions_of_one_name_all_come_in(address: str, tmp_path: Path) -> None:
    said: dict[str, Any] = {one: {"role": "user", "content": one} for one in ("first", "second")}
    with strongroom.open(address) as ctx:
        for number, item in enumerate(said.values()):
            path = tmp_path / f"{number}.db"
            for name in ("chat", f"later {number}"):
                asyncio.run(told_more(path, name, [item]))
            for skipped in (0, 2):
                assert import_sessions(path, ctx).skipped == skipped
        assert asyncio.run(StrongroomSession("chat", ctx).get_items()) == list(said.values())
        assert asyncio.run(StrongroomSession("later 1", ctx).get_items()) == [said["second"]]


def test_files_whose_sessions_begin_with_the_same_words_all_come_in(address: str, tmp_path: Path) -> None:
    with strongroom.open(address) as ctx:
        for day in (1, 2):
            asyncio.run(told_more(path := tmp_path / f"{day}.db", "chat", ITEMS[:2]))
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE agent_messages SET created_at = ?", (f"2026-01-0{day} 12:00:00",))
            assert import_sessions(path, ctx).skipped == 0
        assert asyncio.run(StrongroomSession("chat", ctx).get_items()) == cast("Any", ITEMS[:2] * 2)


class Ended(Exception):
    """The process ended here."""


def in_parts(ctx: strongroom.Context, monkeypatch: pytest.MonkeyPatch, commits: int, work: Callable[[], Any]) -> int:
    """Do something that ends after so many commits, again and again until it comes to its end; return how often."""
    real = ctx.store.commit
    for count in range(1, 1000):
        left = iter(range(commits))

        def commit(wanted: Any) -> Any:
            if next(left, None) is None:  # noqa: B023 - called before the next round
                raise Ended
            return real(wanted)

        with monkeypatch.context() as patched, suppress(Ended):
            patched.setattr(ctx.store, "commit", commit)
            work()
            return count
    raise AssertionError("it comes to no end")


def test_an_import_of_conversations_that_is_ended_anywhere_loses_and_doubles_nothing(
    conversations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing_openai_agents, "BATCH", 3)
    with strongroom.open(tmp_path / "agent.db") as ctx:
        more = iter(range(4))

        def grows_and_comes_in() -> None:
            if next(more, None) is not None:
                asyncio.run(told_more(conversations, "one", ITEMS[:1]))
            import_sessions(conversations, ctx)

        assert in_parts(ctx, monkeypatch, 2, grows_and_comes_in) > 4
        assert asyncio.run(StrongroomSession("one", ctx).get_items()) == cast("Any", [*ITEMS, *ITEMS[:1] * 4])
        assert asyncio.run(StrongroomSession("two", ctx).get_items()) == cast("Any", ITEMS)


def test_an_import_of_checkpoints_that_is_ended_anywhere_loses_nothing(
    checkpoints: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open(tmp_path / "whole.db") as whole, strongroom.open(tmp_path / "agent.db") as ctx:
        import_checkpoints(checkpoints, whole)
        assert in_parts(ctx, monkeypatch, 3, lambda: import_checkpoints(checkpoints, ctx)) > 4
        assert list(StrongroomSaver(ctx).list(None)) == list(StrongroomSaver(whole).list(None))


def test_without_a_store_it_is_only_counted(checkpoints: str, conversations: Path) -> None:
    assert import_checkpoints(checkpoints, None).checkpoints > 10 and import_sessions(conversations, None).items == 16


def test_a_message_that_is_nested_too_deep_is_damaged_and_the_others_come_in(conversations: Path) -> None:
    with closing(sqlite3.connect(conversations)) as connection, connection:
        deep = f'{{"role": "user", "content": {"[" * 50_000}{"]" * 50_000}}}'
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('two', ?)", (deep,))
    with strongroom.open("memory://") as ctx:
        told = import_sessions(conversations, ctx)
    assert (told.items, told.damaged) == (2 * len(ITEMS), 2)


@pytest.mark.parametrize("checkpoints", ["sqlite"], indirect=True)
def test_a_checkpoint_that_cannot_be_kept_is_named(checkpoints: str) -> None:
    with closing(sqlite3.connect(checkpoints)) as connection, connection:
        values = {"channel_values": {"n": 10**50}, "channel_versions": {"n": 1}, "versions_seen": {}}
        wide = (json.dumps({"v": 4, "ts": "", "id": "9", **values}).encode(), "u")
        connection.execute(
            "INSERT INTO checkpoints (checkpoint, thread_id, checkpoint_ns, checkpoint_id, type, metadata) "
            "VALUES (?, ?, '', '9', 'json', '{}')",
            wide,
        )
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match="checkpoint '9' of thread 'u'"):
        import_checkpoints(checkpoints, ctx)


def test_what_is_no_such_file_is_refused(tmp_path: Path, checkpoints: str, conversations: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is not a database, but it is long enough to be taken for one")
    with strongroom.open("memory://") as ctx:
        for path in (text, tmp_path / "missing", conversations):
            with pytest.raises(InvalidInput, match="nothing changed"):
                import_checkpoints(path, ctx)
        for path in (text, tmp_path / "missing", Path(checkpoints)):
            with pytest.raises(InvalidInput, match="nothing changed"):
                import_sessions(path, ctx)


def test_the_commands_say_what_came_in(
    tmp_path: Path, checkpoints: str, conversations: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--url", str(tmp_path / "agent.db")]
    for arguments, says in (
        (["import", "langgraph", str(checkpoints), "--dry-run"], "nothing was written"),
        (["import", "langgraph", str(checkpoints)], "threads"),
        (["import", "openai-agents", str(conversations)], "damaged"),
    ):
        with pytest.raises(SystemExit) as left:
            main([*target, *arguments])
        assert left.value.code == 0 and says in capsys.readouterr().out
    with strongroom.open(tmp_path / "agent.db") as ctx:
        assert {one.id for one in ctx.sessions.list()} == {"langgraph/t", "one", "two"}
