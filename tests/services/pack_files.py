"""Making packs that lie: zips written byte by byte, so that every field can be wrong."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any


class Part:
    """One entry, and what its two headers say about it."""

    def __init__(self, name: str | bytes, data: bytes, **lies: Any) -> None:
        self.name = name.encode() if isinstance(name, str) else name
        self.data = data
        self.method: int = lies.pop("method", 0)
        self.packed = _deflate(data) if self.method == 8 else data
        self.flags: int = lies.pop("flags", 0x800)
        self.mode: int = lies.pop("mode", 0o100600)
        self.extra: bytes = lies.pop("extra", b"")
        self.local: dict[str, Any] = lies.pop("local", {})
        self.central: dict[str, Any] = lies.pop("central", {})
        assert not lies

    def sizes(self, lies: dict[str, Any]) -> tuple[int, int, int]:
        told = {"crc": zlib.crc32(self.data), "packed": len(self.packed), "size": len(self.data), **lies}
        return told["crc"], told["packed"], told["size"]


def build(
    parts: list[Part], *, gap: bytes = b"", tail: bytes = b"", comment: bytes = b"", entries: int | None = None
) -> bytes:
    """Return a zip of the parts, with hidden bytes where asked for."""
    body, directory = bytearray(), bytearray()
    for part in parts:
        offset = part.central.get("offset", len(body))
        name = part.local.get("name", part.name)
        flags = part.local.get("flags", part.flags)
        body += struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, flags, part.method, 0, 0x21, *part.sizes(part.local), len(name), len(part.extra)
        )
        body += name + part.extra + part.packed + gap
        directory += struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            0x314,
            20,
            part.flags,
            part.method,
            0,
            0x21,
            *part.sizes(part.central),
            len(part.name),
            len(part.extra),
            0,
            0,
            0,
            part.mode << 16,
            offset,
        )
        directory += part.name + part.extra
    count = len(parts) if entries is None else entries
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), len(comment))
    return bytes(body + directory + end + comment + tail)


def contents(path: Path) -> dict[str, bytes]:
    """Return a pack's entries."""
    with zipfile.ZipFile(path) as pack:
        return {name: pack.read(name) for name in pack.namelist()}


def write(path: Path, entries: dict[str, bytes]) -> Path:
    """Write entries as they are, without mending the manifest."""
    path.write_bytes(build([Part(name, data) for name, data in entries.items()]))
    return path


def mended(entries: dict[str, bytes]) -> dict[str, bytes]:
    """Return the entries with a manifest that agrees with them: what a forger without the key would do."""
    manifest = json.loads(entries["manifest.json"])
    files = {name: data for name, data in entries.items() if name != "manifest.json"}
    manifest["files"] = {name: sha256(data).hexdigest() for name, data in files.items()}
    manifest["sizes"] = {name: len(data) for name, data in files.items()}
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()
