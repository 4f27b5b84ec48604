"""Waking up those who follow: one thread looks, however many wait.

A commit of this process wakes waiters directly. Commits of other processes show in SQLite's data version, which a
single thread asks for every couple of milliseconds while anybody waits: a few microseconds, no disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import apsw

PAUSE_SECONDS = 0.002


class Watch:
    """Counts changes of a database. The count means nothing but "look again"."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._news = threading.Condition()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._stopped = False
        self.count = 0

    def note(self) -> None:
        """Tell everybody that something changed."""
        if self._waiting or self._stopped:
            with self._news:
                self.count += 1
                self._news.notify_all()
        else:
            self.count += 1

    def wait(self, seen: int, deadline: float) -> bool:
        """Sleep until the count differs from `seen`; False when the time is up or the watch is over."""
        with self._news:
            self._waiting += 1
            try:
                if self._thread is None and not self._stopped:
                    self._thread = threading.Thread(target=self._look, name="strongroom-watch", daemon=True)
                    self._thread.start()
                while self.count == seen and not self._stopped:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._news.wait(left)
                return not self._stopped
            finally:
                self._waiting -= 1

    def stop(self) -> None:
        self._stopped = True
        self.note()
        if self._thread is not None:
            try:
                self._thread.join()
            except RuntimeError:
                pass  # Ctrl-C came while it was being started

    def _look(self) -> None:
        con = self._connect()
        try:
            seen = None
            while self._waiting and not self._stopped:
                try:
                    version = con.pragma("data_version")
                except apsw.Error:
                    version = None  # whatever it is, the waiters' own reads will say it better
                if version != seen:
                    seen = version
                    self.note()
                time.sleep(PAUSE_SECONDS)
        finally:
            con.close()
            with self._news:
                self._thread = None
