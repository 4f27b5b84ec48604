"""A file under another key, or none: encrypting, decrypting and changing a key are one thing.

The new file is written beside the old one, compared with it row by row, synced, and only then takes its name. A kill at
any moment leaves the one or the other, whole, and perhaps an unfinished file, which whoever opens the store next
removes. Nobody else can have the store open meanwhile: whoever opens it waits, and finds the new file. That has the
owner and the rights of the old one, and nobody else may read it while it is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

import strongroom.backends.sqlite.schema as schema
from strongroom.backends.sqlite.encryption import SALT_BYTES, Cipher, header_of, kind_of, pragma, require_encryption
from strongroom.backends.sqlite.failures import translated
from strongroom.backends.sqlite.files import Queue, refuse_folder, refuse_network, refuse_second_name, rights_beside
from strongroom.backends.sqlite.stray import refuse_stray_log
from strongroom.encryption import Secret, fetched
from strongroom.errors import Damaged, InvalidInput, SchemaMismatch, Unavailable, hidden
from strongroom.files import path_of

Target = Callable[[], str]
Progress = Callable[[int, int], None]  # how many bytes are written, of about how many

PAUSE_SECONDS = 0.05  # between two looks whether everybody else is gone

_PLAIN_KEY = ""
_STEPS = 20_000  # of SQLite's machine, between two looks at how far it is
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name"
_pack = msgspec.msgpack.Encoder().encode


def rekey(
    path: str | os.PathLike[str],
    *,
    key: Secret | None,
    new_key: Secret | None,
    timeout_seconds: float = 30.0,
    progress: Progress = lambda done, total: None,
) -> None:
    """Give a store another key: from None encrypts it, to None decrypts it. Needs room for a second copy."""
    key, new_key = hidden(key), hidden(new_key)
    file = path_of(path).resolve()
    refuse_stray_log(file)
    if not header_of(file):
        raise InvalidInput(f"there is no store at {file}; nothing changed")
    for refuse in (refuse_folder, refuse_network, refuse_second_name):
        refuse(file)
    if key is None and kind_of(header_of(file)) == "encrypted":
        raise InvalidInput(f"{file} is encrypted already: its key is needed to change it (nothing changed)", path="key")
    target = _target(new_key)
    cipher = Cipher(file, key)
    deadline = time.monotonic() + timeout_seconds
    queue = Queue(file)
    try:
        with translated(), _alone(file, cipher, queue, deadline) as con:
            partial = unfinished(file)
            _write(con, partial, target, progress)
            try:
                _require_same(con, partial, target)
                partial.replace(file)
            finally:
                partial.unlink(missing_ok=True)
            sync(file.parent)
    finally:
        queue.close()


def unfinished(file: Path) -> Path:
    """Return where a file under another key is written before it takes its place."""
    return file.with_name(f".{file.name}.rekeyed")


def make_like(original: Path, copy: Path) -> None:
    """Give a copy, made or not yet, the owner and the rights of the original, as far as this process may."""
    told = original.stat()
    handle = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if (told.st_uid, told.st_gid) != (os.fstat(handle).st_uid, os.fstat(handle).st_gid):
            with suppress(PermissionError):
                os.fchown(handle, told.st_uid, told.st_gid)
        os.fchmod(handle, rights_beside(told))
    finally:
        os.close(handle)


def write_copy(con: apsw.Connection, partial: Path, new_key: Secret | None) -> None:
    """Write a copy of a store under a key of its own, as it is now, while others go on."""
    _write(con, partial, _target(new_key), lambda done, total: None)


def _target(new_key: Secret | None) -> Target:
    """Return how the new file is told its key: a function, because a trace shows values."""
    if new_key is None:
        return lambda: _PLAIN_KEY
    require_encryption()
    target: Target = hidden(pragma(fetched(new_key), os.urandom(SALT_BYTES)))
    return target


def _connect(path: Path, cipher: Cipher) -> apsw.Connection:
    con = apsw.Connection(f"file:{quote(str(path))}", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    cipher.unlock(con)
    return con


@contextmanager
def _alone(path: Path, cipher: Cipher, queue: Queue, deadline: float) -> Iterator[apsw.Connection]:
    """Lend a connection that keeps everybody else out, with everything in the file itself.

    Whoever has the store open is asked again and again, and writes in between: the turn is given back each time.
    """
    while True:
        with queue.turn(deadline):
            con = _connect(path, cipher)
            try:
                _require_ours(con, cipher)
                try:
                    con.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE").fetchall()
                    con.execute("BEGIN EXCLUSIVE; COMMIT")
                except apsw.BusyError:
                    pass
                else:
                    yield con
                    return
            finally:
                con.close()
        if time.monotonic() > deadline:
            raise Unavailable(
                "somebody else has the store open: stop every process that uses it first; nothing changed",
                reason="locked",
            )
        time.sleep(PAUSE_SECONDS)


def _require_ours(con: apsw.Connection, cipher: Cipher) -> None:
    try:
        ours = con.pragma("application_id") == schema.APPLICATION_ID
    except apsw.NotADBError:
        raise (cipher.refusal() if cipher.is_on else _foreign()) from None
    if not ours:
        raise _foreign()


def _foreign() -> SchemaMismatch:
    return SchemaMismatch("this file is no store of Strongroom; nothing was changed", reason="foreign")


def _write(con: apsw.Connection, partial: Path, key: Target, progress: Progress) -> None:
    """Write everything to a new file under a key. On failure leave nothing."""
    partial.unlink(missing_ok=True)
    total = con.pragma("page_count") * con.pragma("page_size")
    _require_room(partial.parent, total)

    def look() -> bool:
        progress(min(_size(partial), total), total)
        return False

    try:
        make_like(Path(con.filename), partial)  # VACUUM INTO takes an empty file
        con.set_progress_handler(look, _STEPS)
        con.execute("VACUUM INTO ?", (_address(partial, key()),))
        sync(partial)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        con.set_progress_handler(None)
    progress(total, total)


def _address(partial: Path, key: str) -> str:
    return f"file:{quote(str(partial))}?" + (f"hexkey={key.encode().hex()}" if key else "key=")


def _require_same(con: apsw.Connection, partial: Path, key: Target) -> None:
    new = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if key():
            new.pragma("key", key())
        whole = new.pragma("integrity_check") == "ok"
        if not whole or digest(new) != digest(con):
            raise Damaged(
                "what was written is not what was read, so the store stays as it is; `strongroom check` tells more",
                reason="corrupt",
            )
    finally:
        new.close()
    if kind_of(header_of(partial)) != ("encrypted" if key() else "plain"):
        raise Damaged("the new file is not under its key; the store stays as it is", reason="corrupt")


def digest(con: apsw.Connection) -> str:
    """Return a digest of every row of every table, those of the index of words too, and of the file's own numbers."""
    total = blake2b(digest_size=32)
    total.update(_pack([con.pragma("application_id"), con.pragma("user_version")]))
    for (table,) in con.execute(_TABLES).fetchall():
        total.update(_pack(table))
        for row in con.execute(f'SELECT * FROM "{table}"'):
            total.update(_pack(row))
    return total.hexdigest()


def _require_room(folder: Path, size: int) -> None:
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < size + (1 << 20):
        raise Unavailable(
            f"this takes {size:,} bytes more on the disk for a while; nothing changed", reason="disk_full"
        )


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
