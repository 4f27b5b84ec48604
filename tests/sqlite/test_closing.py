"""A store that is closed while somebody reads from it lets go of every connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore
from strongroom.backends.sqlite.reading import Reader
from strongroom.codec import encode
from strongroom.errors import Closed
from strongroom.store import Commit, Key, Put, new_id

Opened = list[apsw.Connection]


def put(number: int) -> Commit:
    return Commit(new_id(), (), (Put(Key("default", "doc", "one"), encode(number)),))


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file that somebody else has open, with something in its log."""
    with SqliteStore(tmp_path / "agent.db") as writer:
        writer.commit(put(0))
        yield tmp_path / "agent.db"


@pytest.fixture(params=[SqliteStore, ReadOnlyStore])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Reader]:
    made: Reader = request.param(path)
    with made:  # type: ignore[attr-defined]
        yield made


@pytest.fixture
def opened(store: Reader, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Every connection that is opened to read, or lay ready for it."""
    found, connect = list(store._connections()), store._connect_to_read

    def noted() -> apsw.Connection:
        found.append(connect())
        return found[-1]

    monkeypatch.setattr(store, "_connect_to_read", noted)
    return found


def count(con: apsw.Connection) -> int:
    found: Any = con.execute("SELECT count(*) FROM head").fetchone()
    return int(found[0])


def are_closed(connections: Opened) -> bool:
    def is_closed(con: apsw.Connection) -> bool:
        try:
            con.db_filename("main")
        except apsw.ConnectionClosedError:
            return True
        return False

    return all(map(is_closed, connections))


class Shelf(list[apsw.Connection]):
    """Where connections wait for the next reader; something happens just before one is put there."""

    before: Callable[[], None]

    def append(self, con: apsw.Connection) -> None:
        self.before()
        super().append(con)


@pytest.mark.parametrize("store", [SqliteStore], indirect=True)  # who may only read comes back before it can be closed
def test_a_connection_that_comes_back_while_the_store_is_closed_is_closed(store: Reader, opened: Opened) -> None:
    store._readers = shelf = Shelf()
    shelf.before = store.close
    assert store._ask(count) == 1
    assert opened
    assert are_closed(opened)


def test_a_connection_whose_reader_failed_beside_a_close_is_closed(store: Reader, opened: Opened) -> None:
    def fail(con: apsw.Connection) -> None:
        store.close()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._ask(fail)
    assert opened
    assert are_closed(opened)


def test_a_reader_that_comes_just_after_a_close_is_told_and_leaves_nothing_open(store: Reader, opened: Opened) -> None:
    store.close()
    with pytest.raises(Closed):
        store._ask(count)
    assert are_closed(opened)


def test_a_log_is_let_go_of_although_readers_take_connections_meanwhile(path: Path) -> None:
    with SqliteStore(path) as store:

        class Emptied(list[apsw.Connection]):
            """Looks full until it is asked: another reader was quicker."""

            def __bool__(self) -> bool:
                return True

        store._readers = Emptied()
        with store._group.alone():
            store.reconnect()
        assert store._ask(count) == 1
