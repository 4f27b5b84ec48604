"""How the interpreter is set while it serves. It has one of each setting, however many servers run in a process."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Requests leave little behind, so the garbage collector need not look through every few of them.
COLLECT_AFTER = 50_000  # new objects
# A thread that has waited for the disk should go on soon. Usually a busy loop may keep the interpreter for 5 ms, and a
# commit needs it more than once.
TURN_SECONDS = 0.0005

_lock = threading.Lock()
_servers = 0
_usual: tuple[float, tuple[int, int, int]] = sys.getswitchinterval(), gc.get_threshold()


@contextmanager
def tuned() -> Iterator[None]:
    """Set the interpreter for serving, until the last server has stopped."""
    global _servers, _usual
    with _lock:
        if not _servers:
            _usual = sys.getswitchinterval(), gc.get_threshold()
            gc.freeze()  # what is here now stays, and need not be looked through again and again
            gc.set_threshold(COLLECT_AFTER, *_usual[1][1:])
            sys.setswitchinterval(TURN_SECONDS)
        _servers += 1
    try:
        yield
    finally:
        with _lock:
            _servers -= 1
            if not _servers:
                sys.setswitchinterval(_usual[0])
                gc.set_threshold(*_usual[1])
                gc.unfreeze()
