"""A strict reader of zip files, for files that come from anywhere (pure over a file object).

Rules
-----
A zip tells everything twice: in its directory and before each entry's data. Archives that lie, lie by letting the two
differ or by pointing twice at the same bytes. So this reader accepts only what a plain writer makes: entries one after
the other from the first byte, no gap, no overlap, nothing before, between or after them; both headers agree; stored
or deflated, not encrypted, no zip64; regular files with portable names that no file system could confuse. Data is
never held as a whole, never read past its declared size, and must have its declared size and CRC-32.

Python's zipfile accepts most of what is refused here, which is why it is not used for reading.
"""

from __future__ import annotations

import stat
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from strongroom.errors import InvalidInput

MAX_ENTRIES = 60_000
MAX_RATIO = 200
# Small files may be as repetitive as they like; a bomb has to be large.
RATIO_FREE_BYTES = 1 << 20
CHUNK = 1 << 18
MAX_NAME = 255

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_UTF8 = 0x0800
_ALLOWED_FLAGS = _UTF8 | 0x0006  # bits 1 and 2 only say how hard the writer tried to compress
_REFUSED_EXTRAS = {0x0001: "zip64", 0x7075: "a second name", 0x9901: "encryption", 0x0017: "encryption"}
_STORED, _DEFLATED = 0, 8


class Member(Struct, frozen=True):
    """One file of the archive, as both of its headers describe it."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    start: int


class Unzip:
    """The members of an archive that passed every check of its structure."""

    def __init__(self, file: BinaryIO, *, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        try:
            self.members = {member.name: member for member in self._members()}
        except (struct.error, OSError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise refused(f"its structure cannot be read ({problem})") from None

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in chunks. Size and CRC are known to be right only once it has ended."""
        member = self.members[name]
        made, crc = 0, 0
        for chunk in self._stored(member) if member.method == _STORED else self._inflated(member):
            made += len(chunk)
            if made > member.size:
                raise refused(f"{name!r} is larger than it says")
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if made != member.size or crc != member.crc:
            raise refused(f"{name!r} does not match its size and checksum")

    # ---- content ----------------------------------------------------------------------------------------------------

    def _stored(self, member: Member) -> Iterator[bytes]:
        place, left = member.start, member.packed
        while left:
            chunk = self._at(place, min(CHUNK, left))
            yield chunk
            place, left = place + len(chunk), left - len(chunk)

    def _inflated(self, member: Member) -> Iterator[bytes]:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        for packed in self._stored(member):
            if inflate.eof:
                raise refused(f"{member.name!r} has data after its end")
            waiting = packed
            while waiting and not inflate.eof:
                try:
                    yield inflate.decompress(waiting, CHUNK)
                except zlib.error as problem:
                    raise refused(f"{member.name!r} cannot be decompressed ({problem})") from None
                waiting = inflate.unconsumed_tail
            if inflate.unused_data:
                raise refused(f"{member.name!r} has data after its end")
        while not inflate.eof:
            rest = inflate.decompress(inflate.unconsumed_tail, CHUNK)
            if not rest:
                raise refused(f"{member.name!r} ends too early")
            yield rest

    # ---- structure --------------------------------------------------------------------------------------------------

    def _members(self) -> list[Member]:
        size = self._file.seek(0, 2)
        if size < _END.size:
            raise refused("it is not a zip file")
        end = size - _END.size
        magic, disk, first_disk, here, entries, length, start, comment = _END.unpack(self._at(end, _END.size))
        if magic != b"PK\5\6" or comment:
            raise refused("it is not a zip file, or there is something after its end")
        if disk or first_disk or here != entries:
            raise refused("it is split over several files")
        if entries > MAX_ENTRIES or 0xFFFFFFFF in (length, start):
            raise refused(f"it has more than {MAX_ENTRIES} entries, or needs zip64")
        if start + length != end:
            raise refused("there is something between its directory and its end")
        members = self._directory(start, end, entries)
        self._check_tiling(members, start)
        _check_names([member.name for member, _ in members])
        total = sum(member.size for member, _ in members)
        if total > self._max_bytes:
            raise refused(f"it unpacks to {total} bytes, and {self._max_bytes} are allowed")
        return [member for member, _ in members]

    def _directory(self, place: int, end: int, entries: int) -> list[tuple[Member, int]]:
        members = []
        for _ in range(entries):
            fields = _CENTRAL.unpack(self._at(place, _CENTRAL.size))
            (magic, _, _, flags, method, _, _, crc, packed, size, name, extra, comment, disk, _, mode, offset) = fields
            if magic != b"PK\1\2" or disk or comment:
                raise refused("its directory is not well-formed")
            raw = self._at(place + _CENTRAL.size, name)
            _check_extra(self._at(place + _CENTRAL.size + name, extra))
            _check_mode(mode >> 16)
            members.append(self._member(raw, flags, method, crc, packed, size, offset))
            place += _CENTRAL.size + name + extra
        if place != end:
            raise refused("its directory is longer or shorter than it says")
        return members

    def _member(
        self, raw: bytes, flags: int, method: int, crc: int, packed: int, size: int, offset: int
    ) -> tuple[Member, int]:
        name = _name(raw, flags)
        if flags & 1:
            raise refused(f"{name!r} is encrypted")
        if flags & ~_ALLOWED_FLAGS or method not in (_STORED, _DEFLATED) or 0xFFFFFFFF in (packed, size, offset):
            raise refused(f"{name!r} uses a feature of zip that packs do not")
        if method == _STORED and packed != size:
            raise refused(f"{name!r} lies about its size")
        if size > RATIO_FREE_BYTES and size > packed * MAX_RATIO:
            raise refused(f"{name!r} would unpack {packed} bytes to {size}")
        local = _LOCAL.unpack(self._at(offset, _LOCAL.size))
        magic, _, own_flags, own_method, _, _, own_crc, own_packed, own_size, name_length, extra_length = local
        own = self._at(offset + _LOCAL.size, name_length)
        _check_extra(self._at(offset + _LOCAL.size + name_length, extra_length))
        if (magic, own_flags, own_method, own_crc, own_packed, own_size, own) != (
            b"PK\3\4",
            flags,
            method,
            crc,
            packed,
            size,
            raw,
        ):
            raise refused(f"{name!r} is described differently in two places")
        return Member(name, method, crc, packed, size, offset + _LOCAL.size + name_length + extra_length), offset

    def _check_tiling(self, members: list[tuple[Member, int]], end: int) -> None:
        place = 0
        for member, offset in sorted(members, key=lambda pair: pair[1]):
            if offset != place:
                raise refused(f"{member.name!r} overlaps another entry, or there is hidden data before it")
            place = member.start + member.packed
        if place != end:
            raise refused("there is hidden data after its last entry")

    def _at(self, place: int, length: int) -> bytes:
        self._file.seek(place)
        data = self._file.read(length)
        if len(data) != length:
            raise refused("it is cut short")
        return data


def refused(reason: str) -> InvalidInput:
    """Say why an archive is not accepted."""
    return InvalidInput(f"this pack is refused: {reason}; nothing changed")


def _name(raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise refused("it has a name that is not UTF-8") from None


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        parts = name.split("/")
        if not name.isprintable() or len(name) > MAX_NAME or any(mark in name for mark in '\\:*?"<>|'):
            raise refused(f"the name {name[:80]!r} is not portable")
        if any(part in ("", ".", "..") or part != part.strip(" .") for part in parts):
            raise refused(f"the name {name[:80]!r} leaves the pack or is not a plain path")
        if unicodedata.normalize("NFC", name) != name:
            raise refused(f"the name {name[:80]!r} is not in normal form")
        folded = unicodedata.normalize("NFC", name.casefold())
        if folded in seen:
            raise refused(f"two entries would be the same file: {name[:80]!r}")
        seen.add(folded)


def _check_extra(extra: bytes) -> None:
    place = 0
    while place < len(extra):
        if place + 4 > len(extra):
            raise refused("an extra field is cut short")
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind in _REFUSED_EXTRAS:
            raise refused(f"it uses {_REFUSED_EXTRAS[kind]}")
        place += 4 + length
    if place != len(extra):
        raise refused("an extra field is cut short")


def _check_mode(mode: int) -> None:
    # No mode at all is what other systems than Unix write.
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise refused("it holds something that is not a regular file")
