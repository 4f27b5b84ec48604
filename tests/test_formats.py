"""Every file format there ever was opens, and holds what was written; a migration happens whole or not at all."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.backends.memory import MemoryStore
from holdfast.backends.sqlite import SqliteStore, schema
from holdfast.codec import encode
from holdfast.errors import StoreError
from holdfast.store import Commit, Get, Movable, Parcel, Put
from tests.fixtures import make

FORMATS = sorted(make.FOLDER.glob("format-*.db"))


def everything(store: Movable) -> list[Parcel]:
    """Return all that a store holds, tombstones, hashes and erased records included."""
    shipment = store.unload(None, 10_000)
    assert shipment.next is None
    return list(shipment.parcels)


@pytest.fixture(params=range(1, schema.FORMAT + 1))
def format(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(format: int, tmp_path: Path) -> Path:
    """A copy of the fixture of each format."""
    return Path(shutil.copyfile(make.FOLDER / f"format-{format}.db", tmp_path / "agent.db"))


@pytest.fixture
def reference(format: int) -> MemoryStore:
    """The reference store after the same commits."""
    store = MemoryStore()
    for commit in make.commits(format):
        store.commit(commit)
    return store


def test_there_is_a_fixture_of_every_format() -> None:
    numbers = [int(re.findall(r"\d+", fixture.stem)[0]) for fixture in FORMATS]
    assert numbers == list(range(1, schema.FORMAT + 1))


def test_a_file_of_every_format_is_found_whole(path: Path) -> None:
    with SqliteStore(path) as store:
        assert store.check().problems == ()


def test_a_file_of_every_format_holds_what_was_written(path: Path, reference: MemoryStore) -> None:
    with SqliteStore(path) as store:
        assert everything(store) == everything(reference)


def test_a_file_of_every_format_is_searched_as_before(path: Path, reference: MemoryStore) -> None:
    with SqliteStore(path) as store:
        for find in make.FINDS:
            found = store.search(find)
            assert found.total > 0
            assert found == reference.search(find)


def test_a_file_of_every_format_remembers_its_commits(path: Path, format: int, reference: MemoryStore) -> None:
    with SqliteStore(path) as store:
        for commit in make.commits(format):
            assert store.commit(commit) == reference.commit(commit)
        assert everything(store) == everything(reference)


def test_a_file_of_every_format_can_be_written_to(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(Commit("more", (), (Put(make.TOMBSTONE, encode("alive")),)))
        assert store.read([Get(make.TOMBSTONE)])[0].version == 3
        assert store.check().ok


def test_the_comparison_sees_one_missing_record(path: Path, reference: MemoryStore) -> None:
    con = apsw.Connection(str(path))
    con.execute("DELETE FROM record WHERE pos = (SELECT max(pos) FROM record)")
    con.close()
    with SqliteStore(path) as store:
        assert everything(store) != everything(reference)


# ---- migrations -----------------------------------------------------------------------------------------------------

SOUND = "ALTER TABLE head ADD COLUMN colour TEXT; CREATE INDEX head_by_colour ON head (colour)"
FAILING = "ALTER TABLE head ADD COLUMN colour TEXT; INSERT INTO no_such_table VALUES (1)"


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that there is one more format, with this migration to it."""

    def to(migration: str) -> None:
        monkeypatch.setitem(schema.MIGRATIONS, schema.FORMAT, migration)
        monkeypatch.setattr(schema, "FORMAT", schema.FORMAT + 1)

    return to


def _look(path: Path) -> tuple[int, bool]:
    """Return the number in the file, and whether the migration has been there."""
    con = apsw.Connection(str(path))
    try:
        columns = [row[1] for row in con.execute("PRAGMA table_info(head)").fetchall()]
        return con.pragma("user_version") & 0xFF, "colour" in columns
    finally:
        con.close()


def test_an_older_file_is_migrated_when_it_is_opened(path: Path, reference: MemoryStore, upgrade: Any) -> None:
    upgrade(SOUND)
    with SqliteStore(path) as store:
        assert everything(store) == everything(reference)
    assert _look(path) == (schema.FORMAT, True)


def test_a_migration_that_fails_leaves_the_old_number_and_the_old_tables(path: Path, upgrade: Any) -> None:
    before = _look(path)
    upgrade(FAILING)
    with pytest.raises(StoreError):
        SqliteStore(path)
    assert _look(path) == before


def _transactions(path: Path) -> int:
    """Open a file and return how many transactions that wrote it took."""
    ended = 0

    def count() -> bool:
        nonlocal ended
        ended += 1
        return False  # go on

    class Watched(SqliteStore):
        def _connect(self, *, writer: bool) -> apsw.Connection:
            con = super()._connect(writer=writer)
            con.set_commit_hook(count)
            return con

    Watched(path).close()
    return ended


def test_a_migration_and_its_number_are_one_transaction(path: Path, upgrade: Any) -> None:
    upgrade(SOUND)
    assert _transactions(path) == 1
    assert _look(path) == (schema.FORMAT, True)


def test_the_count_sees_a_migration_in_two_transactions(path: Path, upgrade: Any) -> None:
    upgrade(SOUND.replace(";", "; COMMIT; BEGIN IMMEDIATE;"))
    assert _transactions(path) == 2
