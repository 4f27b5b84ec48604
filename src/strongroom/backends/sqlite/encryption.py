"""Encryption of the file and its log, inside SQLite (SQLite3 Multiple Ciphers, the wheel `apsw-sqlite3mc`).

Theory of operation
-------------------
* The cipher is ChaCha20-Poly1305, its default: every page of the file and every page in the log is encrypted and
  authenticated under a key, a nonce of its own and its number. A bit that was flipped is an error, never an answer. In
  the clear are 24 bytes of the file (a random salt, and numbers such as the page size), the headers of the log's
  frames, and the index of the log, which knows page numbers only.
* A passphrase becomes a key by PBKDF2-HMAC-SHA256 over that salt, 64,007 rounds: what SQLite3 Multiple Ciphers does
  itself, so that its tools open our files. We do it once for a store instead of once for each connection, and forget
  the passphrase. 32 bytes are the key as they are.
* What is in memory is not encrypted; nothing is written to temporary files (they are in memory too, for such a store).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import apsw

from strongroom.encryption import KEY_BYTES, Secret, fetched
from strongroom.errors import SchemaMismatch, Unavailable, hidden

ROUNDS = 64_007
SALT_BYTES = 16

_RAW = "raw:"
_PLAIN = b"SQLite format 3\0"
_ALWAYS = b"\x40\x20\x20"  # what every SQLite file says at 21, encrypted or not
_HEADER_BYTES = 24


class Cipher:
    """How the connections of a store are unlocked; one without a secret leaves them as they are."""

    def __init__(self, path: Path, secret: Secret | None) -> None:
        self.is_on = secret is not None
        self._path = path
        self._secret = None if secret is None else fetched(secret)
        self._salt = b""
        self._key = ""
        self.is_new = False  # whether there is no file yet, and so no salt that others agree on
        if self.is_on:
            require_encryption()
        self.prepare()

    def __repr__(self) -> str:
        return f"Cipher({'on' if self.is_on else 'off'})"

    def prepare(self) -> None:
        """See what the file is now, and derive the key for it. Raise `SchemaMismatch` if it is not as was said."""
        header = header_of(self._path)
        what = kind_of(header)
        self.is_new = self.is_on and what == "new"
        if what == "encrypted" and not self.is_on:
            raise SchemaMismatch(
                f"{self._path} is encrypted: open it with key=, or name its key by STRONGROOM_KEY, STRONGROOM_KEY_FILE "
                "or STRONGROOM_KEY_COMMAND; a command's --key is for servers (nothing was changed)",
                reason="encrypted",
            )
        if what == "plain" and self.is_on:
            raise SchemaMismatch(
                f"{self._path} is not encrypted, and a key was given: open it without one, or encrypt it first "
                "(`strongroom encrypt`); nothing was changed",
                reason="plain",
            )
        if self._secret is not None and (not self._key or (header and header[:SALT_BYTES] != self._salt)):
            self._salt = header[:SALT_BYTES] if header else os.urandom(SALT_BYTES)
            self._key = pragma(self._secret, self._salt)

    def forget_secret(self) -> None:
        """Keep what connections need, and nothing else."""
        self._secret = None

    def raw_key(self) -> Secret | None:
        """Return 32 bytes that open the file as the secret does, such that nothing shows them; None if it is plain."""
        return hidden(bytes.fromhex(self._key.removeprefix(_RAW))[:KEY_BYTES]) if self.is_on else None

    def unlock(self, con: apsw.Connection) -> None:
        if self.is_on:
            con.pragma("key", self._key)
        elif "TEMP_STORE=2" in apsw.compile_options:
            con.pragma("temp_store", "FILE")  # else rewriting a large file takes as much memory

    def refusal(self) -> SchemaMismatch:
        """Return what to say when SQLite finds no database behind the key."""
        return SchemaMismatch(
            f"the key does not open {self._path}: it is another one's, or the first page of the file is damaged "
            "(nothing was changed)",
            reason="key",
        )


def pragma(secret: str | bytes, salt: bytes) -> str:
    """Return a key as `PRAGMA key` takes it, with the salt of the file."""
    if isinstance(secret, str):
        secret = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, ROUNDS, 32)
    return f"{_RAW}{secret.hex()}{salt.hex()}"


def header_of(path: Path) -> bytes:
    """Return how a file begins; nothing if there is no file.

    Through SQLite: closing a descriptor of our own would drop the locks that this process holds on the file.
    """
    try:
        flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
        file = apsw.VFSFile("", str(path), flags)
    except apsw.CantOpenError:
        return b""  # or it cannot be read, which whoever opens it is told
    try:
        return file.xRead(_HEADER_BYTES, 0) if file.xFileSize() >= _HEADER_BYTES else b""
    finally:
        file.xClose()


def kind_of(header: bytes) -> Literal["new", "plain", "encrypted", "other"]:
    """Tell what begins like this."""
    if not header:
        return "new"
    if header.startswith(_PLAIN):
        return "plain"
    return "encrypted" if header[21:24] == _ALWAYS else "other"


def require_encryption() -> None:
    """Raise `Unavailable` if the SQLite at hand cannot encrypt."""
    if not hasattr(apsw, "mc_version"):
        raise Unavailable(
            "the installed apsw cannot encrypt: another package has put its own in the place of apsw-sqlite3mc. "
            "`pip install --force-reinstall --no-deps apsw-sqlite3mc` puts it back (nothing was opened)",
            reason="encryption",
        )
