"""Processes that write to one file take turns; a turn is a moment long, and not a commit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from strongroom.backends.sqlite import SqliteStore, files
from strongroom.backends.sqlite.files import Queue
from strongroom.codec import encode
from strongroom.errors import Unavailable
from strongroom.store import Append, Commit, Entry, Key, new_id


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Queue]:
    """The place of another process in the same line: locks belong to an open file, so it need not be one."""
    queue = Queue(tmp_path / "a.db")
    yield queue
    queue.close()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(files, "TURN_SECONDS", 0)  # or making the file would be a turn that lasts
    with SqliteStore(tmp_path / "a.db", timeout_seconds=0.05) as store:
        store.commit(note())
        yield store


def note() -> Commit:
    return Commit(new_id(), (), (Append(Key("s", "k", "one"), (Entry("note", encode({})),)),))


def take_a_turn(store: SqliteStore) -> None:
    with store._queue.turn(math.inf):
        pass


def test_whoever_has_a_turn_writes_again_before_those_who_wait(
    store: SqliteStore, other: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TURN_SECONDS", math.inf)
    take_a_turn(store)
    with other.turn(math.inf):
        store.commit(note())


def test_whoever_had_a_turn_waits_in_line_once_it_is_over(store: SqliteStore, other: Queue) -> None:
    take_a_turn(store)
    with other.turn(math.inf), pytest.raises(Unavailable, match="busy"):
        store.commit(note())


def test_writing_without_a_turn_gives_none(store: SqliteStore, other: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TURN_SECONDS", math.inf)
    store.commit(note())
    with other.turn(math.inf), pytest.raises(Unavailable, match="busy"):
        store.commit(note())


def test_a_turn_that_failed_gives_none(store: SqliteStore, other: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TURN_SECONDS", math.inf)
    with pytest.raises(ZeroDivisionError), store._queue.turn(math.inf):
        raise ZeroDivisionError
    with other.turn(math.inf), pytest.raises(Unavailable, match="busy"):
        store.commit(note())
