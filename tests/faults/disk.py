"""A disk you control: every write, fsync, truncation and deletion SQLite makes to one database, in your hands.

Theory of operation
-------------------
SQLite reaches the disk through a table of C functions. `Disk` puts Python callbacks into that table, by ctypes, in
front of the originals: no compiler, no tracing, no preloaded library, and everything behind it stays real (the unix
VFS, its locks, the shared memory of the log, other processes). `xOpen` and `xDelete` are replaced once per process,
so each file of a watched database is caught as it is opened, whoever opens it. A child made by fork inherits the
watch with its rules and counters.

    with Disk(path) as disk:
        store = SqliteStore(path)      # open it after: files opened before are not watched
        disk.fail("sync", apsw.SQLITE_IOERR_FSYNC)
        ...                            # the next commit is CommitUnknown
        print(disk.count("sync"))

apsw's own `VFS` class was tried first: its files have no shared memory, so a log shared by several connections, which
is what is to be tested, does not work through it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, Literal, Self

import apsw

Kind = Literal["open", "write", "truncate", "sync", "delete"]

_ADDRESS = ctypes.c_void_p
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _ADDRESS, _ADDRESS, ctypes.c_int, _ADDRESS)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _ADDRESS, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _ADDRESS, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The head of sqlite3_vfs."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", _ADDRESS),
        ("name", _ADDRESS),
        ("data", _ADDRESS),
        ("open", _ADDRESS),
        ("delete", _ADDRESS),
    ]


class _Methods(ctypes.Structure):
    """sqlite3_io_methods, version 3."""

    _fields_ = [("version", _ADDRESS), ("close", _ADDRESS), ("read", _ADDRESS)] + [
        (name, _ADDRESS) for name in ("write", "truncate", "sync", *(f"other{n}" for n in range(13)))
    ]


class Operation:
    """One thing SQLite is about to do, or has done, to one file of the database."""

    __slots__ = ("_address", "file", "kind", "offset", "part", "size")

    def __init__(self, kind: Kind, part: str, file: int, offset: int = 0, size: int = 0, address: int = 0) -> None:
        self.kind = kind
        self.part = part  # which file: "" the database, "-wal" its log, "-journal" its rollback journal
        self.file = file  # the inode
        self.offset = offset  # of a write; the new size for a truncation
        self.size = size
        self._address = address

    @property
    def data(self) -> bytes:
        """The bytes of a write. Only valid while the operation is under way."""
        return ctypes.string_at(self._address, self.size)


class _Rule:
    """Count matching operations; from the first to the last of them, answer with `code` or kill the process."""

    def __init__(self, kinds: tuple[Kind, ...], part: str | None, nth: int, times: float, code: int, when: str) -> None:
        self._kinds, self._part, self._code, self._when = kinds, part, code, when
        self._first, self._last = nth, nth + times
        self._seen = 0

    def answer(self, operation: Operation, when: str) -> int:
        if when != self._when or operation.kind not in self._kinds or self._part not in (None, operation.part):
            return apsw.SQLITE_OK
        self._seen += 1
        if not self._first <= self._seen < self._last:
            return apsw.SQLITE_OK
        if not self._code:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._code


class Disk:
    """Watch the files of the database at `path`, in this process and in what it forks, from `with` to its end.

    With `writes=False` what SQLite writes passes by unseen and at full speed, for those who measure.
    """

    def __init__(self, path: str | os.PathLike[str], *, writes: bool = True) -> None:
        self.path = os.path.realpath(path)
        self.writes = writes
        self.fsync_seconds = 0.0  # added to each fsync: a slow disk, or one whose write cache must not hide the cost
        self._counts: Counter[Kind] = Counter()
        self._rules: list[_Rule] = []

    def __enter__(self) -> Self:
        _hook_sqlite()
        _watched.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Files that are still open keep their callbacks; without rules those only pass the call on.
        _watched.remove(self)
        self.heal()

    def count(self, *kinds: Kind) -> int:
        """Return how many operations of these kinds were asked for so far."""
        return sum(self._counts[kind] for kind in kinds)

    def fail(self, kind: Kind, code: int, *, part: str | None = None, nth: int = 1, times: float = 1) -> None:
        """Answer the nth operation of a kind from now, and `times` in all, with a SQLite error and without doing it."""
        self._rules.append(_Rule((kind,), part, nth, times, code, "before"))

    def kill(self, *kinds: Kind, part: str | None = None, nth: int = 1, after: bool = False) -> None:
        """Kill this process (-9) just before the nth operation of these kinds from now, or just after it."""
        self._rules.append(_Rule(kinds, part, nth, 1, 0, "after" if after else "before"))

    def heal(self) -> None:
        """Forget every rule: from now on the disk works and is as fast as it is."""
        self._rules.clear()
        self.fsync_seconds = 0.0

    def before(self, operation: Operation) -> int:
        """Decide about an operation: SQLITE_OK lets it happen, anything else is its result. For subclasses too."""
        self._counts[operation.kind] += 1
        for rule in self._rules:
            code = rule.answer(operation, "before")
            if code:
                return code
        if operation.kind == "sync" and self.fsync_seconds:
            time.sleep(self.fsync_seconds)
        return apsw.SQLITE_OK

    def after(self, operation: Operation) -> None:
        """Take note of an operation that has succeeded. For subclasses too."""
        for rule in self._rules:
            rule.answer(operation, "after")


_watched: list[Disk] = []
_files: dict[int, tuple[Disk, str, int]] = {}  # by sqlite3_file*
_tables: dict[tuple[int, bool], _Methods] = {}  # by address of the original, and whether writes are watched
_kept: list[Any] = []  # what C points to and must never be freed


def _hook_sqlite() -> None:
    if _kept:
        return
    pointer = ctypes.c_void_p()
    con = apsw.Connection("", vfs="unix")  # below the layer that encrypts, where there is one
    con.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(pointer))
    con.close()
    assert pointer.value is not None
    vfs = _Vfs.from_address(pointer.value)
    really_open, really_delete = _OPEN(vfs.open), _DELETE(vfs.delete)

    def opened(this: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code = really_open(this, name, file, flags, out)
        found = _find(name) if code == apsw.SQLITE_OK else None
        if found is not None:
            disk, part = found
            inode = Path(disk.path + part).stat().st_ino
            slot = ctypes.cast(file, ctypes.POINTER(ctypes.c_void_p))
            ours = _table(slot[0], disk.writes)
            _files[file] = (disk, part, inode)
            slot[0] = ctypes.addressof(ours)
            disk.after(Operation("open", part, inode))
        return int(code)

    def deleted(this: int, name: int, sync: int) -> int:
        found = _find(name)
        if found is None:
            return int(really_delete(this, name, sync))
        disk, part = found
        try:
            inode = Path(disk.path + part).stat().st_ino
        except OSError:
            return int(really_delete(this, name, sync))
        operation = Operation("delete", part, inode, offset=sync)
        return disk.before(operation) or _then(disk, operation, really_delete(this, name, sync))

    callbacks = _OPEN(opened), _DELETE(deleted)
    _kept.extend((callbacks, really_open, really_delete))
    vfs.open, vfs.delete = (ctypes.cast(callback, ctypes.c_void_p).value for callback in callbacks)


def _find(name: int | None) -> tuple[Disk, str] | None:
    """Return the disk that watches a file, and which part of its database the file is."""
    if not name:
        return None
    text = os.fsdecode(ctypes.string_at(name))
    for disk in reversed(_watched):
        part = text.removeprefix(disk.path)
        if text.startswith(disk.path) and part in ("", "-wal", "-journal"):
            return disk, part
    return None


def _table(address: int | None, writes: bool) -> _Methods:
    """Return the copy of a method table that asks us first."""
    assert address is not None
    if (address, writes) not in _tables:
        original = _Methods.from_address(address)
        ours = _Methods.from_buffer_copy(original)
        really_write, really_truncate, really_sync = (
            _WRITE(original.write),
            _TRUNCATE(original.truncate),
            _SYNC(original.sync),
        )

        def write(file: int, address: int, size: int, offset: int) -> int:
            disk, part, inode = _files[file]
            operation = Operation("write", part, inode, offset, size, address)
            return disk.before(operation) or _then(disk, operation, really_write(file, address, size, offset))

        def truncate(file: int, size: int) -> int:
            disk, part, inode = _files[file]
            operation = Operation("truncate", part, inode, size)
            return disk.before(operation) or _then(disk, operation, really_truncate(file, size))

        def sync(file: int, flags: int) -> int:
            disk, part, inode = _files[file]
            operation = Operation("sync", part, inode)
            return disk.before(operation) or _then(disk, operation, really_sync(file, flags))

        callbacks = _WRITE(write), _TRUNCATE(truncate), _SYNC(sync)
        _kept.extend((callbacks, really_write, really_truncate, really_sync))
        ours.write, ours.truncate, ours.sync = (ctypes.cast(callback, ctypes.c_void_p).value for callback in callbacks)
        if not writes:
            ours.write = original.write
        _tables[address, writes] = ours
    return _tables[address, writes]


def _then(disk: Disk, operation: Operation, code: int) -> int:
    if code == apsw.SQLITE_OK:
        disk.after(operation)
    return int(code)
