"""Sealed files: encrypted and authenticated, in chunks, so that they can be read and written at any place.

A file is a header (what made the key, a salt) and chunks of 64 KiB, each ChaCha20-Poly1305 under a random nonce of its
own. Bound to each chunk are the header, its number, and whether it is the last: chunks can be neither changed, moved,
dropped nor added. The key is made for this file alone, over the salt: by scrypt (N = 2^17, r = 8, p = 1) of a
passphrase, by HKDF of 32 bytes. Needs the extra `signing` (the package cryptography).

Content is never on disk in the clear, neither while it is written nor while it is read.
"""

from __future__ import annotations

import io
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from strongroom.encryption import KEY_BYTES, Secret, fetched
from strongroom.errors import InvalidInput

MAGIC = b"strongroom sealed 1\n"
PACKS = (b"PK", MAGIC)  # how a pack begins: a zip, or one that is sealed
CHUNK = 1 << 16
SALT_BYTES, NONCE_BYTES, TAG_BYTES = 16, 12, 16
LOG_N = 17  # of scrypt: 128 MiB of memory, a few tenths of a second
HEADER_BYTES = len(MAGIC) + 2 + SALT_BYTES

_STORED = NONCE_BYTES + CHUNK + TAG_BYTES
_BOUND = struct.Struct("<Q?")


@contextmanager
def sealing(file: BinaryIO, key: Secret | None) -> Iterator[BinaryIO]:
    """Offer a file to write to whose content is sealed; without a key, the file itself."""
    if key is None:
        yield file
        return
    secret = fetched(key)
    header = MAGIC + bytes([isinstance(secret, str), LOG_N]) + os.urandom(SALT_BYTES)
    cipher = _cipher(secret, header)
    del key, secret  # or the trace of whatever goes wrong below could show them
    file.write(header)
    sealed = _Sealed(file, header, cipher)
    yield cast("BinaryIO", sealed)
    sealed.finish()


@contextmanager
def unsealed(file: BinaryIO, key: Secret | None) -> Iterator[BinaryIO]:
    """Offer the content of a file, checked from its beginning to its end before a byte of it is used."""
    header = file.read(HEADER_BYTES)
    file.seek(0)
    is_sealed = header.startswith(MAGIC)
    if key is None:
        if is_sealed:
            raise InvalidInput("this file is encrypted: pass its key=", path="key")
        yield file
        return
    if not is_sealed:
        raise InvalidInput("this file is not encrypted, and a key was given", path="key")
    if len(header) < HEADER_BYTES or header[len(MAGIC) + 1] != LOG_N:
        raise _refused()
    secret = fetched(key)
    cipher = _cipher(secret, header) if header[len(MAGIC)] == isinstance(secret, str) else None
    del key, secret  # or the trace of whatever goes wrong below could show them
    if cipher is None:
        raise _refused()
    size = _content_size(file.seek(0, io.SEEK_END))
    sealed = _Sealed(file, header, cipher, size)
    sealed.check()
    yield cast("BinaryIO", sealed)


@contextmanager
def scratch(*, encrypted: bool) -> Iterator[BinaryIO]:
    """Offer a temporary file; where nothing may be on disk in the clear, one sealed under a key that nobody keeps."""
    with tempfile.TemporaryFile() as file:
        if not encrypted:
            yield file
            return
        header = MAGIC + bytes([False, LOG_N]) + os.urandom(SALT_BYTES)
        yield cast("BinaryIO", _Sealed(file, header, _cipher(os.urandom(KEY_BYTES), header)))


def _content_size(stored: int) -> int:
    whole, rest = divmod(stored - HEADER_BYTES, _STORED)
    if not rest and whole:
        return whole * CHUNK
    last = rest - NONCE_BYTES - TAG_BYTES
    if last < 0 or (whole and not last):
        raise _refused()
    return whole * CHUNK + last


def _cipher(secret: str | bytes, header: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    except ImportError:
        raise InvalidInput("encrypted files need `pip install 'strongroom[signing]'`") from None
    salt = header[-SALT_BYTES:]
    if isinstance(secret, str):
        return ChaCha20Poly1305(Scrypt(salt, KEY_BYTES, 1 << LOG_N, 8, 1).derive(secret.encode()))
    return ChaCha20Poly1305(HKDF(SHA256(), KEY_BYTES, salt, MAGIC).derive(secret))


def _refused() -> InvalidInput:
    return InvalidInput("this file is refused: the key does not open it, or it was cut or changed", path="key")


class _Sealed(io.RawIOBase):
    """A file of chunks, of which one is at hand in the clear."""

    def __init__(self, file: BinaryIO, header: bytes, cipher: Any, size: int | None = None) -> None:
        self._file, self._header, self._cipher = file, header, cipher
        self._is_new = size is None  # being written: no chunk is marked as the last one yet
        self._size = size or 0
        self._at = 0  # the place in the content
        self._number = -1  # which chunk is at hand
        self._chunk = bytearray()
        self._is_changed = False

    def check(self) -> None:
        """Read everything once; raise `InvalidInput` unless all of it is what was sealed."""
        for number in range(self._last + 1):
            self._take(number)

    def finish(self) -> None:
        """Write what is at hand, and mark the last chunk as the last."""
        self._put()
        self._take(self._last)
        self._put(last=True)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        found = bytearray()
        while self._at < end:
            number, place = divmod(self._at, CHUNK)
            self._take(number)
            part = self._chunk[place : place + end - self._at]
            found += part
            self._at += len(part)
        return bytes(found)

    def readinto(self, buffer: Any) -> int:
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        while left:
            number, place = divmod(self._at, CHUNK)
            self._take(number)
            part = left[: CHUNK - place]
            self._chunk[place : place + len(part)] = part
            self._is_changed = True
            self._at += len(part)
            self._size = max(self._size, self._at)
            left = left[len(part) :]
        return len(memoryview(data).cast("B"))

    @property
    def _last(self) -> int:
        return max(0, (self._size - 1) // CHUNK)

    def _take(self, number: int) -> None:
        """Have a chunk at hand."""
        if number == self._number:
            return
        self._put()
        self._number, self._chunk = number, bytearray()
        if self._is_new and number * CHUNK >= self._size:
            return
        self._file.seek(HEADER_BYTES + number * _STORED)
        stored = self._file.read(_STORED)
        self._chunk = bytearray(self._opened(stored, number))

    def _opened(self, stored: bytes, number: int) -> bytes:
        from cryptography.exceptions import InvalidTag

        bound = self._header + _BOUND.pack(number, number == self._last and not self._is_new)
        try:
            return bytes(self._cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], bound))
        except (InvalidTag, ValueError):
            raise _refused() from None

    def _put(self, *, last: bool = False) -> None:
        """Write the chunk at hand, under a nonce that was never used, if it has changed."""
        if self._is_changed or last:
            nonce = os.urandom(NONCE_BYTES)
            bound = self._header + _BOUND.pack(self._number, last)
            self._file.seek(HEADER_BYTES + self._number * _STORED)
            self._file.write(nonce + self._cipher.encrypt(nonce, bytes(self._chunk), bound))
            self._is_changed = False
