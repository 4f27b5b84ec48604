"""A SQLite file for those who may only read it: in a read-only folder, on a read-only disk, or by choice.

Theory of operation
-------------------
SQLite reads a file that has a log only with the index of that log (`-shm`) beside it, which it makes if it may. Nobody
is answered from an older state than there is:

* The log holds something: SQLite's own way, with locks, over an index that is there or can be made. If it can neither
  be found nor made, the store says so and is not opened.
* The log is missing or holds nothing: all there is stands in the file itself. It is read without locks and without a
  trace (`immutable`), and looked at before and after each read. If a writer came meanwhile, the answer is thrown away
  and the question asked again, in whichever way is right by then.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import quote

import apsw

import strongroom.backends.sqlite.schema as schema
from strongroom.arguments import checked, require_positive
from strongroom.backends.sqlite.failures import not_a_database, translated
from strongroom.backends.sqlite.files import COARSE_NS, facts_of, inode_of
from strongroom.backends.sqlite.log import MAGIC
from strongroom.backends.sqlite.reading import PRAGMAS, Reader, closed, in_snapshot, keep_from_forks
from strongroom.backends.sqlite.search import is_behind, search
from strongroom.backends.sqlite.stray import refuse_stray_log
from strongroom.backends.sqlite.watch import Version
from strongroom.encryption import Secret
from strongroom.errors import SchemaMismatch, StoreError, Unavailable
from strongroom.files import may_write
from strongroom.store import Commit, Durability, ExportItem, Find, Found, Receipt

T = TypeVar("T")

PAUSE_SECONDS = 0.02

Look = tuple[tuple[int, ...] | None, ...]


class ReadOnlyStore(Reader):
    """Read what is in a SQLite file. Whatever would write is refused."""

    durability = Durability("durable", True, True, "nothing")
    _pause_seconds = PAUSE_SECONDS  # whoever asks for a file's times slows its writer down

    @checked
    def __init__(
        self, path: str | os.PathLike[str], *, timeout_seconds: float = 30.0, key: Secret | None = None
    ) -> None:
        require_positive(timeout_seconds=timeout_seconds)
        super().__init__(path, key)
        self._timeout = timeout_seconds
        self._one_by_one = threading.RLock()  # else a connection to what was there before could come back
        self._seen: Look | None = None  # how the files looked when we connected
        self._immutable = False
        self._anchor: apsw.Connection | None = None  # keeps the log's files from being removed by who closes last
        keep_from_forks(self)
        try:
            with translated(reading=True):
                self._ask(schema.require_readable)
        except SchemaMismatch as problem:
            if isinstance(problem.__cause__, apsw.NotADBError):
                raise (self._cipher.refusal() if self._cipher.is_on else not_a_database(self.path)) from None
            raise
        self._cipher.forget_secret()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def search(self, find: Find) -> Found:
        """Find where words stand, if the index knows everything."""
        found = self._ask(in_snapshot(lambda con: None if is_behind(con, find) else search(con, find)))
        if found is None:
            raise Unavailable(
                "the index of words lacks what was written last, and opened read-only it cannot be brought up to "
                "date; search once where the file can be written",
                reason="read_only",
            )
        return found

    # ---- what it does not do ----------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> Receipt:
        self._refuse()

    def submit(self, commit: Commit, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Receipt]:
        self._refuse()

    def load(self, items: Sequence[ExportItem]) -> None:
        self._refuse()

    def compact(self) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        self._check_usable(writing=True)
        raise Unavailable("this store is opened read-only; nothing changed", reason="read_only")

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        if self._closed or self._forked:
            return
        self._watch.stop()  # not below: its thread may be about to read
        with self._one_by_one:
            self._closed = True
            self._drop()
        closed(self)

    def __enter__(self) -> ReadOnlyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _versions(self) -> Iterator[Version]:
        yield lambda: _look(self.path)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _ask(self, work: Callable[[apsw.Connection], T]) -> T:
        deadline = time.monotonic() + self._timeout
        while True:
            self._check_usable()  # first: in a forked child nobody may ever give the lock back
            with self._one_by_one:
                self._check_usable()  # again: whoever had the lock may have closed the store
                if not self._is_as_seen():
                    self._settle(deadline)
                try:
                    found = super()._ask(work)
                except StoreError:
                    if self._is_as_seen():
                        raise  # not because a writer came meanwhile
                else:
                    if self._is_as_seen():
                        return found
            if time.monotonic() > deadline:
                raise Unavailable("the file did not stay the same for the time of a read", reason="locked")

    def _is_as_seen(self) -> bool:
        """Tell whether what is connected to is what is there."""
        if self._seen is None:
            return False
        # With locks SQLite sees to it that an answer is right, as long as the file is the same one.
        return self._seen == _look(self.path) if self._immutable else self._seen[0] == inode_of(self.path)

    def _settle(self, deadline: float) -> None:
        """Choose how to read the files as they are now."""
        self._drop()
        refuse_stray_log(self.path)
        if not self.path.exists():
            raise Unavailable(f"there is no file {self.path}; opened read-only none is made", reason="missing")
        log, index = Path(f"{self.path}-wal"), Path(f"{self.path}-shm")
        looked = _look_without_log(self.path, deadline)
        self._immutable = looked is not None
        self._seen = (inode_of(self.path),) if looked is None else looked
        if self._immutable:
            return
        if not index.exists() and not may_write(self.path.parent):
            raise Unavailable(
                f"{log.name} holds commits that {self.path.name} does not have yet, and they cannot be seen: that "
                f"takes {index.name}, which is missing and cannot be made in a read-only folder. Copy "
                f"{self.path.name} and {log.name} to a folder that can be written, and open the copy",
                reason="read_only",
            )
        with translated(reading=True):
            self._anchor = self._connect_to_read()
            self._anchor.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # opens the log
        self._presence.show()

    def _connect_to_read(self) -> apsw.Connection:
        name = f"file:{quote(str(self.path))}?mode=ro" + "&immutable=1" * self._immutable
        con = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        con.set_busy_timeout(int(self._timeout * 1000))
        con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._cipher.unlock(con)
        con.execute(PRAGMAS).fetchall()
        return con

    def _connections(self) -> list[apsw.Connection]:
        return [*self._readers, *([] if self._anchor is None else [self._anchor])]

    def _drop(self) -> None:
        self._seen = None
        self._presence.hide()
        self._drop_readers(self._files_are_lost)
        if self._anchor is not None:
            self._anchor.close(True)
            self._anchor = None
        self._presence.close_unneeded()

    @property
    def _files_are_lost(self) -> bool:
        return False  # no connection that only reads writes the log into the file

    def _let_go_in_child(self) -> None:
        pass


def _look(path: Path) -> Look:
    """Return what tells that the content of the files may have changed."""
    return tuple(facts_of(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))


def _look_without_log(path: Path, deadline: float) -> Look | None:
    """Look once whatever was written last is a moment ago; None as soon as a log or a journal holds something, which is
    read with locks, however busy it is. Times may be coarse: what is written in the same instant as the write before it
    would not show."""
    while True:
        before = time.time_ns()  # not after the look: we may have been stopped since, and what came then would not show
        looked = _look(path)
        if _holds_something(Path(f"{path}-wal")) or Path(f"{path}-journal").exists():
            return None
        newest = max((max(facts[3:]) for facts in looked if facts is not None), default=0)
        if newest <= before - COARSE_NS or newest > time.time_ns():  # or by a clock that is ahead of ours
            return looked
        if time.monotonic() > deadline:
            raise Unavailable("the file was written to the whole time, so it could not be read", reason="locked")
        time.sleep(PAUSE_SECONDS)


def _holds_something(log: Path) -> bool:
    """Tell whether SQLite would find anything in a log. SQLite holds no locks on it, so it may be opened and closed."""
    try:
        with log.open("rb") as file:
            return file.read(4) in MAGIC
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise Unavailable(
            f"{log.name} cannot be read ({problem.strerror}), and may hold what {log.name[:-4]} does not have yet",
            reason="permission",
        ) from None
