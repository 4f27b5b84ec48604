"""`strongroom import adk`: what ADK's own services keep, counted, resumable, and nothing changed in the source."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import strongroom
from strongroom import InvalidInput
from strongroom.adapters.adk import StrongroomSessionService, importing
from strongroom.adapters.adk.importing import Imported, import_sessions
from strongroom.cli import main

WHOSE: list[dict[str, Any]] = [
    {"app_name": "A", "user_id": user, "session_id": id} for user in ("u", "v") for id in ("x", "y")
]
LONG = WHOSE[0]
COUNT = 7


def event(number: int) -> Event:
    return Event(
        id=f"e{number}",
        invocation_id="i",
        author="user" if number % 2 else "model",
        timestamp=1000.5 + number,
        content=types.Content(role="user", parts=[types.Part(text=f"text number {number} ü")]),
        actions=EventActions(state_delta={"own": number, "user:seen": number, "app:last": number}),
    )


async def fill(service: Any) -> list[Any]:
    """Keep some sessions in a service of ADK's own, and return them as it reads them."""
    for whose in WHOSE:
        session = await service.create_session(**whose, state={"first": [1, None]})
        for number in range(COUNT if whose is LONG else 1):
            await service.append_event(session, event(number))
    return [await service.get_session(**whose) for whose in WHOSE]


def services(kind: str, request: pytest.FixtureRequest, folder: Path) -> tuple[Any, str]:
    """Return a service of ADK's own, and what its source is called."""
    if kind == "sqlite":
        return SqliteSessionService(str(folder / "adk.db")), str(folder / "adk.db")
    if kind == "database":
        return DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/adk.db"), f"sqlite:///{folder}/adk.db"
    url: str = request.getfixturevalue("foreign_postgres")
    return DatabaseSessionService("postgresql+psycopg" + url.removeprefix("postgresql")), url


@pytest.fixture(params=["sqlite", "database", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[Any]]:
    """A source, and the sessions that ADK's own service finds in it."""

    async def made() -> tuple[str, list[Any]]:
        service, source = services(request.param, request, tmp_path)
        sessions = await fill(service)
        if hasattr(service, "close"):
            await service.close()
        return source, sessions

    return asyncio.run(made())


def content(source: str) -> Any:
    if not source.startswith("postgresql:"):
        return hashlib.sha256(Path(source.removeprefix("sqlite:///")).read_bytes()).hexdigest()
    with psycopg.connect(source) as connection:
        return [
            connection.execute(f"SELECT t::text, xmin::text FROM {table} t ORDER BY 1").fetchall()
            for table in ("sessions", "events", "app_states", "user_states")
        ]


def unchanged(source: str, work: Callable[[], Any]) -> Any:
    before = content(source)
    done = work()
    assert content(source) == before
    return done


def found(ctx: strongroom.Context) -> list[Any]:
    async def read() -> list[Any]:
        service = StrongroomSessionService(ctx)
        return [await service.get_session(**whose) for whose in WHOSE]

    return asyncio.run(read())


def same(ours: list[Any], theirs: list[Any]) -> bool:
    def told(one: Any) -> Any:
        return one.app_name, one.user_id, one.id, one.state, one.events, round(one.last_update_time, 3)

    return [told(one) for one in ours] == [told(one) for one in theirs]


TOLD = Imported(sessions=4, events=COUNT + 3, states=3)


def test_sessions_come_in_as_they_were(kept: tuple[str, list[Any]], address: str) -> None:
    source, theirs = kept
    with strongroom.open(address) as ctx:
        assert unchanged(source, lambda: import_sessions(source, ctx)) == TOLD
        assert same(found(ctx), theirs)
        talk = ctx.sessions.get("adk/A/u/x")
        assert [one.content for one in talk.load(k=1)] == [f"text number {COUNT - 1} ü"]
        again = import_sessions(source, ctx)
        assert (again.sessions, again.skipped) == (4, 4 + 3)
        assert same(found(ctx), theirs)


class Ended(Exception):
    """The process ended here."""


def test_an_import_goes_on_where_it_was(
    kept: tuple[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, theirs = kept
    monkeypatch.setattr(importing, "BATCH", 2)
    with strongroom.open(tmp_path / "agent.db") as ctx:
        real = ctx.store.commit

        def part() -> bool:
            """Go on until all states were looked at and one part of a session was stored; tell whether that was all."""
            left = iter(range(TOLD.states + 1))

            def commit(wanted: Any) -> Any:
                if next(left, None) is None:
                    raise Ended
                return real(wanted)

            with monkeypatch.context() as patched, suppress(Ended):
                patched.setattr(ctx.store, "commit", commit)
                import_sessions(source, ctx)
                return True
            return False

        assert [part() for _ in range(7)] == [*[False] * 6, True]  # four parts, and three sessions of one event
        assert import_sessions(source, ctx).skipped == 4 + 3
        assert same(found(ctx), theirs)


def test_without_a_store_they_are_only_counted(kept: tuple[str, list[Any]]) -> None:
    assert import_sessions(kept[0], None) == TOLD


def test_an_event_that_is_none_is_counted_and_left_out(tmp_path: Path) -> None:
    asyncio.run(fill(SqliteSessionService(str(tmp_path / "adk.db"))))
    with closing(sqlite3.connect(tmp_path / "adk.db")) as connection, connection:
        connection.execute("UPDATE events SET event_data = '{broken' WHERE id = 'e3'")
    with strongroom.open("memory://") as ctx:
        told = import_sessions(tmp_path / "adk.db", ctx)
        assert (told.events, told.damaged) == (COUNT + 2, 1)
        assert [one.id for one in found(ctx)[0].events] == ["e0", "e1", "e2", "e4", "e5", "e6"]


def test_a_database_of_pickles_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        for table in ("sessions", "app_states", "user_states", "events"):
            connection.execute(f"CREATE TABLE {table} (id TEXT, actions BLOB)")
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match="adk migrate session"):
        import_sessions(tmp_path / "old.db", ctx)


def test_the_command_says_what_came_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(fill(SqliteSessionService(str(tmp_path / "adk.db"))))
    with pytest.raises(SystemExit) as left:
        main(["--url", str(tmp_path / "agent.db"), "import", "adk", str(tmp_path / "adk.db")])
    assert left.value.code == 0 and "events" in capsys.readouterr().out
    with strongroom.open(tmp_path / "agent.db") as ctx:
        assert len(ctx.sessions.list()) == 4
