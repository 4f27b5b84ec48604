"""The one connection that writes, and what it takes to say "done" honestly.

* `apply` settles a batch of commits in one BEGIN IMMEDIATE ... COMMIT. In WAL mode with synchronous=FULL the COMMIT
  returns after the fsync; only then are the callers told.
* Between processes `files.Queue` takes turns. After each COMMIT, and before its acknowledgement, `identity.Identity`
  makes sure that the files are still the ones at the path; and when somebody else has written, a receipt we gave
  before must still be there, or the file is older than we are.
* After any failure the connection is thrown away. The next commit opens a fresh one, so a full disk or a bad fsync
  heals without a restart.
* A log that somebody removed after copying all of it into the file (another copy of SQLite in this process does that
  when it closes the file) is replaced by a new one, and what was being written is written again.

One thread at a time runs anything in here; `group_commit.GroupCommit` sees to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import TypeVar

import apsw
from msgspec import structs

from strongroom.backends.sqlite.connections import Connections, drop
from strongroom.backends.sqlite.erasure import Cleaner
from strongroom.backends.sqlite.export import load
from strongroom.backends.sqlite.failures import DRIVER_ERRORS, keep_errno, translate, translate_commit
from strongroom.backends.sqlite.files import Queue
from strongroom.backends.sqlite.group_commit import Ticket
from strongroom.backends.sqlite.identity import Identity, LogRemovedError
from strongroom.backends.sqlite.log import Log
from strongroom.backends.sqlite.receipts import Retention, SyncReceipt
from strongroom.backends.sqlite.schema import stamp
from strongroom.backends.sqlite.search import MOST_BEHIND, catch_up, catch_up_anywhere, how_far_behind
from strongroom.backends.sqlite.writes import Writer, erases, pays
from strongroom.errors import CommitUnknown, Damaged, StoreError, StrongroomError, Unavailable
from strongroom.store import ExportItem, Find, Receipt

T = TypeVar("T")

SWEEP_EVERY = 1024  # commits
MOST_REMOVALS = 5  # of the log, while one thing is being written


class Committer:
    """Applies batches. `failed` is set once the files can no longer be trusted; nothing is written from then on."""

    def __init__(
        self,
        identity: Identity,
        connections: Connections,
        log: Log,
        queue: Queue,
        timeout_seconds: float,
        retention: Retention,
    ) -> None:
        self.failed: StrongroomError | None = None
        self.about_to_wait: Callable[[], None] = lambda: None  # called before each wait for the disk or for others
        self.settled: Callable[[Sequence[Ticket]], None] = lambda batch: None  # called after each batch
        self.batches = 0
        self._store = connections
        self._queue = queue
        self._timeout = timeout_seconds
        self._retention = retention
        self._identity = identity
        self._writer: Writer | None = None
        self._log = log
        self._last: tuple[str, str, int] | None = None  # a receipt that must be there: its space, id and until when
        self._unswept = 0
        self._begun: Writer | None = None  # whose transaction is open
        self._cleaner = Cleaner(sealed=connections.sealed)
        self._behind: int | None = None  # how many texts the index lacks, as far as we know; None: nobody has looked
        self._came = 0  # how many texts were committed since anybody indexed
        self._stamp = True  # whether the next state to reach the file itself needs a stamp of its own
        self._ending = False  # whether COMMIT was reached
        self._reconnecting = False  # whether a removed log is known to be in the file, and not replaced yet

    @property
    def connections(self) -> list[apsw.Connection]:
        return [self._writer.con] if self._writer is not None else []

    def require_sound(self) -> None:
        """Raise what made the files untrustworthy, if anything did."""
        if self.failed is not None:
            raise copy(self.failed)  # of its own: one that is raised for ever keeps the trace of every time

    def close(self) -> None:
        if self.failed is None:  # else whoever closes the file last would copy what is left of a log that was cut
            with suppress(Damaged, apsw.Error):
                self._log.measure(self._store.anchor)
                self._require_whole_log()
        self._identity.close()
        self._log.close()

    def apply(self, batch: list[Ticket]) -> None:
        """Settle every ticket of a batch."""
        try:
            self._until_kept(lambda: self._end(self._write(batch, patient=True), batch, upkeep=True))
        except BaseException as error:
            self._failed(batch, error)
        finally:
            self.leave()

    def begin(self, batch: list[Ticket]) -> bool:
        """Write what a batch writes, unless something else has to be done or waited for first; say whether it is so.
        `finish` must follow, from whatever thread."""
        if self._cleaner.due:
            return False
        try:
            self._begun = self._write(batch, patient=False)
        except _WouldWaitError:
            return False
        except BaseException as error:
            self.leave()
            self._failed(batch, error)
        return True

    def finish(self, batch: list[Ticket]) -> None:
        """Make durable what was begun, and settle its tickets."""
        writer, self._begun = self._begun, None
        if writer is None:
            return  # it failed, and every ticket is marked
        try:
            self._end(writer, batch)
        except _NotKeptError:
            self.apply(batch)
        except BaseException as error:
            self._failed(batch, error)
        finally:
            self.leave()

    def _failed(self, batch: list[Ticket], error: BaseException) -> None:
        """Tell everybody in the batch; raise what is not about the batch."""
        if isinstance(error, StrongroomError):
            _fail(batch, error)
        elif isinstance(error, DRIVER_ERRORS):
            # Memory may run out after COMMIT, too, before the tickets are marked: then it is not "nothing changed".
            failure = translate_commit(error) if self._ending else translate(error)
            failure.__cause__ = error
            _fail(batch, failure)
        else:  # Ctrl-C in the thread that leads: the others must not share its fate unnoticed
            unknown = CommitUnknown("the commit was interrupted; repeat it with the same id", reason="interrupted")
            _fail(batch, unknown)
            raise error

    def catch_up(self, find: Find) -> None:
        """Index part of what a search needs and the index lacks."""
        self._until_kept(lambda: self._change(lambda con: catch_up(con, find)))

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items from another store in place."""
        self._until_kept(lambda: self._change(lambda con: load(con, items)))
        self._came += sum(len(item.records) for item in items)
        self.index()

    def compact(self) -> None:
        """Rewrite the file without its free space."""
        with self._transaction() as writer:
            writer.execute("ROLLBACK")
            self._clean(writer, rewrite=True)

    def settle_duty(self) -> None:
        """Finish what an erasure left to do, here or in a process that is gone, as far as nobody is in the way."""
        with self._transaction() as writer:
            writer.roll_back()
            if self._cleaner.duty is not None:
                self._clean(writer)

    def look_for_log(self) -> None:
        """Replace a log that was removed, for those who read: what they see must not stay what it was for ever."""
        self.require_sound()
        try:
            self._identity.look()
        except LogRemovedError as removed:
            self._replace_log(removed)

    def _until_kept(self, work: Callable[[], T]) -> T:
        """Do something that commits, and again if its log was removed at that moment."""
        for _ in range(MOST_REMOVALS):
            try:
                return work()
            except _NotKeptError:
                pass
        raise Unavailable("the log is removed over and over by somebody else; nothing changed", reason="locked")

    def _change(self, change: Callable[[apsw.Connection], T]) -> T:
        with self._transaction() as writer:
            changed = change(writer.con)
            writer.forget()
            self._make_durable(writer)
        return changed

    def _write(self, batch: list[Ticket], *, patient: bool) -> Writer:
        """Begin a transaction and apply every commit in it."""
        writer = self._open(patient)
        try:
            for ticket in batch:
                try:
                    ticket.answer = writer.apply(ticket.work)
                except StrongroomError as refusal:
                    if writer.writing:  # not a refusal: it failed half-way, so the whole transaction must go
                        raise
                    ticket.answer = refusal
            if writer.wrote:
                self._unswept += len(batch)
                if self._unswept >= SWEEP_EVERY:
                    writer.receipts.sweep(self._unswept)
                    self._unswept = 0
                if self._stamp:
                    stamp(writer.con)
        except BaseException as error:
            self._abandon(error)
            raise
        return writer

    def _end(self, writer: Writer, batch: list[Ticket], *, upkeep: bool = False) -> None:
        """End the transaction, and mark the tickets; with `upkeep`, do afterwards what is due and takes its time."""
        try:
            if writer.wrote:
                self.batches += 1
                self._make_durable(writer)
                self._last = writer.last or self._last
            else:
                writer.roll_back()
        except BaseException as error:
            self._abandon(error)
            raise
        erasing = [ticket for ticket in batch if isinstance(ticket.answer, Receipt) and erases(ticket.work)]
        paying = any(pays(ticket.work) for ticket in erasing)
        for ticket in batch:
            ticket.done = ticket not in erasing
        self.settled(batch)
        if paying:
            self._cleaner.look(writer.con)
        elif erasing:
            self._cleaner.owe(writer.con)
        if (upkeep and self._cleaner.due) or (paying and self._cleaner.duty is not None):
            self._clean(writer, patient=paying)
        for ticket in erasing:
            assert isinstance(ticket.answer, Receipt)
            ticket.answer = structs.replace(ticket.answer, pending=self._cleaner.pending)
            ticket.done = True
        self._came += writer.texts

    @property
    def lags(self) -> bool:
        """Whether texts have come that make too many wait for a search: then `index`, once everybody is told."""
        return self._came > 0 and (self._behind or 0) + self._came > MOST_BEHIND

    def index(self) -> None:
        """Index some more texts than have come since the last time, if too many wait for a search.

        Not all that wait: an earlier process may have left any number.
        """
        came, self._came = self._came, 0
        behind, done = (self._behind or 0) + came, 0
        try:
            while behind > MOST_BEHIND and done <= came:
                indexed = self._until_kept(lambda: self._change(catch_up_anywhere))
                behind, done = behind - indexed if indexed else 0, done + indexed
        except (StrongroomError, *DRIVER_ERRORS):
            behind = 0  # what was committed stands, and whatever is wrong, a search says it better
        self._behind = behind

    def _open(self, patient: bool = True) -> Writer:
        """Take the write lock, on a connection that is sound."""
        self._ending = False
        self.require_sound()
        self._undo()
        try:
            self._stamp |= self._identity.check()
        except Damaged as damage:
            self.failed = damage
            raise
        except LogRemovedError as removed:
            if not patient:
                raise _WouldWaitError from None
            self._replace_log(removed)
        if self._writer is None:
            self._writer = Writer(self._store.connect_to_write(), self._retention)
        writer = self._writer
        if not (self._queue.is_ours and self._begins(writer)):
            if not patient:
                raise _WouldWaitError
            self._begin_in_turn(writer)
        try:
            if writer.start():
                self._check_not_older(writer)
                self._cleaner.look(writer.con)
                self._log.measure(self._store.anchor)
                if self._behind is None:
                    self._behind = how_far_behind(writer.con)
        except BaseException as error:
            self._abandon(error)
            raise
        return writer

    @contextmanager
    def _transaction(self) -> Iterator[Writer]:
        """Hold the write lock for a block that must end the transaction itself; abandon it if the block fails."""
        try:
            writer = self._open()
            try:
                yield writer
            except BaseException as error:
                self._abandon(error)
                raise
        finally:
            self.leave()

    def _begin_in_turn(self, writer: Writer) -> None:
        self.about_to_wait()
        deadline = time.monotonic() + self._timeout
        with self._queue.turn(deadline):
            while not self._begins(writer):
                if time.monotonic() > deadline:
                    raise apsw.BusyError("somebody else writes")
                time.sleep(0.0002)

    def _begins(self, writer: Writer) -> bool:
        """Begin a transaction that writes, unless somebody else is writing."""
        if not self._queue.hold():
            return False
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._queue.let_go()
            return False
        return True

    def _make_durable(self, writer: Writer) -> None:
        self._require_whole_log()
        self._log.make_room()
        self._ending = True
        self.about_to_wait()
        try:
            writer.execute("COMMIT")
        except DRIVER_ERRORS as error:
            keep_errno(error, writer.con)
            raise translate_commit(error) from error
        writer.committed()
        if self._log.is_cut(writer.con):
            self._log.empty()
            raise self._cut()
        try:
            self._stamp = self._identity.check()
        except Damaged as damage:
            # What was just written went into a file nobody will find.
            self.failed = damage
            raise
        except LogRemovedError as removed:
            self._replace_log(removed, writer)
            raise _NotKeptError from None
        self._log.look(writer.con)

    def _require_whole_log(self) -> None:
        """Raise `Damaged` if the log is shorter than what it holds: what comes after that would never be read."""
        if self._log.is_short(self._store.anchor):
            raise self._cut()

    def _cut(self) -> Damaged:
        self.failed = Damaged(
            "the log was cut short by something else than SQLite while the store was open, and what was only in it "
            "is gone. Writing has stopped. Stop every process that uses the file, and restore a backup",
            reason="cut",
        )
        return self.failed

    def _replace_log(self, removed: LogRemovedError, writing: Writer | None = None) -> None:
        """Begin a new log, if everything that was acknowledged is in the file; else stop.

        What `writing` has just written is not acknowledged, and in nobody's way.
        """
        if not self._reconnecting:
            anchor = self._store.anchor
            if writing is None:
                self._log.measure(anchor)
            if not self._log.is_in_file(anchor):
                self.failed = self._identity.replaced(str(removed), rescued=self._log.rescue(anchor))
                raise self.failed
            self._reconnecting = True
        writer, self._writer = self._writer, None
        if writer is not None:
            drop(writer.con, files_are_lost=True)
        self._log.close()
        self._store.reconnect()
        self._reconnecting = False

    def _check_not_older(self, writer: Writer) -> None:
        if self._last is None:
            return
        space, id, until = self._last
        if self._retention.now() > until:
            return  # the receipt may have been swept by now
        if writer.receipts.is_missing(space, id):
            self.failed = Damaged(
                "the file is older than what this process has already acknowledged: it was replaced by an earlier "
                "copy. Writing has stopped; open the store again if that is what you want",
                reason="regressed",
            )
            raise self.failed

    def _clean(self, writer: Writer, *, patient: bool = False, rewrite: bool = False) -> None:
        self._require_whole_log()
        try:
            self._cleaner.clean(writer.con, patient=patient, rewrite=rewrite)
        except apsw.Error:
            if rewrite:
                raise
            # A full disk is in the way: what was committed stands, and so does the duty.
        finally:
            writer.forget()
            writer.committed()

    def _abandon(self, error: BaseException) -> None:
        """Throw the connection away: after a failure its state is not worth reasoning about."""
        writer = self._writer
        if writer is not None:
            keep_errno(error, writer.con)
            try:
                if writer.con.in_transaction:
                    writer.execute("ROLLBACK")
            except apsw.Error:
                pass
            self._writer = None
            drop(writer.con, self.failed is not None)

    def _undo(self) -> None:
        """Abandon a transaction that nobody will end: Ctrl-C comes between any two steps, also right behind a BEGIN."""
        if self._writer is not None and self._writer.con.in_transaction:
            self._abandon(KeyboardInterrupt())

    def leave(self) -> None:
        """Let others write, whatever has happened."""
        try:
            self._undo()
        finally:
            self._queue.let_go()


class _NotKeptError(Exception):
    """What was committed is in a log that nobody will find. There is a new one now: do it again."""


class _WouldWaitError(Exception):
    """Somebody else has the write lock. Nothing was begun."""


def _fail(batch: list[Ticket], error: StrongroomError) -> None:
    for ticket in batch:
        if not ticket.done:
            # A copy for each: one exception raised in several threads would mix their traces.
            told = copy(error) if isinstance(error, StoreError) else error
            told.__cause__ = error.__cause__
            if isinstance(told, CommitUnknown):
                if type(ticket.work) is SyncReceipt:
                    told = Unavailable(f"a receipt could not be made durable ({told}); ask again", reason=told.reason)
                else:
                    told.commit_id = ticket.work.id
            ticket.answer = told
            ticket.done = True
