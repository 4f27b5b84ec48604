"""A file through SQLite's own handle, past its caches.

Opening the file once more would be simpler, but closing it again would drop the locks that SQLite holds on it for this
process; and the name may lead to another file by now.
"""

from __future__ import annotations

import ctypes

import apsw

# These keep the interpreter's lock and look for a pending error afterwards: a VFS may be written in Python.
_READ = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_WRITE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64)
_SIZE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))


class _Methods(ctypes.Structure):
    """The beginning of SQLite's sqlite3_io_methods."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", _READ),
        ("write", _WRITE),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.c_void_p),
        ("size", _SIZE),
    )


class RawFile:
    """The database (`SQLITE_FCNTL_FILE_POINTER`) or the log (`SQLITE_FCNTL_JOURNAL_POINTER`) of an open connection."""

    def __init__(self, con: apsw.Connection, which: int) -> None:
        self._file = ctypes.c_void_p()
        con.file_control("main", which, ctypes.addressof(self._file))
        if not self._file or not ctypes.cast(self._file, ctypes.POINTER(ctypes.c_void_p)).contents:
            raise OSError("SQLite has no such file open now")  # following its pointers would end the process
        self._methods = ctypes.cast(self._file, ctypes.POINTER(ctypes.POINTER(_Methods))).contents.contents

    def read(self, length: int, offset: int) -> bytes | None:
        """Return the bytes at a place, or None if the file is too short or can not be read."""
        found = ctypes.create_string_buffer(length)
        return found.raw if self._methods.read(self._file, found, length, offset) == apsw.SQLITE_OK else None

    def write(self, data: bytes, offset: int) -> bool:
        """Write, and tell whether it worked. Whoever calls this holds SQLite's lock for it."""
        return bool(self._methods.write(self._file, data, len(data), offset) == apsw.SQLITE_OK)

    def size(self) -> int:
        found = ctypes.c_int64()
        self._methods.size(self._file, ctypes.byref(found))
        return found.value
