"""System calls that are interrupted, or write less than they were asked to: what a kernel may always do."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from pathlib import Path

import apsw

from strongroom.backends.sqlite import SqliteStore
from strongroom.errors import StoreError
from tests.crash.processes import apart
from tests.faults.checks import Broken, Checkpointing, check, check_file, repeat

Write = Callable[[int, int, int, int], int]

_PWRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)


def _replace_pwrite(make: Callable[[Write], Write]) -> Callable[[], int]:
    """Put a function in front of SQLite's pwrite(), for this process; return one that tells how often it was called."""
    real = _PWRITE(("pwrite64", ctypes.CDLL(None, use_errno=True)))
    ours, calls = make(real), 0

    def counted(file: int, address: int, size: int, offset: int) -> int:
        nonlocal calls
        calls += 1
        return ours(file, address, size, offset)

    callback = _PWRITE(counted)
    _kept.append(callback)
    vfs = apsw.VFS("unix with another pwrite", base="unix")
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    for name in ("pwrite", "pwrite64"):
        vfs.xSetSystemCall(name, address)
    vfs.unregister()
    return lambda: calls


_kept: list[object] = []  # what C points to and must never be freed


def _short(real: Write) -> Write:
    """At most half a page at a time."""
    return lambda file, address, size, offset: real(file, address, min(size, 2000), offset)


def _interrupted(real: Write) -> Write:
    """Every second call is interrupted before it has written anything."""
    turn = 0

    def write(file: int, address: int, size: int, offset: int) -> int:
        nonlocal turn
        turn += 1
        if turn % 2:
            ctypes.set_errno(errno.EINTR)
            return -1
        return real(file, address, size, offset)

    return write


def _lying(real: Write) -> Write:
    """Half a page, and says it was all."""

    def write(file: int, address: int, size: int, offset: int) -> int:
        real(file, address, min(size, 2000), offset)
        return size

    return write


def _forty_commits(path: Path, make: Callable[[Write], Write]) -> int:
    calls = _replace_pwrite(make)
    with Checkpointing(path) as store:
        for number in range(1, 41):
            repeat(store, 0, number)
        check(store, [40], in_flight=0)
    check_file(path)
    with SqliteStore(path) as store:
        check(store, [40], in_flight=0)
    return calls()


def test_short_writes_are_continued(path: Path) -> None:
    assert apart(_forty_commits, path, _short) > 40


def test_interrupted_writes_are_tried_again(path: Path) -> None:
    assert apart(_forty_commits, path, _interrupted) > 40


def _harm(path: Path) -> bool:
    try:
        _forty_commits(path, _lying)
    except (Broken, StoreError, apsw.Error):
        return True
    return False


def test_the_check_sees_writes_that_are_said_to_be_whole_and_are_not(path: Path) -> None:
    assert apart(_harm, path)
