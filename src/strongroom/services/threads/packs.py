"""A thread as a file: a zip with `manifest.json` and `thread.jsonl`. Pure: bytes in, bytes out.

The same slots make the same bytes. Reading checks every size and hash before it believes anything.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from strongroom.codec import ENVELOPE, encode, parse
from strongroom.errors import Damaged, InvalidInput, StrongroomError
from strongroom.services.threads.payloads import PayloadTypes
from strongroom.services.threads.values import Slot
from strongroom.store import Record

FORMAT = "strongroom-thread/1"
MAX_PACK_BYTES = 1024 * 1024 * 1024
_ERASED = msgspec.Raw(b"null")
# What reading a zip somebody tampered with may raise.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, LookupError, ValueError, RuntimeError, EOFError, OSError, OverflowError)
_MANIFEST, _SLOTS = "manifest.json", "thread.jsonl"


class Line(Struct, omit_defaults=True):
    """One slot in `thread.jsonl`. `body` is null if the slot was erased."""

    index: int
    type: str
    at: int
    body: msgspec.Raw
    from_id: str = ""
    to_id: str = ""


class Manifest(Struct):
    format: str
    thread_id: str
    size: int
    sha256: str


def pack_thread(thread_id: str, slots: Sequence[Slot]) -> bytes:
    """Turn slots into a pack."""
    lines = msgspec.json.Encoder().encode_lines([_line(slot.record) for slot in slots])
    manifest = Manifest(FORMAT, thread_id, len(lines), sha256(lines).hexdigest())
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ((_MANIFEST, msgspec.json.encode(manifest)), (_SLOTS, lines)):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def unpack_thread(pack: bytes, *, types: PayloadTypes | None = None) -> tuple[str, list[Slot]]:
    """Return a pack's thread id and slots, or raise `Damaged`."""
    try:
        with zipfile.ZipFile(io.BytesIO(pack)) as archive:
            manifest = msgspec.json.decode(_read(archive, _MANIFEST, 1024 * 1024), type=Manifest)
            if manifest.format != FORMAT:
                raise InvalidInput(f"this pack is a {manifest.format!r:.60}, not a {FORMAT!r}")
            lines = _read(archive, _SLOTS, min(manifest.size, MAX_PACK_BYTES))
        if len(lines) != manifest.size or sha256(lines).hexdigest() != manifest.sha256:
            raise Damaged("the pack's slots are not the ones its manifest names", reason="checksum")
        read = msgspec.json.Decoder(Line).decode_lines(lines)
    except StrongroomError:
        raise
    except _UNREADABLE as problem:
        raise Damaged(f"this is not a thread's pack: {problem}", reason="corrupt") from None
    known = types or PayloadTypes()
    return manifest.thread_id, [Slot(manifest.thread_id, _record(line), known) for line in read]


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    # One byte more than promised is enough to know that the size is a lie; nothing larger is ever unpacked.
    with archive.open(name) as member:
        content = member.read(limit + 1)
    if len(content) > limit:
        raise Damaged(f"{name} is larger than the pack says", reason="corrupt")
    return content


def _line(record: Record) -> Line:
    body = _ERASED if record.body is None else msgspec.Raw(record.body)
    return Line(record.index, record.type, record.at, body, record.sender or "", record.receiver or "")


def _record(line: Line) -> Record:
    body = None if line.body == _ERASED else encode(parse(bytes(line.body), depth=-ENVELOPE), depth=-ENVELOPE)
    return Record(line.index, line.type, body, 0, line.at, line.from_id or None, line.to_id or None, None, None, None)
