"""An encrypted store: who opens it, who is told what, and that none of it can be read in any file."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom import encryption as secrets
from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, encryption, open_file
from strongroom.backends.sqlite.rekeying import rekey
from strongroom.codec import encode
from strongroom.encryption import Secret, fetched, from_environment
from strongroom.errors import InvalidInput, SchemaMismatch, StrongroomError, Unavailable
from strongroom.store import Append, Commit, Entry, Erase, Find, Key, Range, ask, new_id
from tests.crash.processes import apart

PASSPHRASE = "tea with Jürgen"
RAW = bytes(range(32))
CANARY = "canary-7f3a"
LOG = Key("s", "chat", "one")
KEYS: list[Secret] = [PASSPHRASE, RAW, lambda: PASSPHRASE]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def fill(store: SqliteStore, times: int = 60) -> None:
    for n in range(times):
        entry = Entry("Note", encode({"x": f"{CANARY} {n}" * 9}), 1, n, sender=CANARY, text=CANARY)
        store.commit(Commit(new_id(), (), (Append(LOG, (entry,)),)))


def canaries(folder: Path) -> int:
    """Count the canary in every file, in both spellings that a text could have there."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    return sum(
        file.read_bytes().count(each) for file in files for each in (CANARY.encode(), CANARY.encode("utf-16-le"))
    )


def refused(path: Path, key: Secret | None, *, read_only: bool = False) -> str:
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch, match="nothing was changed") as error:
        open_file(path, key=key, read_only=read_only)
    assert path.read_bytes() == before
    return error.value.reason


@pytest.mark.parametrize("key", KEYS, ids=["passphrase", "bytes", "function"])
def test_what_was_written_is_read_with_the_key(path: Path, key: Secret) -> None:
    with SqliteStore(path, key=key) as store:
        fill(store, 3)
    with SqliteStore(path, key=key) as store:
        assert ask(store, Range(LOG)).length == 3
        assert store.check().ok
    with ReadOnlyStore(path, key=key) as reader:
        assert ask(reader, Range(LOG)).length == 3


@pytest.mark.parametrize("read_only", [False, True])
def test_a_missing_key_a_wrong_key_and_a_key_too_many_are_three_errors(path: Path, read_only: bool) -> None:
    with SqliteStore(path, key=PASSPHRASE) as store:
        fill(store, 1)
    assert refused(path, None, read_only=read_only) == "encrypted"
    assert refused(path, "another", read_only=read_only) == "key"
    assert refused(path, RAW, read_only=read_only) == "key"
    plain = path.with_name("plain.db")
    SqliteStore(plain).close()
    assert refused(plain, PASSPHRASE, read_only=read_only) == "plain"


def test_two_spellings_of_a_passphrase_are_one(path: Path) -> None:
    SqliteStore(path, key="J\u00fcrgen").close()
    SqliteStore(path, key="Ju\u0308rgen").close()


@pytest.mark.parametrize("wrong", ["", "\0", "\ud800", "x" * 5000, b"short", b"", lambda: None, lambda: b"x"])
def test_what_is_no_key_is_refused_without_being_shown(path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        SqliteStore(path, key=wrong)
    assert not path.exists()


def test_a_key_of_a_wrong_type_is_not_shown(path: Path) -> None:
    wrong: Any = [CANARY]
    for make in (SqliteStore, ReadOnlyStore, open_file, strongroom.open):
        with pytest.raises(InvalidInput) as error:
            make(path, key=wrong)
        assert CANARY not in str(error.value)


def test_no_byte_of_it_is_in_any_file(path: Path) -> None:
    with SqliteStore(path, key=PASSPHRASE) as store:
        fill(store)
        store.search(Find("s", "chat", ("canary",)))
        store.backup(path.with_name("same.db"))
        store.backup(path.with_name("other.db"), new_key=RAW)
        assert Path(f"{path}-wal").stat().st_size > 0
        assert canaries(path.parent) == 0
        store.compact()
        assert canaries(path.parent) == 0
    assert canaries(path.parent) == 0


AGENT = f"""
import os, signal, sys
import strongroom
path, how = sys.argv[1:]
ctx = strongroom.open(path, key="{PASSPHRASE}")
run = ctx.runs.create(objective="{CANARY}", run_id="r")
run.record("TOOL_CALL", {{"tool_name": "{CANARY}", "arguments": {{"x": "{CANARY}"}}}})
run.attach(b"{CANARY}" * 20_000, type="text")
session = ctx.sessions.open("{CANARY}")
session.append([{{"role": "user", "content": "{CANARY} " * 2_000}}])
session.search("{CANARY}")
ctx.memories.add("{CANARY} is the door")
ctx.memories.search("{CANARY}")
ctx.files.write("/{CANARY}.md", "{CANARY}")
ctx.threads.append("t", {{"x": "{CANARY}"}}, from_id="{CANARY}", to_id="b")
ctx.store.backup(path + ".backup")
run.export(path + ".run", key=b"p" * 32)
ctx.export(path + ".space", key="another passphrase")
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
ctx.store.compact()
ctx.close()
"""


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_no_byte_of_what_an_agent_keeps_is_in_any_file_that_its_process_leaves(path: Path, how: str) -> None:
    """In the database, its log, a backup, packs and temporary files. Not looked at: a core dump, which holds memory."""
    temporary = path.parent / "temporary"
    temporary.mkdir()
    places = dict.fromkeys(("TMPDIR", "SQLITE_TMPDIR"), str(temporary))
    done = subprocess.run([sys.executable, "-c", AGENT, str(path), how], env={**os.environ, **places}, timeout=300)
    assert done.returncode == {"closed": 0, "killed": -9}[how]
    assert {f"agent.db{ending}" for ending in ("", ".backup", ".run", ".space")} <= {
        file.name for file in path.parent.iterdir()
    }
    assert canaries(path.parent) == 0
    with strongroom.open(path, key=PASSPHRASE) as ctx:
        assert ctx.runs.get("r").working_set.objective == CANARY


def test_the_count_would_see_a_store_that_is_not_encrypted(path: Path) -> None:
    with SqliteStore(path) as store:
        fill(store)
        assert canaries(path.parent) > 0


def test_what_is_erased_is_gone_with_the_key_too(path: Path) -> None:
    with SqliteStore(path, key=RAW) as store:
        fill(store)
        assert store.commit(Commit(new_id(), (), (Erase(LOG, 0, 60),))).pending is None
        store.backup(path.with_name("plain.db"), decrypt=True)
    assert canaries(path.parent) == 0


def test_nothing_is_written_to_temporary_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", "/nowhere")
    with SqliteStore(path, key=RAW) as store:
        assert store._connect(writer=True).pragma("temp_store") != 1
        fill(store)
        store.compact()


def test_neither_the_store_nor_its_parts_show_the_key(path: Path) -> None:
    with SqliteStore(path, key=PASSPHRASE) as store:
        shown = repr(store) + repr(store._cipher) + str(vars(store))
        assert PASSPHRASE not in shown + str(vars(store._cipher))
        assert store._cipher._key not in shown


def test_a_passphrase_is_stretched_once_for_a_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    stretch = hashlib.pbkdf2_hmac

    def counted(name: str, secret: bytes, salt: bytes, rounds: int, length: int) -> bytes:
        calls.append(rounds)
        return stretch(name, secret, salt, rounds, length)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    SqliteStore(path, key=PASSPHRASE).close()
    calls.clear()
    with SqliteStore(path, key=PASSPHRASE) as store:
        fill(store, 3)
        store.search(Find("s", "chat", ("canary",)))
    assert calls == [encryption.ROUNDS]


def test_other_tools_open_it_with_the_same_passphrase(path: Path) -> None:
    with SqliteStore(path, key=PASSPHRASE) as store:
        fill(store, 3)
    con = apsw.Connection(str(path))
    con.pragma("key", PASSPHRASE)
    assert con.execute("SELECT count(*) FROM record").fetchall() == [(3,)]
    con.close()


def _create(path: Path, number: int) -> None:
    with SqliteStore(path, key=PASSPHRASE) as store:
        store.commit(Commit(f"n{number}", (), (Append(LOG, (Entry("Note", encode(number)),)),)))


def test_several_who_create_it_at_once_agree_on_one_salt(path: Path) -> None:
    program = (
        "import sys; from tests.sqlite.test_encryption import _create, Path; _create(Path(sys.argv[1]), sys.argv[2])"
    )
    folder = str(Path(__file__).parents[2])
    started = [subprocess.Popen([sys.executable, "-c", program, str(path), str(n)], cwd=folder) for n in range(4)]
    assert [each.wait() for each in started] == [0] * 4
    with SqliteStore(path, key=PASSPHRASE) as store:
        assert ask(store, Range(LOG)).length == 4


def test_a_second_store_in_one_process_does_not_lose_its_locks(path: Path) -> None:
    with SqliteStore(path, key=RAW) as store:
        fill(store, 1)
        SqliteStore(path, key=RAW).close()  # looks at how the file begins
        apart(_add, path)
        assert Path(f"{path}-wal").exists()  # whoever closed last elsewhere knew of us
        fill(store, 1)
        assert ask(store, Range(LOG)).length == 3


def _add(path: Path) -> None:
    with SqliteStore(path, key=RAW) as store:
        fill(store, 1)


def test_an_apsw_that_cannot_encrypt_says_how_to_get_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(apsw, "mc_version")
    SqliteStore(path).close()
    with pytest.raises(Unavailable, match="pip install") as error:
        SqliteStore(path.with_name("other.db"), key=RAW)
    assert error.value.reason == "encryption"
    assert not path.with_name("other.db").exists()


# ---- from the environment -------------------------------------------------------------------------------------------


def test_the_environment_names_a_key_in_three_ways(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{PASSPHRASE}\n")
    for environ in (
        {"STRONGROOM_KEY": PASSPHRASE},
        {"STRONGROOM_KEY_FILE": str(file)},
        {"STRONGROOM_KEY_COMMAND": f"{shlex.quote(sys.executable)} -c \"print('tea with J\\xfcrgen')\""},
    ):
        found = from_environment(environ=environ)
        assert found is not None
        assert fetched(found) == PASSPHRASE


def test_hex_stands_for_raw_bytes() -> None:
    found = from_environment(environ={"STRONGROOM_KEY": "hex:" + RAW.hex()})
    assert found is not None
    assert fetched(found) == RAW


BAD: list[tuple[dict[str, str], type[StrongroomError]]] = [
    ({"STRONGROOM_KEY": "hex:" + CANARY}, InvalidInput),
    ({"STRONGROOM_KEY": "hex:00"}, InvalidInput),
    ({"STRONGROOM_KEY_FILE": "/nowhere/at/all"}, InvalidInput),
    ({"STRONGROOM_KEY_COMMAND": "/nowhere/at/all"}, InvalidInput),
    ({"STRONGROOM_KEY_COMMAND": "'"}, InvalidInput),
    ({"STRONGROOM_KEY_COMMAND": "false"}, Unavailable),
    ({"STRONGROOM_KEY_COMMAND": "true"}, InvalidInput),
    ({"STRONGROOM_KEY_COMMAND": f"yes {CANARY}"}, InvalidInput),  # more than any key has, and no end
]


@pytest.mark.parametrize("name", ["STRONGROOM_KEY", "STRONGROOM_KEY_FILE", "STRONGROOM_KEY_COMMAND"])
def test_an_empty_setting_does_not_mean_no_key(name: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        from_environment(environ={name: ""})


@pytest.mark.parametrize(("environ", "kind"), BAD)
def test_a_key_that_cannot_be_had_is_an_error_without_it(environ: dict[str, str], kind: type[StrongroomError]) -> None:
    found = from_environment(environ=environ)
    assert found is not None
    with pytest.raises(kind) as error:
        fetched(found)
    assert CANARY not in str(error.value)


def test_a_command_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_SECONDS", 0.05)
    for command in ("sleep 600", "sh -c 'exec >&-; sleep 600'"):
        found = from_environment(environ={"STRONGROOM_KEY_COMMAND": command})
        assert found is not None
        with pytest.raises(Unavailable, match="took more than"):
            fetched(found)


def test_two_keys_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="STRONGROOM_KEY and STRONGROOM_KEY_FILE"):
        from_environment(environ={"STRONGROOM_KEY": "a", "STRONGROOM_KEY_FILE": "b"})


@pytest.fixture
def in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONGROOM_KEY", PASSPHRASE)


@pytest.mark.usefixtures("in_environment")
async def test_whoever_opens_a_file_hears_the_environment(path: Path) -> None:
    with strongroom.open(path) as ctx:
        ctx.sessions.open("one").append([{"role": "user", "content": CANARY}])
    async with strongroom.aopen(path) as ctx:
        assert await (await ctx.sessions.open("one")).load(k=1)
    assert canaries(path.parent) == 0
    assert refused(path, "another") == "key"


@pytest.mark.usefixtures("in_environment")
def test_a_store_without_a_file_does_not_care() -> None:
    strongroom.open("memory://").close()


def test_a_key_for_a_store_without_a_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no option 'key'"):
        strongroom.open("memory://", key=PASSPHRASE)


@pytest.mark.usefixtures("in_environment")
def test_a_worker_hears_it_too(path: Path) -> None:
    program = "import sys, strongroom; strongroom.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env={**os.environ})
    assert refused(path, None) == "encrypted"


def test_errors_with_the_key_wrong_leave_it_out_of_tracebacks(path: Path) -> None:
    SqliteStore(path, key=PASSPHRASE).close()
    told = io.StringIO()
    attempts: list[Callable[[], object]] = [
        lambda: SqliteStore(path, key=CANARY),
        lambda: ReadOnlyStore(path, key=CANARY),
        lambda: strongroom.open(path, key=CANARY),
    ]
    for attempt in attempts:
        try:
            attempt()
        except StrongroomError as error:
            print(repr(error), repr(error.__cause__), repr(error.__context__), file=told)
    assert CANARY not in told.getvalue()
    assert told.getvalue().count("does not open") == 3


def test_no_trace_with_the_values_of_its_frames_shows_a_key(path: Path) -> None:
    SqliteStore(path, key=PASSPHRASE).close()
    pack, nowhere, raw = path.with_name("pack"), path.parent / "nowhere" / "a", CANARY.encode().ljust(32, b".")
    wrong: dict[str, Callable[[], Any]] = {"text": lambda: CANARY, "bytes": lambda: raw}
    with strongroom.open(path, key=PASSPHRASE) as ctx, SqliteStore(path, key=PASSPHRASE) as store:
        run = ctx.runs.create(objective="x")
        run.export(pack, key=PASSPHRASE)
        attempts: list[Callable[[Callable[[], Any]], object]] = [
            lambda key: SqliteStore(path, key=key()),
            lambda key: ReadOnlyStore(path, key=key()),
            lambda key: strongroom.open(path, key=key()),
            lambda key: strongroom.open(path, key=key() * 1000),
            lambda key: asyncio.run(_enter(strongroom.aopen(path, key=key()))),
            lambda key: strongroom.open(nowhere, key=key()),
            lambda key: store.backup(nowhere, new_key=key()),
            lambda key: rekey(path, key=key(), new_key=None),
            lambda key: rekey(nowhere, key=None, new_key=key()),
            lambda key: run.export(nowhere, key=key()),
            lambda key: ctx.runs.restore(pack, key=key()),
            lambda key: ctx.export(nowhere, key=key()),
            lambda key: ctx.restore(pack, key=key()),
            lambda key: fetched(_required(from_environment(environ={"STRONGROOM_KEY": f"hex:{CANARY}"}))),
        ]
        for attempt in attempts:
            for key in wrong.values():
                with pytest.raises(StrongroomError) as refused:
                    attempt(key)
                told = _values_in(traceback.TracebackException.from_exception(refused.value, capture_locals=True))
                assert "key" in told
                assert CANARY not in told
                assert CANARY.encode().hex() not in told


def _values_in(trace: traceback.TracebackException | None) -> str:
    """Return what a trace shows, its causes included, in frames that are not of this file."""
    if trace is None:
        return ""
    frames = [repr(frame.locals) for frame in trace.stack if frame.filename != __file__]
    return "".join([*frames, str(trace), _values_in(trace.__cause__), _values_in(trace.__context__)])


async def _enter(opening: Any) -> None:
    async with opening:
        pass


def _required(secret: Secret | None) -> Secret:
    assert secret is not None
    return secret
