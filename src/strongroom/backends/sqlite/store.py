"""The default store: one SQLite file, acknowledged after fsync, shared by any number of threads and processes.

Theory of operation
-------------------
* One connection writes (`committer`). Commits queue in `group_commit`, whose leader takes all that wait into one
  transaction, so that they share an fsync.
* Readers use connections of their own (`reading`).
* One more connection stays open and idle. While it is there nobody else can be the last to close the database, so the
  sidecar files stay the same ones, and a change of them means trouble.

STOP AND READ: the file may be looked at with another copy of SQLite (such as Python's own sqlite3) in a process that
has it open here, because `presence` shows it that we are there. It must not write: the two do not see each other's
locks.
Where there are no locks that belong to an open file, closing that other copy removes the log from under us, which is
noticed and mended (`reconnect`): nothing is lost. But there, opening it while a thread reads here cuts the shared index
of the log for a moment, and the kernel may end the process for that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import apsw

import strongroom.backends.sqlite.schema as schema
from strongroom.arguments import checked, require_positive
from strongroom.backends.sqlite.committer import Committer
from strongroom.backends.sqlite.connections import drop
from strongroom.backends.sqlite.erasure import owed
from strongroom.backends.sqlite.failures import DRIVER_ERRORS, not_a_database, translated
from strongroom.backends.sqlite.files import Queue
from strongroom.backends.sqlite.group_commit import GroupCommit, Ticket
from strongroom.backends.sqlite.identity import Identity, LogRemovedError
from strongroom.backends.sqlite.log import FULL, Log
from strongroom.backends.sqlite.reading import PRAGMAS, Reader, closed, in_snapshot, keep_from_forks
from strongroom.backends.sqlite.receipts import Retention, SyncReceipt
from strongroom.backends.sqlite.rekeying import unfinished
from strongroom.backends.sqlite.search import is_behind, search
from strongroom.backends.sqlite.watch import Version
from strongroom.encryption import Secret
from strongroom.errors import Damaged, StrongroomError, Unavailable
from strongroom.files import is_read_only
from strongroom.store import (
    MAX_RECORD_BYTES,
    REPEATS,
    Answer,
    AnyQuestion,
    Commit,
    Durability,
    ExportItem,
    Find,
    Found,
    Part,
    Receipt,
    ReceiptOf,
    Repeats,
    check_sizes,
    kept_seconds,
)

T = TypeVar("T")

DURABLE = Durability("durable", True, True, "nothing")
RELAXED = Durability("relaxed", True, False, "the last commits before a power cut; never the file's consistency")

_WRITER_PRAGMAS = f"PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = {FULL}"


STAMP_LOOKS = 3
MOST_ROUNDS = 10_000  # of catching up, 2,000 records each, before a search: more is a list that never gets shorter


class SqliteStore(Reader):
    """Keep everything in one SQLite file. Safe across threads and processes, not across fork()."""

    _writes = True

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["durable", "relaxed"] = "durable",
        timeout_seconds: float = 30.0,
        max_record_bytes: int = MAX_RECORD_BYTES,
        repeats: Repeats = REPEATS,
        clock: Callable[[], float] = time.time,
        key: Secret | None = None,
    ) -> None:
        require_positive(timeout_seconds=timeout_seconds, max_record_bytes=max_record_bytes)
        super().__init__(path, key)
        self.durability = {"durable": DURABLE, "relaxed": RELAXED}[durability]
        self._timeout = timeout_seconds
        self._limit = max_record_bytes
        self.kept_seconds = kept_seconds(repeats)
        self._queue = Queue(self.path)
        with translated(reading=True):
            try:
                self.anchor = self._open_first()
            except apsw.NotADBError:
                raise (self._cipher.refusal() if self._cipher.is_on else not_a_database(self.path)) from None
            except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
                if isinstance(error, apsw.CantOpenError) and not is_read_only(self.path):
                    raise
                raise self._cannot_write() from error
        self._cipher.forget_secret()
        with suppress(OSError):
            # Nobody gives a file another key while it is open, so what lies there was left by somebody who was killed.
            unfinished(self.path).unlink(missing_ok=True)
        self._presence.show()
        self._identity = Identity(self.path, self._read_stamp)
        self._committer = Committer(
            self._identity,
            self,
            Log(self.path, synced=self.durability is DURABLE),
            self._queue,
            timeout_seconds,
            Retention(self.kept_seconds, clock),
        )
        self._group = GroupCommit(self._committer)
        self._committer.about_to_wait = self._group.tell
        self._committer.settled = self._note
        keep_from_forks(self)
        self._settle_duty()

    # ---- the two verbs ----------------------------------------------------------------------------------------------

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return self._confirmed(questions, self.look(questions))

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        part = self.look_within(questions, max_bytes)
        return Part(self._confirmed(questions, part.answers), part.cut)

    def _confirmed(self, questions: Sequence[AnyQuestion], answers: list[Answer]) -> list[Answer]:
        """Make the receipts among answers as durable as acknowledged commits."""
        for place, found in enumerate(answers):
            if isinstance(found, Receipt):
                asked = questions[place]
                assert isinstance(asked, ReceiptOf)
                answers[place] = self._group.commit(SyncReceipt(asked.space, found))
        return answers

    def require_usable(self) -> None:
        """Raise what the next commit would be refused with, as far as that can be known without one."""
        self._check_usable(writing=True)
        self._committer.require_sound()
        try:
            self._identity.look()
        except LogRemovedError:
            with self._group.alone(), translated():
                self._committer.look_for_log()

    def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, sharing its fsync with whoever else is committing now."""
        self._check_usable(writing=True)
        check_sizes(commit, self._limit)
        return self._group.commit(commit)

    def submit(self, commit: Commit, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Receipt]:
        """Queue a commit for an event loop; see `bridge.Threaded`."""
        self._check_usable(writing=True)
        check_sizes(commit, self._limit)
        return self._group.submit(commit, loop)

    def search(self, find: Find) -> Found:
        """Find where words stand. Everything committed before the call is found."""
        for _ in range(MOST_ROUNDS):
            found = self._ask(in_snapshot(lambda con: None if is_behind(con, find) else search(con, find)))
            if found is not None:
                return found
            with self._group.alone(), translated():
                self._committer.catch_up(find)
        raise Damaged("the index of words lacks something that cannot be added; restore a backup", reason="corrupt")

    # ---- upkeep -----------------------------------------------------------------------------------------------------

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items from another store in place, all or none of them."""
        self._check_usable(writing=True)
        with self._group.alone(), translated():
            self._committer.load(items)
        self._watch.note_all()

    def compact(self) -> None:
        """Give free space back to the disk. Writers wait meanwhile; needs room for a second copy."""
        self._check_usable(writing=True)
        with self._group.alone(), translated():
            self._committer.compact()

    def close(self) -> None:
        """Finish what is queued, then let go of the file. Closing twice is fine."""
        if self._closed or self._forked:
            return
        if self._committer.failed is None:
            self._settle_duty()
        self._closed = True
        self._group.stop()
        self._watch.stop()
        self._committer.close()
        self._presence.hide()
        self._drop_readers(self._files_are_lost)
        for con in (*self._committer.connections, self.anchor):
            drop(con, self._files_are_lost)
        self._presence.close_unneeded()
        self._queue.close()
        closed(self)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _settle_duty(self) -> None:
        """Finish an erasure that somebody else, or we, could not finish; if we cannot either, it stays on record."""
        try:
            if owed(self.anchor) is not None:
                with self._group.alone():
                    self._committer.settle_duty()
        except (StrongroomError, *DRIVER_ERRORS):
            pass  # whatever is wrong, reads and commits say it better

    # ---- connections ------------------------------------------------------------------------------------------------

    def _open_first(self) -> apsw.Connection:
        """Open the connection that stays open as long as the store does, creating or migrating the file if needed.

        While it is open nobody else can be the last to close the database, so the sidecar files stay the same ones.
        """
        if not self.path.parent.is_dir():
            raise Unavailable(f"the folder {self.path.parent} does not exist; nothing was created", reason="missing")
        con = None if self._cipher.is_new else self._connect(writer=False)
        try:
            if con is None or not schema.is_current(con):
                if con is not None:
                    con.close()
                deadline = time.monotonic() + self._timeout
                with self._queue.turn(deadline):
                    self._cipher.prepare()  # somebody else may have made the file meanwhile
                    con = self._connect(writer=False)
                    if not schema.is_current(con):
                        schema.bring_up_to_date(con, deadline)
            con.execute("SELECT 1 FROM head LIMIT 1").fetchall()  # opens the log and the index beside it
        except BaseException:
            if con is not None:
                con.close()
            raise
        return con

    def _cannot_write(self) -> Unavailable:
        """Say that this is a place to read, and how; where there is nothing to read, that nothing can be made."""
        if self.path.exists():
            told = (
                f"{self.path} or what is beside it is read-only for this user, and is opened to be written here; a "
                "command that only looks opens it for reading by itself, a program with read_only=True"
            )
        else:
            told = f"{self.path.parent} is read-only for this user, so {self.path.name} cannot be made there"
        return Unavailable(told, reason="read_only")

    def reconnect(self) -> None:
        """Let go of a log that was removed, and open the file with the one that is there now. The caller has the lead.

        SQLite keeps what belongs to a log as long as anybody in this process has it open, readers that are under way
        and other stores too: only when it makes new files does nobody use the old ones any more.
        """
        deadline = time.monotonic() + self._timeout
        drop(self.anchor, files_are_lost=True)
        while True:
            self._drop_readers(files_are_lost=True)
            self.anchor = self._open_first()
            if all(Path(f"{self.path}{suffix}").exists() for suffix in ("-wal", "-shm")):
                break
            drop(self.anchor, files_are_lost=True)
            if time.monotonic() > deadline:
                raise Unavailable(
                    "somebody else in this process still uses a log that was removed, by another copy of SQLite "
                    "perhaps; nothing changed, and nothing is lost",
                    reason="locked",
                )
            time.sleep(0.001)
        self._presence.show()
        self._identity.renew()

    @property
    def sealed(self) -> bool:
        return self._cipher.is_on

    def connect_to_write(self) -> apsw.Connection:
        return self._connect(writer=True)

    def _ask(self, work: Callable[[apsw.Connection], T]) -> T:
        self._check_usable()
        if self._identity.is_log_removed():
            with self._group.alone(), translated():
                self._committer.look_for_log()
        return super()._ask(work)

    def _read_stamp(self) -> int:
        """Return the stamp in the file itself, past its log; -1 if it cannot be read."""
        for _ in range(STAMP_LOOKS):  # somebody may be copying the log into it just now
            try:
                name = f"file:{quote(str(self.path))}?mode=ro&immutable=1"
                con = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
                try:
                    self._cipher.unlock(con)
                    con.execute("PRAGMA writable_schema = ON")  # or a file that is shorter than it says is refused
                    return int(con.pragma("user_version"))
                finally:
                    con.close()
            except DRIVER_ERRORS:
                continue
        return -1

    def _connect(self, *, writer: bool) -> apsw.Connection:
        # SQLITE_OPEN_URI is for what a copy is written to; our own path begins with a slash.
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        con = apsw.Connection(str(self.path), flags=flags)
        # The writer waits in its own fair way; a reader is only ever kept by a recovery, for moments.
        con.set_busy_timeout(0 if writer else int(self._timeout * 1000))
        self._cipher.unlock(con)
        con.execute(PRAGMAS).fetchall()  # all rows, or SQLite stops at the first pragma that answers
        con.execute(f"PRAGMA synchronous = {'FULL' if self.durability is DURABLE else 'NORMAL'}")
        if writer:
            con.execute(_WRITER_PRAGMAS).fetchall()
        return con

    @contextmanager
    def _versions(self) -> Iterator[Version]:
        con = self._connect_to_read()
        try:
            yield lambda: con.pragma("data_version")
        finally:
            con.close()

    def _note(self, batch: Sequence[Ticket]) -> None:
        """Wake those who wait for what these commits have written."""
        works = (ticket.work for ticket in batch)
        self._watch.note(write.key for work in works if type(work) is Commit for write in work.writes)

    def _connect_to_read(self) -> apsw.Connection:
        return self._connect(writer=False)

    def _connections(self) -> list[apsw.Connection]:
        return [*self._readers, *self._committer.connections, self.anchor]

    @property
    def _files_are_lost(self) -> bool:
        return self._committer.failed is not None

    def _let_go_in_child(self) -> None:
        self._queue.close()  # else we would keep our parent's turn for it, even after it was killed
