"""What balancing leaves in a page: cleared in the file itself, while the log is being emptied into it.

A page of a B-tree has its cells at its end, the pointers to them at its beginning, and a gap between. `secure_delete`
zeroes cells that are deleted and pages that are freed, but when SQLite moves the cells of a page together, copies of
them stay behind in the gap, and outlive what they are copies of.

Rules
-----
* Only bytes of a gap are written, all of them zero. No cell lies there, so neither a reader, nor a kill, nor a torn
  write can be hurt.
* It happens inside a checkpoint that empties the log, after SQLite has copied the last page of it and before it syncs
  the file. SQLite holds the locks of writing and of copying then, so nobody else can write any page of the file.
* Emptying the log makes every connection, of every process, forget the pages it has in memory: none of them writes
  back what was cleared.
* SQLite's own file object does the writing. A descriptor of ours would drop this process's locks when it is closed.

An overflow page and a page of the free list begin with the number of another page, a page of a B-tree with its type. In
files below MOST_PAGES the first byte tells them apart. An encrypted page is sealed as a whole: such files, and larger
ones, are rewritten instead (see `erasure.py`).
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import apsw

MOST_PAGES = 1 << 24  # the number of a page after them could begin like the type of a B-tree's
CHUNK_BYTES = 1 << 20

_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}  # by the type of a page: of an index or a table, an inner one or a leaf
_FILE_HEADER_BYTES = 100
_numbers = count()


def empty_log(path: Path, patience_seconds: float) -> bool:
    """Empty the log and clear every gap; False if somebody reads from the log or writes, or if the log held nothing."""
    vfs = _Vfs(f"strongroom-gaps-{next(_numbers)}")
    try:
        con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs.name)
        try:
            con.set_busy_timeout(int(patience_seconds * 1000))
            con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            con.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # opens the log
            busy = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").get[0]
        finally:
            con.close(True)
    finally:
        vfs.unregister()
    if vfs.failure is not None:
        raise vfs.failure
    return not busy and vfs.cleared


class _Vfs(apsw.VFS):
    """The file system as it is, but for what happens when the log has been copied."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cleared = False
        self.failure: Exception | None = None
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            return _Database(self, name, flags)
        return super().xOpen(name, flags)


class _Database(apsw.VFSFile):
    """The database itself."""

    def __init__(self, vfs: _Vfs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        if op == apsw.SQLITE_FCNTL_CKPT_DONE:
            try:
                self._clear()
                self._vfs.cleared = True
            except Exception as error:  # SQLite does not ask how it went
                self._vfs.failure = error
        return super().xFileControl(op, ptr)

    def _clear(self) -> None:
        header = self.xRead(_FILE_HEADER_BYTES, 0)
        page_bytes = int.from_bytes(header[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        end = self.xFileSize() // page_bytes * page_bytes
        for start in range(0, end, CHUNK_BYTES):  # a whole number of pages, as both are powers of two
            chunk = self.xRead(min(CHUNK_BYTES, end - start), start)
            for first, stop in unclean(chunk, page_bytes, _FILE_HEADER_BYTES if start == 0 else 0):
                self.xWrite(bytes(stop - first), start + first)


def unclean(chunk: bytes, page_bytes: int, skipped: int) -> list[tuple[int, int]]:
    """Return where gaps lie that are not empty, in a stretch of pages; before the first page's own header are `skipped`
    bytes."""
    found = []
    nothing = bytes(page_bytes)
    for page in range(0, len(chunk), page_bytes):
        at = page + skipped
        skipped = 0
        if (size := _HEADER_BYTES.get(chunk[at])) is None:
            continue
        first = at + size + 2 * (chunk[at + 3] << 8 | chunk[at + 4])
        stop = page + ((chunk[at + 5] << 8 | chunk[at + 6]) or 65536)
        if first < stop <= page + page_bytes and chunk[first:stop] != nothing[: stop - first]:
            cells = memoryview(chunk)[at + size : first]
            # In a damaged page a cell may lie there after all: left alone, for whoever mends it.
            if all(page + (cells[n] << 8 | cells[n + 1]) >= stop for n in range(0, len(cells), 2)):
                found.append((first, stop))
    return found
