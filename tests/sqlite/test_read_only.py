"""Reading needs no right to write. Permissions do not bind root, so the reader is a process that gave that up."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, open_file, read_only
from strongroom.checking import check
from strongroom.codec import Json, encode
from strongroom.copying import copy
from strongroom.errors import InvalidInput, SchemaMismatch, Unavailable
from strongroom.opening import WRITING, open_store
from strongroom.store import Append, Commit, Entry, Get, Key, Put, Range, Store, ask, new_id
from tests.crash.processes import apart
from tests.missing import not_here

DOC, LOG = Key("default", "doc", "one"), Key("default", "log", "one")
SIDECARS = ("-wal", "-shm", "-queue", "-journal")


def value(store: Store) -> Json:
    found = ask(store, Get(DOC))
    assert found is not None
    return found.value


def put(number: int) -> Commit:
    return Commit(new_id(), (), (Put(DOC, encode(number)), Append(LOG, (Entry("n", encode(number)),))))


def furnish(path: Path) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(objective="Build a scraper", run_id="scraper")
        run.update(status="BUSY")
        session = ctx.sessions.open("talk")
        session.append({"role": "user", "content": "the quick brown fox"})
        assert session.search("fox", k=1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written to once `lock` was called."""
    made = tmp_path / "files"
    made.mkdir()
    yield made
    made.chmod(0o755)


def lock(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


READER = """
import json, sys
import strongroom
from strongroom.checking import check
from strongroom.copying import copy
from strongroom.opening import open_store
with strongroom.open(sys.argv[1], read_only=True) as ctx:
    told = {"runs": [run.id for run in ctx.runs.list()], "status": ctx.runs.get("scraper").working_set.status}
    told["verified"] = ctx.runs.get("scraper").verify().ok
    told["found"] = ctx.sessions.get("talk").search("fox", k=1)[0].message["content"]
    told["checked"] = check(ctx.store).ok
    told["copied"] = copy(ctx.store, open_store("memory://")).keys > 0
    try:
        ctx.runs.get("scraper").update(status="DONE")
    except strongroom.Unavailable as refused:
        told["refused"] = [refused.reason, str(refused)]
    told["still"] = ctx.runs.get("scraper").working_set.status
print(json.dumps(told))
"""
GOOD = {
    "runs": ["scraper"], "status": "BUSY", "verified": True, "found": "the quick brown fox", "checked": True,
    "copied": True, "still": "BUSY", "refused": ["read_only", "this store is opened read-only; nothing changed"],
}  # fmt: skip


# Root without the capabilities that lift it above permissions, for good: they do not come back with the next program.
# Another user would do as well, if only the interpreter did not often lie where other users may not go.
BOUND = """
import ctypes, os, sys
for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(24, capability, 0, 0, 0):
        sys.exit("cannot be bound by permissions")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def bound(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run Python as somebody whom permissions bind."""
    command = [sys.executable, "-c", BOUND, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def test_a_file_in_a_read_only_folder_is_read_searched_verified_and_copied(folder: Path) -> None:
    furnish(folder / "agent.db")
    lock(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    told = bound("-c", READER, str(folder / "agent.db"))
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout) == GOOD
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_read_only_file_in_a_folder_of_ones_own_gets_no_files_beside_it(folder: Path) -> None:
    furnish(folder / "agent.db")
    for suffix in SIDECARS:
        Path(f"{folder / 'agent.db'}{suffix}").unlink(missing_ok=True)
    (folder / "agent.db").chmod(0o444)
    folder.chmod(0o777)
    told = bound("-c", READER, str(folder / "agent.db"))
    assert json.loads(told.stdout) == GOOD
    assert [file.name for file in folder.iterdir()] == ["agent.db"]


def test_what_a_live_writer_has_in_its_log_is_seen(folder: Path) -> None:
    with strongroom.open(folder / "agent.db") as ctx:  # stays open: everything is in the log
        run = ctx.runs.create(objective="Build a scraper", run_id="scraper")
        run.update(status="BUSY")
        ctx.sessions.open("talk").append({"role": "user", "content": "the quick brown fox"})
        assert ctx.sessions.get("talk").search("fox", k=1)
        lock(folder)
        told = bound("-c", READER, str(folder / "agent.db"))
    assert json.loads(told.stdout) == GOOD


def killed(path: Path) -> None:
    """Leave a log with commits behind, as a process does that is killed."""
    program = """
import os, sys
import strongroom
from strongroom.codec import encode
from strongroom.store import Commit, Put, Key
ctx = strongroom.open(sys.argv[1])
ctx.store.commit(Commit("late", (), (Put(Key("default", "doc", "one"), encode("late")),)))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)


LOOK = """
import sys
import strongroom
from strongroom.store import Get, Key
with strongroom.open(sys.argv[1], read_only=True) as ctx:
    print(ctx.store.read([Get(Key("default", "doc", "one"))])[0].value.decode())
"""


def test_what_a_killed_writer_left_in_its_log_is_seen(folder: Path) -> None:
    furnish(folder / "agent.db")
    killed(folder / "agent.db")
    lock(folder)
    assert bound("-c", LOOK, str(folder / "agent.db")).stdout == '"late"\n'


def test_a_log_that_cannot_be_read_is_told_of_and_no_older_state_is_shown(folder: Path) -> None:
    furnish(folder / "agent.db")
    killed(folder / "agent.db")
    (folder / "agent.db-shm").unlink()
    lock(folder)
    told = bound("-m", "strongroom", "--url", str(folder / "agent.db"), "runs", "list")
    assert (told.returncode, told.stdout) == (3, "")
    assert "agent.db-wal holds commits that agent.db does not have yet" in told.stderr
    assert "nothing changed" not in told.stderr


@pytest.mark.parametrize(
    "command",
    [
        "runs list",
        "runs show scraper",
        "runs verify scraper",
        "sessions search fox",
        "check",
        "doctor",
        "sessions list",
    ],
)
def test_commands_that_read_need_no_right_to_write(folder: Path, tmp_path: Path, command: str) -> None:
    furnish(folder / "agent.db")
    lock(folder)
    told = bound("-m", "strongroom", *command.split(), cwd=folder)
    assert (told.returncode, told.stderr) == (0, "")


def test_commands_that_write_say_why_they_cannot(folder: Path) -> None:
    furnish(folder / "agent.db")
    lock(folder)
    told = bound("-m", "strongroom", "runs", "fork", "scraper", cwd=folder)
    assert told.returncode == 3
    assert "opened read-only; nothing changed" in told.stderr


def test_a_run_is_exported_from_a_read_only_file_by_the_command(folder: Path, tmp_path: Path) -> None:
    furnish(folder / "agent.db")
    lock(folder)
    target = tmp_path / "open"
    target.mkdir()
    target.chmod(0o777)
    before = (folder / "agent.db").read_bytes()
    told = bound("-m", "strongroom", "runs", "export", "scraper", str(target / "run.zip"), cwd=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert (folder / "agent.db").read_bytes() == before
    with strongroom.open("memory://") as ctx:
        assert ctx.runs.restore(target / "run.zip").id == "scraper"


def test_a_read_only_file_is_copied_by_the_command(folder: Path, tmp_path: Path) -> None:
    furnish(folder / "agent.db")
    lock(folder)
    target = tmp_path / "open"
    target.mkdir()
    target.chmod(0o777)
    told = bound("-m", "strongroom", "copy", "agent.db", str(target / "a.db"), cwd=folder)
    assert "both stores agree" in told.stdout


def _on_a_read_only_mount(folder: Path) -> str:
    """Bind the folder to itself, read-only, where only this process sees it."""
    libc = ctypes.CDLL(None, use_errno=True)
    bind, remount, read_only, private = 4096, 32, 1, 1 << 18 | 1 << 14
    here = os.fsencode(folder)
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, private, None):
        return "cannot mount"
    if libc.mount(here, here, None, bind, None) or libc.mount(here, here, None, bind | remount | read_only, None):
        return "cannot mount"
    with pytest.raises(Unavailable, match="read_only=True"):
        SqliteStore(folder / "agent.db")
    told = subprocess.run(
        [sys.executable, "-c", READER, str(folder / "agent.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout + told.stderr


def test_a_file_on_a_read_only_mount_is_read(folder: Path) -> None:
    furnish(folder / "agent.db")
    told = apart(_on_a_read_only_mount, folder)
    if told == "cannot mount":
        not_here("a mount", "this user may not mount anything")
    assert json.loads(told) == GOOD


# ---- a writer that comes and goes meanwhile -------------------------------------------------------------------------


def test_a_reader_follows_a_writer_that_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    with ReadOnlyStore(path) as reader:
        for number in range(1, 6):
            with SqliteStore(path) as writer:
                writer.commit(put(number))
                assert value(reader) == encode(number)
                writer.commit(put(-number))
                assert value(reader) == encode(-number)
            assert value(reader) == encode(-number)
        assert ask(reader, Range(LOG)).length == 11


def test_an_answer_during_which_a_writer_came_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    asked: list[int] = []
    with ReadOnlyStore(path) as reader:

        def work(con: apsw.Connection) -> int:
            found: Any = con.execute("SELECT count(*) FROM record").fetchone()
            if not asked:
                with SqliteStore(path) as writer:
                    writer.commit(put(1))
            asked.append(found[0])
            return int(found[0])

        assert reader._ask(work) == 2
    assert asked == [1, 2]


class Clock:
    """Time for a reader: it stands still in the instant in which a file was written, until the reader rests."""

    def __init__(self, written: Path, *, rests: int) -> None:
        self._instant, self._rests = written.stat().st_mtime_ns + 1_000_000, rests
        self.rested = 0

    def time_ns(self) -> int:
        return self._instant + (60_000_000 if self.rested >= self._rests else 0)

    def monotonic(self) -> float:
        return float(self.rested)

    def sleep(self, _seconds: float) -> None:
        self.rested += 1
        assert self.rested < 10, "it waits for ever"


def test_writes_that_leave_no_newer_time_behind_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    clock = Clock(path, rests=2)
    monkeypatch.setattr(read_only, "time", clock)
    with ReadOnlyStore(path) as reader:
        assert value(reader) == encode(0)
    assert clock.rested == 2  # it did not look in the instant in which the file was written


def test_a_reader_that_is_stopped_after_a_look_does_not_take_the_file_for_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    clock, look = Clock(path, rests=100), read_only._look

    def stopped(path: Path) -> read_only.Look:
        looked = look(path)
        monkeypatch.setattr(clock, "_rests", clock.rested)  # so long that the instant of the write is over
        return looked

    monkeypatch.setattr(read_only, "_look", stopped)
    monkeypatch.setattr(read_only, "time", clock)
    with ReadOnlyStore(path):
        assert clock.rested == 1  # it looked once more


def test_a_reader_beside_a_writer_that_never_rests_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(7))
        clock = Clock(Path(f"{path}-wal"), rests=100)
        monkeypatch.setattr(read_only, "time", clock)
        with ReadOnlyStore(path) as reader:
            assert value(reader) == encode(7)
    assert clock.rested == 0


def test_a_reader_that_waits_for_quiet_finds_what_came_into_the_log_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    clock = Clock(path, rests=100)
    with ExitStack() as writers:

        def sleep(seconds: float) -> None:
            writers.enter_context(SqliteStore(path)).commit(put(1))

        monkeypatch.setattr(clock, "sleep", sleep)
        monkeypatch.setattr(read_only, "time", clock)
        with ReadOnlyStore(path) as reader:
            assert value(reader) == encode(1)


def test_a_reader_whose_file_is_never_at_rest_says_so_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
    clock = Clock(path, rests=100)
    monkeypatch.setattr(read_only, "time", clock)
    with pytest.raises(Unavailable, match="written to the whole time") as refused:
        ReadOnlyStore(path, timeout_seconds=3)
    assert (refused.value.reason, clock.rested) == ("locked", 4)


def test_a_file_that_was_exchanged_is_read_as_it_is_now(tmp_path: Path) -> None:
    old, new = tmp_path / "agent.db", tmp_path / "new.db"
    for number, path in enumerate((old, new)):
        with SqliteStore(path) as writer:
            writer.commit(put(number))
    with ReadOnlyStore(old) as reader:
        assert value(reader) == encode(0)
        new.replace(old)
        assert value(reader) == encode(1)


def test_a_reader_keeps_nothing_of_a_writers_log_from_it(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore(path) as writer:
        writer.commit(put(0))
        with ReadOnlyStore(path) as reader:
            assert value(reader) == encode(0)
            writer.commit(put(1))
        writer.commit(put(2))
    with ReadOnlyStore(path) as reader:
        assert value(reader) == encode(2)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ReadOnlyStore]:
    furnish(tmp_path / "agent.db")
    with ReadOnlyStore(tmp_path / "agent.db") as opened:
        yield opened


def test_whatever_writes_is_refused(reader: ReadOnlyStore) -> None:
    items = reader.unload(None, 10).items
    for write in (lambda: reader.commit(put(1)), lambda: reader.load(items), reader.compact):
        with pytest.raises(Unavailable, match="opened read-only; nothing changed") as refused:
            write()
        assert refused.value.reason == "read_only"


async def test_an_export_that_cannot_be_recorded_names_the_one_that_is_not(tmp_path: Path) -> None:
    furnish(tmp_path / "agent.db")
    async with await strongroom.aopen(tmp_path / "agent.db", read_only=True) as ctx:
        run = await ctx.runs.get("scraper")
        with pytest.raises(Unavailable, match=r"opened read-only; nothing changed in it; .*record=False") as refused:
            await run.export(tmp_path / "a.zip")
        assert refused.value.reason == "read_only" and (tmp_path / "a.zip").exists()
        assert (await run.export(tmp_path / "b.zip", record=False)).run_id == "scraper"
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


async def test_async_code_is_refused_too_and_reads(tmp_path: Path) -> None:
    furnish(tmp_path / "agent.db")
    async with await strongroom.aopen(tmp_path / "agent.db", read_only=True) as ctx:
        run = await ctx.runs.get("scraper")
        with pytest.raises(Unavailable, match="opened read-only; nothing changed"):
            await run.update(status="DONE")
        assert (await ctx.sessions.search("fox", k=1))[0].message["content"] == "the quick brown fox"


def test_a_search_for_what_is_not_indexed_yet_says_so(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.sessions.open("talk").append({"role": "user", "content": "the quick brown fox"})
    refused = pytest.raises(Unavailable, match="index of words lacks what was written last")
    with strongroom.open(tmp_path / "agent.db", read_only=True) as ctx, refused:
        ctx.sessions.search("fox", k=1)


def test_what_waits_is_listed_and_a_run_is_told_also_without_an_index(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.memories.add("likes tea")
        ctx.memories.add("likes coffee", proposer="agent-7")
        ctx.runs.create(objective="buy tea", run_id="r")
    with strongroom.open(tmp_path / "agent.db", read_only=True) as ctx:
        waiting = ctx.memories.pending()
        brief = ctx.runs.get("r").brief()
    assert [batch.proposals[0].request.content for batch in waiting] == ["likes coffee"]
    assert "not looked for: the index of words lacks" in str(waiting.degraded)
    assert "buy tea" in brief.text
    assert [one.reason for one in brief.receipt.left_out] == ["no_index"]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="there is no file") as refused:
        ReadOnlyStore(tmp_path / "agent.db")
    assert refused.value.reason == "missing"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_store_yet(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()
    with pytest.raises(SchemaMismatch, match="no store yet"):
        ReadOnlyStore(tmp_path / "agent.db")


def test_a_backup_is_read_as_it_is(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        store.commit(put(7))
        store.backup(tmp_path / "backup.db")
    before = (tmp_path / "backup.db").read_bytes()
    with ReadOnlyStore(tmp_path / "backup.db") as reader:
        assert value(reader) == encode(7)
        assert check(reader).ok
    assert (tmp_path / "backup.db").read_bytes() == before
    assert not (tmp_path / "backup.db-wal").exists()


@pytest.mark.parametrize("option", [{"durability": "relaxed"}, {"max_record_bytes": 10}, {"repeats": "1d"}])
def test_an_option_of_writers_is_refused_by_name(folder: Path, option: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidInput, match=rf"no option '{next(iter(option))}'; it has read_only, timeout_seconds, key;"
    ):
        strongroom.open(folder / "agent.db", read_only=True, **option)


def test_what_is_not_refused_is_what_a_reader_takes() -> None:
    taken = {name for name, each in signature(ReadOnlyStore).parameters.items() if each.kind is each.KEYWORD_ONLY}
    every = {name for name, each in signature(open_file).parameters.items() if each.kind is each.KEYWORD_ONLY}
    assert every - WRITING == taken | {"read_only"}


def test_what_the_environment_says_to_writers_is_not_for_readers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(folder / "agent.db")
    monkeypatch.setenv("STRONGROOM_REPEATS", "90d")
    strongroom.open(folder / "agent.db", read_only=True).close()


def test_other_stores_have_no_such_option() -> None:
    with pytest.raises(InvalidInput, match="no option 'read_only'"):
        strongroom.open("memory://", read_only=True)


def test_a_read_only_store_is_copied_from_and_backed_up(reader: ReadOnlyStore, tmp_path: Path) -> None:
    assert copy(reader, open_store("memory://")).keys > 0
    reader.backup(tmp_path / "b.db")
    shutil.copy(tmp_path / "b.db", tmp_path / "c.db")
    with SqliteStore(tmp_path / "c.db") as store:
        assert store.check().ok


def test_waiting_ends_when_somebody_else_appends(reader: ReadOnlyStore) -> None:
    with SqliteStore(reader.path) as writer:
        writer.commit(put(1))
        reader.wait(LOG, 0, 60.0)
        assert ask(reader, Range(LOG)).length == 1
