"""Waking up those who follow: one thread looks, however many wait.

Theory of operation
-------------------
Whoever waits says for which stream, and beyond which length; then looks itself, so that nothing falls in between. A
commit of this process wakes those who wait for a stream that it wrote, and nobody else. Commits of other processes show
in the version of the files (SQLite's data version), which a single thread asks for every couple of milliseconds while
anybody waits, and half as often once all is quiet: a few microseconds, no disk. If it has changed, one read asks for
the lengths of all awaited streams.

Our own commits change that version too, and nobody can tell whether somebody else's came with them. So such reads take
a tenth of the thread's time at most: where thousands of streams are awaited while this process writes, the commits of
others are noticed a little later, and those of its own at once as ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import apsw
from msgspec import Struct

from strongroom.errors import StrongroomError
from strongroom.store import Key

PAUSE_SECONDS = 0.002
IDLE_SECONDS = 5.0  # that the thread stays after the last one left: who follows comes back at once
QUIET_SECONDS = 1.0  # without a change, after which it looks half as often: half of what doing nothing costs
SHARE = 9  # times as long as a read took, nothing is read

Version = Callable[[], object]  # a value that differs once the files have changed


class Waiter(Struct, eq=False):
    """Somebody who waits for a stream to become longer than this. `wake` must not block, nor raise."""

    key: Key
    length: int
    wake: Callable[[], object]


class Watch:
    """Knows who waits. `versions` opens a way to ask for the version of the files, `lengths` reads those of streams."""

    def __init__(
        self,
        versions: Callable[[], AbstractContextManager[Version]],
        lengths: Callable[[Sequence[Key]], list[int]],
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._versions, self._lengths, self._pause = versions, lengths, pause_seconds
        self._lock = threading.Lock()  # of all below
        self._waiting: dict[Key, list[Waiter]] = {}
        self._thread: threading.Thread | None = None  # None as soon as it will not look again
        self._left = 0.0  # when the last one left
        self._stopped = False

    @contextmanager
    def waiting(self, key: Key, length: int, wake: Callable[[], object]) -> Iterator[None]:
        """Be woken inside of the block whenever the stream may be longer. Look at it yourself first."""
        waiter = Waiter(key, length, wake)
        with self._lock:
            self._waiting.setdefault(key, []).append(waiter)
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._look, name="strongroom-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                others = self._waiting[key]
                others.remove(waiter)
                if not others:
                    del self._waiting[key]
                self._left = time.monotonic()

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, the time is up or the watch is over."""
        deadline = time.monotonic() + timeout_seconds
        news = threading.Event()
        with self.waiting(key, length, news.set):
            while not self._stopped and self._lengths([key])[0] <= length:
                if not news.wait(deadline - time.monotonic()):
                    return
                news.clear()

    def note(self, keys: Iterable[Key]) -> None:
        """Wake those who wait for these streams."""
        if self._waiting:
            with self._lock:
                woken = [waiter for key in keys for waiter in self._waiting.get(key, ())]
            _wake(woken)

    def note_all(self) -> None:
        """Wake everybody: nobody knows what changed."""
        _wake(self._all())

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            thread = self._thread
        self.note_all()
        if thread is not None:
            try:
                thread.join()
            except RuntimeError:
                pass  # Ctrl-C came while it was being started

    def _all(self) -> list[Waiter]:
        with self._lock:
            return [waiter for waiters in self._waiting.values() for waiter in waiters]

    def _look(self) -> None:
        while self._stays():
            try:
                with self._versions() as version:
                    self._look_with(version)
            except (StrongroomError, apsw.Error):
                self.note_all()  # whatever it is, their own reads will say it better
                time.sleep(self._pause)

    def _look_with(self, version: Version) -> None:
        seen: object = None
        looks = 0  # since the last change
        while self._stays():
            now, took = version() if self._waiting else seen, 0.0
            looks += 1
            if now != seen:
                began = time.monotonic()
                _wake(self._grown())
                took, seen, looks = time.monotonic() - began, now, 0
            time.sleep(max(self._pause_after(looks), SHARE * took))

    def _pause_after(self, looks: int) -> float:
        return 2 * self._pause if looks * self._pause > QUIET_SECONDS else self._pause

    def _grown(self) -> list[Waiter]:
        waiters = self._all()
        keys = [*dict.fromkeys(waiter.key for waiter in waiters)]
        lengths = dict(zip(keys, self._lengths(keys), strict=True)) if keys else {}
        return [waiter for waiter in waiters if lengths[waiter.key] > waiter.length]

    def _stays(self) -> bool:
        """Tell whether to go on looking. Who comes after this said no finds no thread, and starts another one."""
        with self._lock:
            recent = self._waiting or time.monotonic() - self._left < IDLE_SECONDS
            if recent and not self._stopped:
                return True
            self._thread = None
            return False


def _wake(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.wake()
