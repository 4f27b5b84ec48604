"""A file under another key, or none: encrypting, decrypting and changing a key are one thing.

The new file is written beside the old one, compared with it row by row, synced, and only then takes its name. A kill at
any moment leaves the one or the other, whole, and perhaps an unfinished file that the next call removes. Nobody else
can have the store open meanwhile: whoever opens it waits, and finds the new file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from strongroom.backends.sqlite import schema
from strongroom.backends.sqlite.encryption import SALT_BYTES, Cipher, header_of, kind_of, pragma, require_encryption
from strongroom.backends.sqlite.failures import translated
from strongroom.backends.sqlite.files import Queue, refuse_folder, refuse_hard_link, refuse_network
from strongroom.encryption import Secret, fetched
from strongroom.errors import Damaged, InvalidInput, SchemaMismatch, Unavailable
from strongroom.files import path_of

Progress = Callable[[int, int], None]  # how many bytes are written, of about how many

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
    file = path_of(path).resolve()
    if not header_of(file):
        raise InvalidInput(f"there is no store at {file}; nothing changed")
    for refuse in (refuse_folder, refuse_network, refuse_hard_link):
        refuse(file)
    if key is None and kind_of(header_of(file)) == "encrypted":
        raise InvalidInput(f"{file} is encrypted already: its key is needed to change it (nothing changed)", path="key")
    target = _target(new_key)
    cipher = Cipher(file, key)
    deadline = time.monotonic() + timeout_seconds
    queue = Queue(file)
    try:
        with queue.turn(deadline), translated():
            con = _alone(file, cipher, deadline)
            try:
                partial = file.with_name(f".{file.name}.rekeyed")
                _write(con, partial, target, progress)
                try:
                    _require_same(con, partial, target)
                    partial.replace(file)
                finally:
                    partial.unlink(missing_ok=True)
                sync(file.parent)
            finally:
                con.close()
    finally:
        queue.close()


def write_copy(con: apsw.Connection, partial: Path, new_key: Secret | None) -> None:
    """Write a copy of a store under a key of its own, as it is now, while others go on."""
    _write(con, partial, _target(new_key), lambda done, total: None)


def _target(new_key: Secret | None) -> str:
    if new_key is None:
        return _PLAIN_KEY
    require_encryption()
    return pragma(fetched(new_key), os.urandom(SALT_BYTES))


def _connect(path: Path, cipher: Cipher) -> apsw.Connection:
    con = apsw.Connection(f"file:{quote(str(path))}", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    cipher.unlock(con)
    return con


def _alone(path: Path, cipher: Cipher, deadline: float) -> apsw.Connection:
    """Return a connection that keeps everybody else out, with everything in the file itself."""
    con = _connect(path, cipher)
    try:
        try:
            ours = con.pragma("application_id") == schema.APPLICATION_ID
        except apsw.NotADBError:
            raise (cipher.refusal() if cipher.is_on else _foreign()) from None
        if not ours:
            raise _foreign()
        while True:
            try:
                con.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE").fetchall()
                con.execute("BEGIN EXCLUSIVE; COMMIT")
                return con
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "somebody else has the store open: stop every process that uses it first; nothing changed",
                        reason="locked",
                    ) from None
            time.sleep(0.01)
    except BaseException:
        con.close()
        raise


def _foreign() -> SchemaMismatch:
    return SchemaMismatch("this file is no store of Strongroom; nothing was changed", reason="foreign")


def _write(con: apsw.Connection, partial: Path, key: str, progress: Progress) -> None:
    """Write everything to a new file under a key. On failure leave nothing."""
    partial.unlink(missing_ok=True)
    total = con.pragma("page_count") * con.pragma("page_size")
    _require_room(partial.parent, total)

    def look() -> bool:
        progress(min(_size(partial), total), total)
        return False

    try:
        con.set_progress_handler(look, _STEPS)
        name = f"file:{quote(str(partial))}?" + (f"hexkey={key.encode().hex()}" if key else "key=")
        con.execute("VACUUM INTO ?", (name,))
        sync(partial)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        con.set_progress_handler(None)
    progress(total, total)


def _require_same(con: apsw.Connection, partial: Path, key: str) -> None:
    new = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if key:
            new.pragma("key", key)
        whole = new.pragma("integrity_check") == "ok"
        if not whole or digest(new) != digest(con):
            raise Damaged(
                "what was written is not what was read, so the store stays as it is; `strongroom check` tells more",
                reason="corrupt",
            )
    finally:
        new.close()
    if kind_of(header_of(partial)) != ("encrypted" if key else "plain"):
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
