"""How long ids are kept in a file, by the clock of whoever sweeps; and that a receipt that is read is durable."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore, committer
from strongroom.bridge import Threaded
from strongroom.codec import encode
from strongroom.errors import Damaged, InvalidInput, Unavailable
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Entry,
    Key,
    Put,
    Range,
    ReceiptOf,
    Repeats,
    Slice,
    Store,
    ask,
    new_id,
)
from tests.faults.disk import Disk, Kind

LOG, NOTE = Key("ana", "log", "one"), Key("ana", "note", "n")
HOUR, DAY = 3600.0, 86400.0
MAKERS: dict[str, Callable[..., Store]] = {
    "memory": lambda path, **options: MemoryStore(**options),
    "sqlite": lambda path, **options: SqliteStore(path, durability="relaxed", **options),
}


class Clock:
    """Tells the time that a test says it is."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(committer, "SWEEP_EVERY", 4)
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture(params=MAKERS)
def opened(request: pytest.FixtureRequest, path: Path, clock: Clock) -> Iterator[Callable[..., Store]]:
    stores: list[Store] = []

    def open(**options: object) -> Store:
        stores.append(MAKERS[request.param](path, clock=clock, **options))
        return stores[-1]

    yield open
    for store in stores:
        store.close()


def commit(id: str, keep: bool, last: str = "append") -> Commit:
    write = Append(LOG, (Entry("Note", encode(1)),)) if last == "append" else Put(NOTE, encode(1))
    return Commit(id, (), (write,), b"what was asked..", encode("told") if keep else None, keep)


def go_on(store: Store) -> None:
    """Commit often enough for everything that may be swept to be swept."""
    for _ in range(12):
        store.commit(commit(new_id(), keep=False))


def is_known(store: Store, made: Commit) -> bool:
    """Tell whether a commit is remembered, by asking and by repeating it, which must agree."""
    found = ask(store, ReceiptOf("ana", made.id))
    assert store.commit(made).repeated == (found is not None)
    return found is not None


@pytest.mark.parametrize("last", ["append", "put"])
def test_an_id_that_a_caller_chose_is_kept_for_29_days(opened: Callable[..., Store], clock: Clock, last: str) -> None:
    store = opened()
    first = store.commit(commit("turn-7", True, last))
    clock.seconds += 29 * DAY
    go_on(store)
    assert store.commit(commit("turn-7", True, last)) == replace(first, repeated=True)


@pytest.mark.parametrize("last", ["append", "put"])
def test_after_31_days_it_is_forgotten(opened: Callable[..., Store], clock: Clock, last: str) -> None:
    store = opened()
    store.commit(commit("turn-7", True, last))
    clock.seconds += 31 * DAY
    go_on(store)
    assert not is_known(store, commit("turn-7", True, last))


def test_it_can_be_kept_for_ever(opened: Callable[..., Store], clock: Clock) -> None:
    store = opened(repeats="forever")
    store.commit(commit("turn-7", True))
    for _ in range(5):
        clock.seconds += 20 * 365 * DAY
        go_on(store)
        assert is_known(store, commit("turn-7", True))


@pytest.mark.parametrize("repeats", ["48h", "2d", timedelta(days=2)])
def test_it_is_kept_as_long_as_was_asked_for(opened: Callable[..., Store], clock: Clock, repeats: Repeats) -> None:
    store = opened(repeats=repeats)
    store.commit(commit("a", True))
    clock.seconds += 47 * HOUR
    go_on(store)
    assert is_known(store, commit("a", True))
    clock.seconds += 2 * HOUR
    go_on(store)
    assert not is_known(store, commit("a", True))


@pytest.mark.parametrize("last", ["append", "put"])
def test_an_id_of_ours_is_kept_for_an_hour(opened: Callable[..., Store], clock: Clock, last: str) -> None:
    store, made = opened(), commit(new_id(), False, last)
    store.commit(made)
    clock.seconds += 0.9 * HOUR
    go_on(store)
    assert is_known(store, made)
    clock.seconds += 1.2 * HOUR
    go_on(store)
    assert ask(store, ReceiptOf("ana", made.id)) is None


@pytest.mark.parametrize("wrong", ["", "30", "0d", "1w", "Forever", timedelta(minutes=59), timedelta(days=-1)])
def test_another_retention_is_refused(opened: Callable[..., Store], wrong: Repeats) -> None:
    with pytest.raises(InvalidInput, match="repeats must be 'forever'"):
        opened(repeats=wrong)


# ---- two processes --------------------------------------------------------------------------------------------------


def test_who_keeps_ids_for_a_shorter_time_sweeps_none_of_the_others(path: Path, clock: Clock) -> None:
    with (
        SqliteStore(path, clock=clock, repeats="forever") as long,
        SqliteStore(path, clock=clock, repeats="1h") as short,
    ):
        long.commit(commit("kept", True))
        short.commit(commit("swept", True))
        clock.seconds += 400 * DAY
        go_on(short)
        go_on(long)
        assert ask(long, ReceiptOf("ana", "kept")) == ask(short, ReceiptOf("ana", "kept")) is not None
        assert ask(long, ReceiptOf("ana", "swept")) is None


def test_ids_are_kept_across_opening(path: Path, clock: Clock) -> None:
    with SqliteStore(path, clock=clock) as store:
        store.commit(commit("turn-7", True))
    clock.seconds += 29 * DAY
    with SqliteStore(path, clock=clock, repeats="1h") as store:
        go_on(store)
        assert is_known(store, commit("turn-7", True))


# ---- an id that is greater than all others is new -------------------------------------------------------------------


def test_words_do_not_keep_ids_of_ours_from_being_known_as_new(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(commit("turn-7", True))
        made = [commit(new_id(), False) for _ in range(3)]
        for each in made:
            store.commit(each)
        assert all(id not in _filed(path) for id in (made[1].id, made[2].id))
    with SqliteStore(path) as store:
        assert [store.commit(each).repeated for each in made] == [True] * 3


@pytest.mark.parametrize("id", ["f" * 32, "e" * 31 + "g", "g", "!", "~" * 32, "F" * 32])
def test_whatever_id_came_before_a_repeat_is_known(path: Path, id: str) -> None:
    with SqliteStore(path) as store:
        first, second = commit(new_id(), False), commit(new_id(), False)
        for each in (first, commit(id, True), second):
            assert not store.commit(each).repeated
        assert [store.commit(each).repeated for each in (first, commit(id, True), second)] == [True] * 3
    with SqliteStore(path) as store:
        assert [store.commit(each).repeated for each in (second, first, commit(id, True))] == [True] * 3


def _filed(path: Path) -> set[str]:
    con = apsw.Connection(str(path))
    try:
        return {id for (id,) in con.execute("SELECT id FROM receipt")}
    finally:
        con.close()


# ---- a receipt that is read is durable ------------------------------------------------------------------------------


MADE = {"chosen": lambda: commit("turn-7", True), "ours": lambda: commit(new_id(), False)}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_receipt_that_is_found_is_synced_before_it_is_answered(path: Path, make: Callable[[], Commit]) -> None:
    with Disk(path) as disk, SqliteStore(path) as store:
        store.commit(commit(new_id(), False))
        made = make()
        first, before = store.commit(made), disk.count("sync")
        assert ask(store, ReceiptOf("ana", "unknown")) is None
        assert disk.count("sync") == before
        assert ask(store, ReceiptOf("ana", made.id)) == replace(first, repeated=True)
        assert disk.count("sync") > before


@pytest.mark.parametrize("code", [apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_FULL])
def test_a_receipt_that_cannot_be_made_durable_is_not_answered(path: Path, code: int) -> None:
    kind: Kind = "sync" if code == apsw.SQLITE_IOERR_FSYNC else "write"
    with Disk(path) as disk, SqliteStore(path) as store:
        first = store.commit(commit("turn-7", True))
        disk.fail(kind, code, times=math.inf)
        with pytest.raises(Unavailable):
            ask(store, ReceiptOf("ana", "turn-7"))
        disk.heal()
        assert ask(store, ReceiptOf("ana", "turn-7")) == replace(first, repeated=True)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
async def test_an_event_loop_does_not_wait_for_that(path: Path, make: Callable[[], Commit]) -> None:
    file = SqliteStore(path)
    store = Threaded(file)
    try:
        made = make()
        first = await store.commit(made)
        questions: list[AnyQuestion] = [ReceiptOf("ana", made.id), ReceiptOf("ana", "unknown"), Range(LOG)]
        with file._group.alone():  # as if the disk took its time
            asked = asyncio.ensure_future(store.read(questions))
            assert await store.read([ReceiptOf("ana", "unknown")]) == [None]
            assert not asked.done()
        found, unknown, log = await asked
        assert (found, unknown) == (replace(first, repeated=True), None)
        assert isinstance(log, Slice) and log.length == 1
    finally:
        await store.close()


# ---- a receipt that is not what was written -------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["digest", "versions", "answer"])
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_damaged_receipt_is_never_served(path: Path, column: str, make: Callable[[], Commit]) -> None:
    made = make()
    with SqliteStore(path) as store:
        store.commit(made)
        store.commit(commit("later", True))
        store.commit(replace(made, digest=made.digest))  # files it
        assert store.check().ok
    con = apsw.Connection(str(path))
    con.execute(f"UPDATE receipt SET {column} = CAST('[8]' AS BLOB) WHERE id = ?", (made.id,))
    con.close()
    with SqliteStore(path) as store:
        assert store.check().problems == (f"the receipt of commit {made.id!r} in 'ana': does not match its checksum",)
        with pytest.raises(Damaged, match="receipt"):
            ask(store, ReceiptOf("ana", made.id))
        with pytest.raises(Damaged, match="receipt"):
            store.commit(made)
        assert not store.commit(commit("another", True)).repeated
