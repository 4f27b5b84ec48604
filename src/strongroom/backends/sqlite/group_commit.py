"""Group commit: whoever waits anyway shares one fsync.

A commit joins the queue. Whoever then finds the lead free takes it: everything queued goes into one transaction, and
each ticket is marked. The others sleep on a lock of their own until theirs is marked. When the leader's own commit is
settled it lets go and wakes the first still waiting, so nobody serves others for long (LevelDB's writer queue). A
single lock that everybody sleeps on was tried first and batched badly: the leader re-took it before those it had
served could wake up (0.6 fsyncs a commit with 32 threads, against 0.05 this way).

On a slow disk whoever is told comes back at once, and one by one: the first would lead alone, and every other fsync
would serve a single commit. So a leader whose predecessors shared a slow one waits while others keep coming, until as
many are there as last time. Nobody waits on a fast disk or alone.

Those whose commits are settled are told while the next batch waits for the disk. Told at once, they would wake up and
fight the next leader for the interpreter, once for each of its statements (with 32 threads and fsyncs of 2 ms that
halved the rate), and could not be part of its batch anyway.

Ctrl-C comes between any two steps of the main thread. So threads take the lead by `with`, which nothing can come in
between of; they look first whether it is free, and in the rare case that somebody was quicker wait for it.

Nobody can be lost: whoever queues up does so before trying for the lead, and whoever lets go of it looks at the queue
afterwards. Sleepers still look around twice a second, so that even a wake-up that failed for lack of memory costs a
moment and not the store.

An event loop must not wait for a disk. Its commits wait in the same queue until it has turned round once; then it
writes them itself, all in one transaction, and leaves nothing but the COMMIT to a thread, which tells it when that is
done. (When the thread did the writing too, it fought the loop for the interpreter at each of its statements.) What may
take long the thread does alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from strongroom.backends.sqlite.receipts import SyncReceipt
from strongroom.store import Append, Commit, Put, Receipt

MAX_BATCH = 512
LOOK_AROUND_SECONDS = 0.5
SLOW_SECONDS = 0.001  # a batch that took this long is worth waiting a little for company
PAUSE_SECONDS = 0.0002
SHORT = 8  # a commit of more writes or records is too long for a loop


Work = Commit | SyncReceipt


class Promise(asyncio.Future[Receipt]):
    """The future of a commit. It cannot be cancelled: a cancelled task waits for it, and then is cancelled.

    asyncio does exactly that when a future declines to be cancelled; `asyncio.shield` would return at once.
    """

    def cancel(self, msg: object = None) -> bool:
        return False


class Ticket(Struct, eq=False):
    """One commit waiting for its answer."""

    work: Work
    promise: Promise | None = None
    answer: Receipt | BaseException | None = None  # worth nothing until it is durable
    done: bool = False  # whether the answer may be told
    sleep: threading.Lock | None = None  # held until there is news; None: no thread waits for this one
    left: bool = False  # whether its thread no longer waits
    others: deque[Ticket] | None = None  # those of its batch that are still to be woken

    def result(self) -> Receipt:
        if isinstance(self.answer, Receipt):
            return self.answer
        assert self.answer is not None
        raise self.answer


class Commits(Protocol):
    """What settles batches: at once, or in two steps, the second of which may be another thread's."""

    def apply(self, batch: list[Ticket]) -> None: ...
    def leave(self) -> None:
        """Hold nothing that others wait for, whatever `apply` came to."""
        ...

    def begin(self, batch: list[Ticket]) -> bool: ...
    def finish(self, batch: list[Ticket]) -> None: ...
    @property
    def lags(self) -> bool:
        """Whether there is something to `index`, which nobody who committed need wait for."""
        ...

    def index(self) -> None: ...


class GroupCommit:
    """The queue in front of a committer, which marks every ticket it is given, and may call `tell` while it waits."""

    def __init__(self, committer: Commits) -> None:
        self._committer = committer
        self._lead = threading.Lock()
        self._waiting: deque[Ticket] = deque()  # many append; only the leader takes
        self._settled: list[Ticket] = []  # marked, but not told; the leader's
        self._crowd = 0  # how many shared the last batch, if it was slow
        self._patience_seconds = 0.0
        self._called: asyncio.AbstractEventLoop | None = None  # the loop that is about to write what waits
        self._begun: list[Ticket] | None = None  # written by a loop; the thread finishes it, and has the lead
        self._starting = threading.Lock()
        self._wanted = threading.Lock()  # held while the writer thread has nothing to do; cheaper than an Event
        self._wanted.acquire()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def commit(self, work: Work) -> Receipt:
        """Apply a commit together with whatever else is waiting; block until it is settled."""
        ticket = Ticket(work)
        if not self._waiting and self._crowd < 2 and not self._lead.locked():
            # Nobody to share with. Whoever arrives from now on queues up, and is looked for when we let go.
            try:
                with self._lead:
                    self._apply([ticket])
                    if self._committer.lags:
                        self._committer.index()
                    self._tell_if_last()
            finally:
                self._wake_next()
            return ticket.answer if type(ticket.answer) is Receipt else ticket.result()
        try:
            ticket.sleep = threading.Lock()
        except RuntimeError:  # "can't allocate lock": Python has no better word for it
            raise MemoryError from None
        ticket.sleep.acquire()
        self._waiting.append(ticket)
        try:
            while not ticket.done:
                if self._lead.locked():
                    ticket.sleep.acquire(timeout=LOOK_AROUND_SECONDS)
                    continue
                try:
                    with self._lead:
                        self._lead_until(ticket)
                        self._tell_if_last()
                finally:
                    self._wake_next()
            ticket.left = True
            _wake_one(ticket.others)
        except BaseException:  # Ctrl-C: our ticket stays in the queue, and somebody else must lead when its turn comes
            ticket.left = True
            _wake_one(ticket.others)
            ticket.sleep = None
            self._start()
            _poke(self._wanted)
            raise
        return ticket.result()

    def submit(self, commit: Commit, loop: asyncio.AbstractEventLoop) -> Promise:
        """Queue a commit that an event loop waits for; the promise is kept on that loop."""
        promise = Promise(loop=loop)
        self._waiting.append(Ticket(commit, promise))
        if self._thread is None:
            self._start()
        if self._called is not loop:
            self._called = loop
            loop.call_soon(self._write)
        return promise

    def _write(self) -> None:
        """On a loop: write what waits and have the thread make it durable, unless somebody leads who will see to it."""
        self._called = None
        if not self._waiting or not self._lead.acquire(blocking=False):
            return
        if self._stopping:  # perhaps there is no thread any more
            try:
                self._lead_until(None)
            finally:
                self._let_go()
            return
        batch: list[Ticket] = []
        begun = False
        try:
            while self._waiting and len(batch) < MAX_BATCH and _is_short(self._waiting[0].work):
                batch.append(self._waiting[0])
                self._waiting.popleft()
            begun = bool(batch) and self._committer.begin(batch)
        finally:
            if begun:
                self._begun = batch  # and with it the lead: from here on it is the thread's
            else:
                self._waiting.extendleft(reversed(batch))
                self._lead.release()
            _poke(self._wanted)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every commit out for upkeep that must not run beside one."""
        try:
            with self._lead:
                self.tell()
                yield
                self._tell_if_last()
        finally:
            self._wake_next()

    def stop(self) -> None:
        """Settle what is queued, then end the writer thread."""
        self._stopping = True
        if self._thread is not None:
            _poke(self._wanted)
            try:
                self._thread.join()
            except RuntimeError:
                pass  # Ctrl-C came while it was being started

    def _lead_until(self, ticket: Ticket | None) -> None:
        """Apply batches until our own commit is settled, or the queue is empty."""
        while (ticket is None or not ticket.done) and (batch := self._take()):
            self._settle(batch, self._apply)

    def _apply(self, batch: list[Ticket]) -> None:
        try:
            self._committer.apply(batch)
        except BaseException:  # Ctrl-C, perhaps while it let go of what it held
            self._committer.leave()
            raise

    def _settle(self, batch: list[Ticket], settle: Callable[[list[Ticket]], None]) -> None:
        began = time.monotonic()
        try:
            settle(batch)
        finally:
            self.tell()  # those before us, if there was no reason to wait
            self._settled = batch
            self._patience_seconds = time.monotonic() - began
            slow = self._patience_seconds > SLOW_SECONDS
            self._crowd = len(batch) if slow else 0
        if self._committer.lags:
            self.tell()
            self._committer.index()

    def _take(self) -> list[Ticket]:
        if self._crowd > 1:
            self._gather()
        batch: list[Ticket] = []
        while self._waiting and len(batch) < MAX_BATCH:
            batch.append(self._waiting[0])
            self._waiting.popleft()  # second: without memory for the list, nobody is dropped from the queue
        return batch

    def _gather(self) -> None:
        """Wait for company as long as it keeps coming."""
        self.tell()
        deadline = time.monotonic() + self._patience_seconds
        seen = -1
        while seen < len(self._waiting) < self._crowd and time.monotonic() < deadline:
            seen = len(self._waiting)
            time.sleep(PAUSE_SECONDS)

    def tell(self) -> None:
        """Wake up those whose commits are settled. For the leader only, best when it is about to wait."""
        if self._settled:
            settled, self._settled = self._settled, []
            _tell(settled)

    def _let_go(self) -> None:
        """Let somebody who is still waiting take the lead, or tell the settled if nobody will."""
        self._tell_if_last()
        self._lead.release()
        self._wake_next()

    def _tell_if_last(self) -> None:
        if self._settled and not self._waiting:
            self.tell()

    def _wake_next(self) -> None:
        """Wake the first who still waits, once the lead is free: whoever queued up before found it taken, and whoever
        does from here on finds it free."""
        if not self._waiting:
            return
        try:
            next_leader = self._waiting[0]
        except IndexError:  # somebody was quicker, and looks after the rest
            return
        sleep = next_leader.sleep
        if sleep is not None:
            _poke(sleep)
            return
        try:
            if next_leader.promise is not None:
                next_leader.promise.get_loop().call_soon_threadsafe(self._write)
                return
        except RuntimeError:
            pass  # its loop is closed
        _poke(self._wanted)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="strongroom-write", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        # Whoever leads may be a loop that is about to leave the rest to us: so do not end, nor wait for the lead.
        while not (self._stopping and not self._waiting and self._begun is None and not self._lead.locked()):
            self._wanted.acquire(timeout=LOOK_AROUND_SECONDS if self._waiting or self._stopping else -1)
            begun = self._begun
            if begun is not None:
                self._begun = None  # not otherwise: a loop may have put one there since we looked
            elif not self._waiting or not self._lead.acquire(blocking=False):
                continue
            try:
                if begun is None:
                    self._lead_until(None)
                else:
                    self._settle(begun, self._committer.finish)
                    self.tell()
            except Exception:
                pass  # everybody in that batch was marked; the next batch still needs this thread
            finally:
                self._let_go()


def _is_short(work: Work) -> bool:
    """Tell whether a commit is a few small writes, none of which removes anything: that may take long."""
    size = 0
    for write in work.writes if type(work) is Commit else ():
        if type(write) is Append:
            size += len(write.entries)
        elif type(write) is Put:
            size += 1
        else:
            return False
    return size <= SHORT


def _poke(sleep: threading.Lock) -> None:
    if sleep.locked():
        try:
            sleep.release()
        except RuntimeError:
            pass  # awake already


def _wake_one(sleepers: deque[Ticket] | None) -> None:
    """Wake the next of a batch, who will do the same: all at once would only queue up for the interpreter.

    The chain does not break: whoever leaves says so first and then looks for the others, so whoever wakes them either
    sees that he has left, or is followed by him.
    """
    while sleepers:
        try:
            ticket = sleepers.popleft()
        except IndexError:
            return
        sleep = ticket.sleep
        if not ticket.left and sleep is not None:
            _poke(sleep)
            return


def _tell(batch: list[Ticket]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    sleepers: deque[Ticket] = deque()
    for ticket in batch:
        if ticket.promise is not None:
            by_loop.setdefault(ticket.promise.get_loop(), []).append(ticket)
        else:
            ticket.others = sleepers
            sleepers.append(ticket)
    _wake_one(sleepers)
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_keep, settled)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to tell


def _keep(tickets: Iterable[Ticket]) -> None:
    for ticket in tickets:
        assert ticket.promise is not None
        if isinstance(ticket.answer, BaseException):
            ticket.promise.set_exception(ticket.answer)
        else:
            ticket.promise.set_result(ticket.result())
