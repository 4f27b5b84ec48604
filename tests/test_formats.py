"""A file carries the number of its format; a migration happens whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore, schema
from strongroom.errors import StoreError
from strongroom.store import Exportable, ExportItem
from tests import everything_written


def everything(store: Exportable) -> list[ExportItem]:
    """Return all that a store holds, tombstones, hashes and erased records included."""
    exported = store.unload(None, 10_000)
    assert exported.next is None
    return list(exported.items)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of the current format that holds everything the port can write."""
    with SqliteStore(tmp_path / "agent.db") as store:
        for commit in everything_written.commits():
            store.commit(commit)
        store.search(everything_written.FINDS[0])  # part of the index is filled, part of it still to be
    return tmp_path / "agent.db"


@pytest.fixture
def reference() -> MemoryStore:
    """The reference store after the same commits."""
    store = MemoryStore()
    for commit in everything_written.commits():
        store.commit(commit)
    return store


def test_a_file_says_whose_it_is_by_the_number_that_its_page_names(path: Path) -> None:
    told = (Path(__file__).parents[1] / "docs" / "format.md").read_text()
    assert path.read_bytes()[68:72].hex() == "5372746d"  # where every SQLite file has its application id
    assert "`application_id` is `0x5372746D`" in told


def test_a_new_file_has_the_current_format(path: Path) -> None:
    assert _look(path)[0] == schema.FORMAT == 1


def test_the_comparison_sees_one_missing_record(path: Path, reference: MemoryStore) -> None:
    con = apsw.Connection(str(path))
    con.execute("DELETE FROM record WHERE pos = (SELECT max(pos) FROM record)")
    con.close()
    with SqliteStore(path) as store:
        assert everything(store) != everything(reference)


SOUND = "ALTER TABLE head ADD COLUMN colour TEXT; CREATE INDEX head_by_colour ON head (colour)"
FAILING = "ALTER TABLE head ADD COLUMN colour TEXT; INSERT INTO no_such_table VALUES (1)"


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that there is one more format, with this migration to it."""

    def to(migration: str) -> None:
        monkeypatch.setitem(schema.MIGRATIONS, schema.FORMAT, migration)
        monkeypatch.setattr(schema, "FORMAT", schema.FORMAT + 1)
        monkeypatch.setattr(schema, "TABLES", f"{schema.TABLES};{migration}")

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
        for find in everything_written.FINDS:
            assert store.search(find) == reference.search(find)
        for commit in everything_written.commits():
            assert store.commit(commit) == reference.commit(commit)
        assert store.check().problems == ()
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
