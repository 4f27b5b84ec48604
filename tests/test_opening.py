"""What `strongroom.open` takes besides an address, and what it says to what it does not take."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import pytest

import strongroom
from strongroom import config
from strongroom.backends import sqlite
from strongroom.backends.memory import MemoryStore
from strongroom.backends.postgres import PostgresStore
from strongroom.backends.redis import RedisStore
from strongroom.backends.sqlite import SqliteStore, open_file
from strongroom.console.sample import write_day
from strongroom.dispatch import work
from strongroom.errors import Closed, InvalidInput, SchemaMismatch

ADDRESSES = ["memory://", "agent.db", "postgresql://nobody@localhost:1/none", "redis://localhost:1"]
WRONG = [
    ("durability", "full", "one of durable, relaxed"),
    ("durability", 3, "one of durable, relaxed"),
    ("timeout_seconds", "soon", "a number"),
    ("timeout_seconds", 0, "more than 0"),
    ("timeout_seconds", float("nan"), "a number"),
    ("timeout_seconds", True, "a number"),
    ("max_record_bytes", 0, "more than 0"),
    ("max_record_bytes", "16 MB", "a whole number"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_a_value_that_an_option_cannot_take_is_refused_and_no_file_is_made(
    tmp_path: Path, name: str, value: Any, words: str
) -> None:
    for make in (strongroom.open, SqliteStore):
        with pytest.raises(InvalidInput, match=f"{name} must be {words}, not "):
            make(tmp_path / "agent.db", **{name: value})
    assert not any(tmp_path.iterdir())


async def test_an_event_loop_hears_the_same(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="durability must be"):
        await strongroom.aopen(tmp_path / "agent.db", durability="full")  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


async def test_a_file_is_opened_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def opening(path: Path, **options: Any) -> Any:
        opened.append(threading.get_ident())
        return open_file(path, **options)

    monkeypatch.setattr(sqlite, "open_file", opening)
    async with strongroom.aopen(tmp_path / "agent.db"):
        assert opened and threading.get_ident() not in opened


async def test_what_is_asked_before_it_is_open_says_what_to_write() -> None:
    opening: Any = strongroom.aopen("memory://")
    with pytest.raises(AttributeError, match=r"no 'runs' before it is open: write `async with strongroom\.aopen"):
        opening.runs
    async with opening as ctx:
        assert ctx.runs


async def test_what_is_asked_before_it_is_connected_says_how_to_connect() -> None:
    connecting: Any = strongroom.aconnect("http://127.0.0.1:1")
    with pytest.raises(AttributeError, match=r"no 'runs' before it is open: write `async with strongroom\.aconnect\("):
        connecting.runs
    with pytest.raises(TypeError, match=r"^write `async with strongroom\.aconnect\(\.\.\.\) as ctx`"), connecting:
        pass


@pytest.mark.parametrize(("written", "meant"), [("conect", "connect or aconnect"), ("Sesion", "Session")])
def test_a_misspelt_name_of_the_package_is_told_with_the_right_one(written: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{written}'; did you mean {meant}\b.*\?$"):
        getattr(strongroom, written)


def test_an_editor_is_shown_what_is_public() -> None:
    assert {name for name in dir(strongroom) if not name.startswith("__")} == set(strongroom.__all__) - {"__version__"}


async def test_whoever_is_cancelled_while_a_file_is_opened_leaves_none_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, going, made = asyncio.Event(), threading.Event(), list[Any]()
    loop = asyncio.get_running_loop()

    def opening(path: Path, **options: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        going.wait()
        made.append(open_file(path, **options))
        return made[0]

    monkeypatch.setattr(sqlite, "open_file", opening)
    task = asyncio.ensure_future(_opened(tmp_path / "agent.db"))
    await begun.wait()
    task.cancel()
    loop.call_soon(going.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(Closed):
        made[0].read([])


async def _opened(path: Path) -> Any:
    return await strongroom.aopen(path)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("value", [0, -1, "16 MB", True])
async def test_every_store_refuses_a_limit_that_makes_no_sense(address: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="max_record_bytes must be"):
        strongroom.open(address, max_record_bytes=value)
    with pytest.raises(InvalidInput, match="max_record_bytes must be"):
        await strongroom.aopen(address, max_record_bytes=value)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_option_that_a_store_does_not_have_is_refused_with_those_it_has(address: str) -> None:
    others: dict[str, Any] = {"prefix": "x"} if "redis" not in address else {"durability": "relaxed"}
    with pytest.raises(InvalidInput, match=rf"no option '{next(iter(others))}'; it has .*max_record_bytes"):
        strongroom.open(address, **others)


@pytest.mark.parametrize("opening", [strongroom.open, strongroom.aopen])
@pytest.mark.parametrize("store", [MemoryStore, open_file, PostgresStore, RedisStore])
def test_every_option_of_every_store_is_spelt_out(opening: Callable[..., Any], store: Callable[..., Any]) -> None:
    parameters = signature(opening).parameters
    options = [name for name, each in signature(store).parameters.items() if each.kind is each.KEYWORD_ONLY]
    assert set(options) - {"clock"} <= set(parameters)  # a clock is for tests of the store itself
    assert not [each for each in parameters.values() if each.kind is each.VAR_KEYWORD]


async def test_a_context_can_be_opened_by_entering_it(tmp_path: Path) -> None:
    async with strongroom.aopen(tmp_path / "agent.db") as ctx:
        await ctx.runs.create(objective="be closed at the end")
    with pytest.raises(Closed):
        await ctx.runs.create(objective="too late")


async def test_a_context_can_be_opened_by_awaiting_it() -> None:
    ctx = await strongroom.aopen("memory://")
    async with ctx as same, await strongroom.aopen("memory://") as other:
        assert same is ctx
        assert isinstance(other, strongroom.AsyncContext)


def test_asyncio_takes_an_opening_for_the_coroutine_it_is() -> None:
    ctx = asyncio.run(strongroom.aopen("memory://"))
    asyncio.run(ctx.close())


async def test_a_context_that_cannot_be_opened_is_not_entered() -> None:
    known = "memory://, postgresql:// or redis:// .a server's address begins with http://"
    with pytest.raises(InvalidInput, match=known):
        async with strongroom.aopen("ftp://x"):
            raise AssertionError("entered")


@pytest.mark.parametrize(
    "address",
    [
        ":memory:",
        Path(":memory:"),
        "sqlite://:memory:",
        "sqlite:///:memory:",
        "file::memory:",
        "file::memory:?cache=shared",
        "file:agent.db?mode=memory&cache=shared",
        "file:///agent.db?mode=memory",
    ],
)
async def test_what_is_memory_to_sqlite_is_no_file_and_names_what_it_is_here(
    address: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="here it is 'memory://'; nothing was opened"):
        strongroom.open(address)
    with pytest.raises(InvalidInput, match="here it is 'memory://'; nothing was opened"):
        await strongroom.aopen(address)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "meant"),
    [("memory", "in memory is 'memory://'"), ("memory:", "'memory://'"), ("file:x.db", "here it is 'x.db'")],
)
def test_an_address_that_would_be_an_odd_file_names_what_is_meant(
    address: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=meant):
        strongroom.open(address)
    assert not any(tmp_path.iterdir())
    strongroom.open("./memory").close()


def test_a_browsers_address_of_a_file_names_the_path_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"here it is '{tmp_path}/agent db'; nothing was opened"):
        strongroom.open(f"file://{tmp_path}/agent%20db")


@pytest.mark.parametrize("address", ["{}", "{}/agent.db", "sqlite:///{}"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_name_that_is_too_long_is_refused_with_what_is_allowed(
    address: str, read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="at most 255 bytes, that of a store 247"):
        strongroom.open(address.format("x" * 300), read_only=read_only)


def test_a_name_that_leaves_no_room_for_those_beside_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="that of a store 247"):
        strongroom.open(tmp_path / ("x" * 248))


def test_the_longest_name_that_is_allowed_is_taken(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / ("x" * 247)) as ctx:
        assert ctx.runs.create(objective="Answer", run_id="one").id == "one"


def test_a_name_with_a_nul_in_a_folder_of_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="text that can name a file"):
        strongroom.open("folder\0/agent.db")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_device_is_said_to_be_no_ordinary_file(read_only: bool) -> None:
    with pytest.raises(InvalidInput, match="/dev/null is no ordinary file"):
        strongroom.open("/dev/null", read_only=read_only)


def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(InvalidInput, match="leads back to itself"):
        strongroom.open(tmp_path / "one")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_store_is_named(tmp_path: Path, read_only: bool) -> None:
    program, theirs = tmp_path / "agent.py", tmp_path / "theirs.db"
    program.write_text("print('an agent')\n" * 100)
    with closing(sqlite3.connect(theirs)) as con:
        con.execute("CREATE TABLE notes (id)")
    for path, words in ((program, "is not a SQLite database"), (theirs, "is a SQLite file of another program")):
        with pytest.raises(SchemaMismatch, match=rf"{path} {words}; nothing was changed"):
            strongroom.open(path, read_only=read_only)


async def test_a_context_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path, space="acme") as ctx:
        assert repr(ctx) == f"Context(SqliteStore('{path}'), space='acme')"
    async with strongroom.aopen(path) as actx:
        assert repr(actx) == f"AsyncContext(SqliteStore('{path}'), space='default')"
    with strongroom.open("memory://") as ctx:
        assert repr(ctx) == "Context(MemoryStore(), space='default')"


@pytest.mark.parametrize("part", ["runs", "sessions", "memories", "threads", "registry", "files"])
async def test_each_part_of_a_context_says_what_it_is_and_whose(part: str) -> None:
    with strongroom.open("memory://", space="acme") as ctx:
        assert repr(getattr(ctx, part)) == f"<{part} of space 'acme'>"
    async with strongroom.aopen("memory://", space="acme") as actx:
        assert repr(getattr(actx, part)) == f"<{part} of space 'acme'>"


def test_a_value_that_fits_is_taken(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db", durability="relaxed", timeout_seconds=2, max_record_bytes=1000) as ctx:
        assert ctx.durability.name == "relaxed"


# ---- how long ids are remembered ------------------------------------------------------------------------------------


def kept_seconds(ctx: strongroom.Context) -> float:
    return ctx.store.kept_seconds  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("address", ["memory://", "agent.db"])
@pytest.mark.parametrize(
    ("environment", "option", "seconds"),
    [
        (None, {}, 30 * 86400),
        ("", {}, 30 * 86400),
        ("90d", {}, 90 * 86400),
        ("90d", {"repeats": "12h"}, 12 * 3600),
        (None, {"repeats": timedelta(days=2)}, 2 * 86400),
        (None, {"repeats": "forever"}, math.inf),
    ],
)
def test_ids_are_remembered_as_the_option_says_or_the_environment_or_for_30_days(
    address: str,
    environment: str | None,
    option: dict[str, Any],
    seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRONGROOM_REPEATS", raising=False)
    if environment is not None:
        monkeypatch.setenv("STRONGROOM_REPEATS", environment)
    with strongroom.open(address, **option) as ctx:
        assert kept_seconds(ctx) == seconds


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_wrong_time_to_remember_is_refused_before_anything_is_opened(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"repeats must be 'forever', .* not 'a while'; nothing was opened"):
        strongroom.open(address, repeats="a while")
    monkeypatch.setenv("STRONGROOM_REPEATS", "a while")
    with pytest.raises(InvalidInput, match="STRONGROOM_REPEATS: repeats must be"):
        strongroom.open(address)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("space", ["", 3, "a\nb", "x" * 256])
def test_a_space_that_cannot_name_anything_is_refused(space: Any) -> None:
    with pytest.raises(InvalidInput, match="a space must be 1 to 255 printable characters"):
        strongroom.open("memory://", space=space)


def _worked(path: Path) -> None:
    work("tests.dispatch.program:dispatcher", url=path, space="")


@pytest.mark.parametrize(
    "opening",
    [
        lambda path: strongroom.open(path, space=""),
        lambda path: asyncio.run(strongroom.aopen(path, space="")),
        lambda path: config.Settings(backend=config.Backend(url=str(path), space="")).open(),
        lambda path: asyncio.run(config.Settings(backend=config.Backend(url=str(path), space="")).aopen()),
        lambda path: config.Settings(backend=config.Backend(url=str(path), max_threads=0)).open(),
        lambda path: asyncio.run(config.Settings(backend=config.Backend(url=str(path), max_threads=0)).aopen()),
        lambda path: write_day(str(path), space=""),
        _worked,
    ],
)
def test_nothing_is_opened_before_everything_was_looked_at(tmp_path: Path, opening: Callable[[Path], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^(a space|max_threads) must be"):
        opening(tmp_path / "agent.db")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("address", [None, 3, b"agent.db", ["agent.db"], "", "http://[", "ftp://x", "\ud800", "a\0b"])
def test_what_is_no_address_is_refused(address: Any) -> None:
    with pytest.raises(InvalidInput):
        strongroom.open(address)


@pytest.mark.parametrize(("address", "driver", "extra"), [
    ("postgresql://x/y", "psycopg", "postgres"), ("redis://x", "redis", "redis"),
])  # fmt: skip
def test_an_address_whose_driver_is_missing_names_the_extra(address: str, driver: str, extra: str) -> None:
    program = f"import sys; sys.modules[{driver!r}] = None; from strongroom.cli import main; main()"
    command = [sys.executable, "-c", program, "--url", address, "runs", "list"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 1
    assert f"pip install 'strongroom[{extra}]'" in told.stderr


def test_what_is_got_is_annotated_by_names_of_the_package() -> None:
    with strongroom.open("memory://") as ctx:
        run, chat = ctx.runs.create(objective="o"), ctx.sessions.open("s")
        chat.append({"role": "user", "content": "tea"})
        ctx.memories.add("likes tea", user_id="ana")
        ctx.files.write("/a.txt", "tea")
        got = {
            strongroom.Listing: run.events(),
            strongroom.Verification: run.verify(),
            strongroom.Brief: run.brief(),
            strongroom.File: ctx.files.read("/a.txt"),
            strongroom.MemoryHit: ctx.memories.search("tea", user_id="ana")[0],
            strongroom.MessageHit: chat.search("tea")[0],
        }
        assert {kind: type(one) for kind, one in got.items()} == {kind: kind for kind in got}
        assert run.working_set.status in get_args(strongroom.Status)
        assert set(strongroom.UpdateFields.__annotations__) >= {"status", "blockers", "next_action"}
