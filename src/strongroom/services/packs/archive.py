"""The file that a pack is: a zip of JSON whose manifest tells size and sha256 of every entry (pure over file objects).

Entries are stored, not compressed: salts do not compress, and a pack that cannot blow up is one that a reader may be
strict about. The same content gives the same bytes: no clock and no chance goes into a pack.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, BinaryIO

from strongroom.codec import ENVELOPE, parse
from strongroom.errors import InvalidInput
from strongroom.files import CHUNK
from strongroom.schemas import check as check_schema
from strongroom.services.packs.unzip import MAX_ENTRIES, Unzip, refused
from strongroom.store import MAX_RECORD_BYTES

MANIFEST = "manifest.json"
# A line holds a record and what the format adds to it.
MAX_LINE = MAX_RECORD_BYTES + (1 << 20)
MAX_DOCUMENT = MAX_RECORD_BYTES
MAX_PACK_BYTES = (1 << 32) - 1


class PackWriter:
    """Writes entries one after the other, hashing as it goes; the manifest last."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False)
        self.files: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After a failure the file is thrown away; the zip must still let go of it.
        with suppress(*((OSError, ValueError) if kind else ())):
            self._zip.close()

    def add(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write one entry."""
        with self.adding(path) as entry:
            for chunk in chunks:
                entry.write(chunk)

    def adding(self, path: str) -> EntryWriter:
        """Open one entry, for content that comes bit by bit."""
        if len(self.files) + 2 > MAX_ENTRIES:
            raise InvalidInput(f"a pack holds at most {MAX_ENTRIES} entries; nothing changed")
        return EntryWriter(self, path)

    def finish(self, manifest: bytes) -> None:
        """Write the manifest, which is the last entry. Refuse one that nobody would take back."""
        if len(manifest) > MAX_DOCUMENT:
            raise InvalidInput(
                f"a manifest of a pack holds at most {MAX_DOCUMENT:,} bytes, not {len(manifest):,}; nothing exported"
            )
        self.add(MANIFEST, [manifest])


class EntryWriter:
    """One entry being written."""

    def __init__(self, pack: PackWriter, path: str) -> None:
        self._pack, self._path = pack, path
        self._hash, self._size = sha256(), 0
        info = zipfile.ZipInfo(path)
        info.external_attr = 0o600 << 16
        self._file = pack._zip.open(info, "w")

    def write(self, chunk: bytes) -> None:
        try:
            self._file.write(chunk)
        except (RuntimeError, zipfile.LargeZipFile):
            raise _too_large() from None
        self._hash.update(chunk)
        self._size += len(chunk)

    def __enter__(self) -> EntryWriter:
        return self

    def __exit__(self, *problem: object) -> None:
        try:
            self._file.close()
        except (RuntimeError, zipfile.LargeZipFile):
            raise _too_large() from None
        self._pack.files[self._path] = self._hash.hexdigest()
        self._pack.sizes[self._path] = self._size


def _too_large() -> InvalidInput:
    return InvalidInput("an entry of a pack holds at most 2 GiB, and a pack at most 4 GiB; nothing was exported")


class Archive:
    """A pack whose structure was checked. Content is checked as it is read, against zip and manifest."""

    def __init__(self, file: BinaryIO, *, max_bytes: int = MAX_PACK_BYTES) -> None:
        self._zip = Unzip(file, max_bytes=max_bytes)
        self.names = set(self._zip.members)
        self.manifest: dict[str, Any] | None = None
        if MANIFEST in self.names:
            self.manifest = self._manifest()

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield an entry's content; raise at its end unless it is what the manifest says."""
        total = sha256()
        for chunk in self._zip.read(name):
            total.update(chunk)
            yield chunk
        if self.manifest is not None and name != MANIFEST and total.hexdigest() != self.manifest["files"][name].lower():
            raise refused(f"{name!r} is not what the manifest says")

    def document(self, name: str) -> Any:
        """Return a small JSON entry."""
        if self._zip.members[name].size > MAX_DOCUMENT:
            raise refused(f"{name!r} is larger than any such entry")
        try:
            return parse(b"".join(self.chunks(name)), depth=-ENVELOPE)
        except InvalidInput as problem:
            raise problem if "refused" in str(problem) else refused(f"{name!r}: {problem}") from None

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a JSON-lines entry (nothing, if it is not there)."""
        if name not in self.names:
            return
        for number, raw in enumerate(self._split(name), 1):
            try:
                value = parse(raw, depth=-ENVELOPE)
            except InvalidInput as problem:
                raise refused(f"{name}:{number}: {problem}") from None
            if not isinstance(value, dict):
                raise refused(f"{name}:{number} is not an object")
            yield value

    def under(self, folder: str) -> list[str]:
        """Return the entries of a folder, in order."""
        return sorted(name for name in self.names if name.startswith(folder))

    def _split(self, name: str) -> Iterator[bytes]:
        rest = b""
        for chunk in self.chunks(name):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line for line in whole if line.strip())
            if len(rest) > MAX_LINE:
                raise refused(f"{name!r} has a line that is longer than any event")
        if rest.strip():
            yield rest

    def _manifest(self) -> dict[str, Any]:
        found = self.document(MANIFEST)
        check_schema("manifest", found, path=MANIFEST)
        told: dict[str, Any] = found
        if set(told["files"]) != self.names - {MANIFEST} or set(told.get("sizes", ())) != set(told["files"]):
            raise refused("its entries are not those the manifest lists")
        for name, size in told["sizes"].items():
            if self._zip.members[name].size != size:
                raise refused(f"{name!r} has not the size the manifest says")
        return told


@contextmanager
def whole(file: BinaryIO) -> Iterator[Iterator[bytes]]:
    """Offer a file from its beginning."""
    file.seek(0)
    yield iter(lambda: file.read(CHUNK), b"")
