"""What SQLite's errors mean to a caller. No apsw exception leaves this package."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from strongroom.errors import CommitUnknown, Damaged, SchemaMismatch, StoreError, StrongroomError, Unavailable

# What a driver's call can raise. Text is decoded by the driver, so a damaged page may show as bad text.
DRIVER_ERRORS = (apsw.Error, MemoryError, UnicodeDecodeError)

_BY_ERRNO = {
    errno.EFBIG: ("the file may not grow any further", "file_too_large"),
    errno.EDQUOT: ("the disk quota is used up", "disk_full"),
    errno.EROFS: ("the disk is read-only", "read_only"),
}


@contextmanager
def translated(*, reading: bool = False) -> Iterator[None]:
    """Run a block, turning driver errors raised before any COMMIT into ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, reading=reading) from error


def translate(error: BaseException, *, reading: bool = False) -> StrongroomError:
    """Return our error for a driver error that happened outside COMMIT, where nothing can have changed."""
    kind, message, reason = _meaning(error)
    # Damage needs no such word, and a read could not have changed anything.
    return kind(message if reading or kind is Damaged else f"{message}; nothing changed", reason=reason)


def not_a_database(path: Path) -> SchemaMismatch:
    """Say that what was opened as a store is something else."""
    return SchemaMismatch(f"{path} is not a SQLite database; nothing was changed", reason="foreign")


def _meaning(error: BaseException) -> tuple[type[StoreError], str, str]:
    detail = str(error)
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable, "another process kept the database locked", "locked"
        case apsw.FullError():
            return Unavailable, "the disk is full: free some space and try again", "disk_full"
        case apsw.ReadOnlyError():
            return Unavailable, "the database or its disk is read-only", "read_only"
        case apsw.CorruptError():
            return Damaged, f"the database file is damaged ({detail}); restore a backup", "corrupt"
        case apsw.SQLError() if "no such table" in detail:
            return Damaged, f"the database file has lost its tables ({detail}); restore a backup", "corrupt"
        case apsw.NotADBError():
            return SchemaMismatch, "the file is not a SQLite database", "foreign"
        case apsw.CantOpenError():
            return Unavailable, f"the database file cannot be opened ({detail})", "missing"
        case apsw.PermissionsError() | apsw.AuthError():
            return Unavailable, "no permission to use the database file", "permission"
        case UnicodeDecodeError():
            return Damaged, f"the database file holds text that is none ({detail}); restore a backup", "corrupt"
        case apsw.NoMemError() | MemoryError():
            return Unavailable, "out of memory", "memory"
        case apsw.IOError() if (known := _BY_ERRNO.get(getattr(error, "errno", 0))) is not None:
            return Unavailable, known[0], known[1]
        case apsw.IOError():
            return Unavailable, f"the disk reported an error ({detail})", "io"
    return Unavailable, f"SQLite refused the operation ({detail})", "io"


def keep_errno(error: BaseException, con: apsw.Connection) -> None:
    """Note what the operating system said, which the exception does not carry, before the connection goes."""
    if isinstance(error, apsw.IOError):
        error.errno = con.system_errno  # type: ignore[attr-defined]


def translate_commit(error: BaseException) -> StrongroomError:
    """Return our error for a failed COMMIT.

    A failed *write* leaves the transaction without its commit frame, so nothing changed. A failed *fsync* leaves the
    complete frames in the page cache: they are invisible now, yet a crash could bring them back. Nobody can tell. The
    same goes for memory that runs out: it may do so when the log is already synced and only its index is not.
    """
    extended = getattr(error, "extendedresult", 0)
    write_failed = extended in (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE)
    if isinstance(error, apsw.IOError) and not write_failed:
        return CommitUnknown(
            f"the disk failed while a commit was being made durable ({error}); repeat it with the same id",
            reason="fsync" if extended == apsw.SQLITE_IOERR_FSYNC else "io",
        )
    if isinstance(error, (apsw.NoMemError, MemoryError)):
        return CommitUnknown("memory ran out during a commit; repeat it with the same id", reason="memory")
    return translate(error)
