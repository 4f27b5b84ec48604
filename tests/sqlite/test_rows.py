"""Rows: found by their tags alone, and damage in a damaged file, whatever they look like."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore
from strongroom.backends.sqlite.rows import scan_call, stored_key
from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.store import Commit, Key, Put, Scan, new_id


@pytest.mark.parametrize("id", [b"d22", None, 7, "", "a\0b"])
def test_a_stored_name_that_is_none_is_damage_and_not_the_askers_fault(id: object) -> None:
    with pytest.raises(Damaged):
        stored_key("space", "kind", id)


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A file of documents that are nearly all done."""
    path = tmp_path / "agent.db"
    with SqliteStore(path) as store:
        for n in range(400):
            tags = {"status": "open" if n == 7 else "done", "half": str(n % 2), "early" if n < 300 else "late": "yes"}
            store.commit(Commit(new_id(), (), (Put(Key("s", "task", f"t{n}"), encode(n), tags),)))
        both = {"early": "yes", "late": "yes", "half": "1"}
        store.commit(Commit(new_id(), (), (Put(Key("s", "task", "t299"), encode(299), both),)))
    return path


@pytest.mark.parametrize(
    ("tags", "id"),
    [
        ({"status": "open"}, "t7"),
        ({"half": "1", "status": "open"}, "t7"),
        ({"status": "open", "half": "1"}, "t7"),
        ({"early": "yes", "late": "yes"}, "t299"),
        ({"late": "yes", "early": "yes"}, "t299"),
        ({"late": "yes", "early": "yes", "half": "1"}, "t299"),
    ],
)
@pytest.mark.parametrize(("after", "reverse"), [(None, False), ("3", False), (None, True), ("301", True)])
def test_a_scan_does_not_walk_through_what_carries_only_some_of_its_tags(
    tagged: Path, tags: dict[str, str], id: str, after: str | None, reverse: bool
) -> None:
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    with apsw.Connection(str(tagged)) as con:
        call = scan_call(Scan("s", "task", tags, after, reverse=reverse))
        con.execute("SELECT 1 FROM head").fetchone()  # reads the schema
        con.set_progress_handler(step, 1)
        assert [row[0] for row in con.execute(*call)] == [id]
    assert steps < 400  # of the machine that SQLite is: not even one for each of the others


def test_a_file_that_lost_a_tag_is_found_damaged(tagged: Path) -> None:
    with apsw.Connection(str(tagged)) as con:
        con.execute("DELETE FROM tag WHERE ref = 5 AND label = (SELECT min(label) FROM tag WHERE ref = 5)")
    with SqliteStore(tagged) as store:
        assert not store.check().ok


def test_a_file_with_a_tag_too_many_is_found_damaged(tagged: Path) -> None:
    with apsw.Connection(str(tagged)) as con:
        con.execute("INSERT INTO tag VALUES (zeroblob(16), 1)")
    with SqliteStore(tagged) as store:
        assert not store.check().ok


def test_a_file_of_documents_with_tags_is_found_whole(tagged: Path) -> None:
    with SqliteStore(tagged) as store:
        assert store.check().ok
