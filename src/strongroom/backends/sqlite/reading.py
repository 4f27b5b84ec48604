"""What every store in a SQLite file can do, whether or not it may write: ask, check, count, carry out.

Readers use connections of their own and never wait for the writer. A read is materialised before it returns, so no
snapshot stays open to keep the log from shrinking.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from strongroom.backends.sqlite.checks import Check, Stats, check, stats
from strongroom.backends.sqlite.connections import drop
from strongroom.backends.sqlite.encryption import Cipher
from strongroom.backends.sqlite.export import backup, copy_pages, unload
from strongroom.backends.sqlite.failures import DRIVER_ERRORS, translate
from strongroom.backends.sqlite.files import (
    refuse_folder,
    refuse_log_beside_link,
    refuse_network,
    refuse_second_name,
    resolved,
)
from strongroom.backends.sqlite.presence import Presence
from strongroom.backends.sqlite.receipts import find
from strongroom.backends.sqlite.rekeying import write_copy
from strongroom.backends.sqlite.rows import answer
from strongroom.backends.sqlite.stray import refuse_stray_log
from strongroom.backends.sqlite.watch import PAUSE_SECONDS, Version, Watch
from strongroom.encryption import Secret
from strongroom.errors import Closed, Damaged, InvalidInput, StrongroomError, Unavailable, hidden
from strongroom.files import not_written, path_of
from strongroom.store import (
    EXPORT_BYTES,
    Answer,
    AnyQuestion,
    Budget,
    ExportPage,
    Get,
    Key,
    Part,
    Range,
    ReceiptOf,
    Slice,
    within,
)

T = TypeVar("T")

OLDEST_SQLITE = (3, 51, 3)
PRAGMAS = "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0"

# Forked children must neither use nor close what they inherit; see _leak().
_alive: weakref.WeakSet[Reader] = weakref.WeakSet()
_inherited: set[Path] = set()


class Reader(ABC):
    """A SQLite file, as far as it is only looked at."""

    _pause_seconds = PAUSE_SECONDS  # between two looks for what others have written
    _writes = False
    _timeout: float

    def __init__(self, path: str | os.PathLike[str], key: Secret | None) -> None:
        self.path = resolved(path_of(path), writing=self._writes)
        self._readers: list[apsw.Connection] = []
        self._closed = False
        self._forked = False  # whether this is a child's copy of what its parent opened
        _require_sqlite(apsw.sqlite_lib_version())
        refuse_folder(self.path)
        refuse_network(self.path)
        refuse_second_name(self.path)
        refuse_log_beside_link(path_of(path), self.path)
        refuse_stray_log(self.path)
        if self.path in _inherited:
            # SQLite's own list of locks was copied by the fork: it believes to hold what only the parent holds.
            raise Unavailable(
                f"{self.path} was open in the parent process at fork(); open it after the fork only, or start "
                "processes by spawn",
                reason="forked",
            )
        self._cipher = Cipher(self.path, key)
        self._presence = Presence(self.path)
        self._watch = Watch(self._versions, self._lengths, self._pause_seconds)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return self.look(questions)

    def look(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer without waiting for the disk: a receipt that is found may not be durable yet."""
        if len(questions) == 1 and isinstance(question := questions[0], Get):
            return self._ask(lambda con: [answer(con, question)])  # one statement is its own snapshot
        return self._ask(in_snapshot(lambda con: [_answer(con, question) for question in questions]))

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return self.look_within(questions, max_bytes)

    def look_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer what fits without waiting for the disk."""
        return self._ask(in_snapshot(lambda con: within(questions, partial(_answer, con), max_bytes)))

    def check(self) -> Check:
        """Verify every page, row, checksum, index and hash chain. Reads everything; changes nothing."""
        return self._ask(in_snapshot(check))

    def stats(self) -> Stats:
        """Return how much the store holds."""
        return self._ask(lambda con: stats(con, self.path))

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return the next items of everything there is; see `strongroom.store.Exportable`."""
        return self._ask(in_snapshot(lambda con: unload(con, after, limit, max_bytes)))

    def backup(self, path: str | os.PathLike[str], *, new_key: Secret | None = None, decrypt: bool = False) -> None:
        """Write a copy of the store as it is now to a new file, while others go on reading and writing.

        It has the same key, or `new_key`; with `decrypt` it has none.
        """
        new_key = hidden(new_key)
        if decrypt and new_key is not None:
            raise InvalidInput("a backup has a new key or none, not both; nothing was written")

        def write(con: apsw.Connection, target: Path) -> None:
            if decrypt or new_key is not None:
                write_copy(con, target, new_key)
            else:
                copy_pages(con, self._cipher, target)

        target = path_of(path).resolve()
        try:
            if not target.exists():
                refuse_stray_log(target)
        except OSError as problem:
            raise not_written(target, problem) from None
        self._ask(lambda con: backup(target, partial(write, con)))

    @property
    def needed_elsewhere(self) -> dict[str, Any]:
        """The options with which another process opens the same store. A key among them is shown by nothing."""
        options: dict[str, Any] = {"timeout_seconds": self._timeout}
        return options | {"key": key} if (key := self._cipher.raw_key()) is not None else options

    def require_usable(self) -> None:
        """Raise why this store cannot be used, if it cannot."""
        self.look([])

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        self._watch.wait(key, length, timeout_seconds)

    def watching(self, key: Key, length: int, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Have `wake` called inside of the block whenever the stream may have become longer than `length`."""
        return self._watch.waiting(key, length, wake)

    def _lengths(self, keys: Sequence[Key]) -> list[int]:
        found = self.look([Range(key, 0, 0) for key in keys])
        return [part.length for part in found if isinstance(part, Slice)]

    @abstractmethod
    def _versions(self) -> AbstractContextManager[Version]:
        """Open a way to ask whether the files have changed."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _connect_to_read(self) -> apsw.Connection: ...

    @abstractmethod
    def _connections(self) -> list[apsw.Connection]: ...

    @property
    @abstractmethod
    def _files_are_lost(self) -> bool:
        """Whether a connection must not write the log into the file when it is closed."""

    @abstractmethod
    def _let_go_in_child(self) -> None:
        """Let go of what a forked child must not keep besides connections."""

    def _ask(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do what only reads, on a connection that nobody else uses meanwhile. Whoever calls this has looked whether
        the store can be used.

        Whatever another copy of SQLite closes in this process drops the mark of a snapshot, too: others may overwrite
        what it is read from, and a sound file looks damaged. So damage is told when it is seen once more, afresh.
        """
        try:
            return self._ask_once(work, self._readers)
        except Damaged:
            return self._ask_once(work, [])

    def _ask_once(self, work: Callable[[apsw.Connection], T], idle: list[apsw.Connection]) -> T:
        try:
            try:
                con = idle.pop()
            except IndexError:
                con = self._connect_to_read()
            try:
                found = work(con)
            except BaseException as problem:
                if isinstance(problem, StrongroomError) and not isinstance(problem, Damaged):
                    self._give_back(con)
                else:  # damage, a failure or Ctrl-C: the next reader starts afresh
                    con.close(True)
                raise
            self._give_back(con)
            return found
        except DRIVER_ERRORS as error:
            raise translate(error, reading=True) from error

    def _give_back(self, con: apsw.Connection) -> None:
        """Let the next reader have a connection; nobody, if the store was closed meanwhile."""
        self._readers.append(con)
        if self._closed:  # asked last: whoever closes says so first and empties the list then, so one of us finds it
            self._drop_readers(self._files_are_lost)

    def _drop_readers(self, files_are_lost: bool) -> None:
        """Close the connections that nobody uses. Others may take one, or do the same, at any time."""
        while True:
            try:
                con = self._readers.pop()
            except IndexError:
                return
            drop(con, files_are_lost)

    def _check_usable(self, *, writing: bool = False) -> None:
        if self._closed:
            raise Closed("this store is closed" + "; nothing changed" * writing)
        if self._forked:
            raise Unavailable(
                "this store was opened before a fork() and belongs to the parent process; open it after the fork "
                "only, or start processes by spawn" + " (nothing changed)" * writing,
                reason="forked",
            )


def in_snapshot(work: Callable[[apsw.Connection], T]) -> Callable[[apsw.Connection], T]:
    """Return the same work, seeing one state of the store from its beginning to its end."""

    def done(con: apsw.Connection) -> T:
        con.execute("BEGIN")
        try:
            return work(con)
        finally:
            if con.in_transaction:
                con.execute("COMMIT")

    return done


def _answer(con: apsw.Connection, question: AnyQuestion, budget: Budget | None = None) -> Answer:
    return find(con, question) if isinstance(question, ReceiptOf) else answer(con, question, budget)


def _require_sqlite(version: str) -> None:
    numbers = tuple(int(part) for part in version.split("."))
    if numbers < OLDEST_SQLITE:
        raise Unavailable(
            f"SQLite {version} can corrupt a database that several connections write to (fixed in 3.51.3); "
            "install a current apsw-sqlite3mc (nothing was opened)",
            reason="sqlite_version",
        )


def keep_from_forks(store: Reader) -> None:
    """Remember an open store, for the case that this process forks."""
    _alive.add(store)


def closed(store: Reader) -> None:
    """Know that a store is closed: a fork does it no harm any more."""
    _alive.discard(store)


def _leak() -> None:
    """In a forked child: keep inherited connections from ever being closed, which would drop the parent's locks."""
    import ctypes

    for store in list(_alive):
        store._forked = True
        for con in store._connections():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(con))
        store._let_go_in_child()
        _inherited.add(store.path)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leak)
