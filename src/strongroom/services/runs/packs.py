"""The resume pack: a zip of JSON that holds a whole run (pure over file objects).

| entry | holds |
|---|---|
| `working_set.json` | the working set |
| `run.jsonl` | the ledger, one event a line: v2.1, plus `salt` and `detail`; of an erased event, what is left |
| `episodes/<place>-<id>.json` | milestones |
| `memories.jsonl` | the memories its milestones and events name |
| `artifacts/<sha256>` | contents |
| `manifest.json` | size and sha256 of each of them, the ledger's head, where it is from, perhaps a signature |

Entries are stored, not compressed: salts do not compress, and a pack that can not blow up is one that a reader may be
strict about. The same run gives the same bytes: times and ids come from its content.
"""

from __future__ import annotations

import zipfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from strongroom.codec import encode, parse
from strongroom.errors import InvalidInput
from strongroom.schemas import check as check_schema
from strongroom.services.runs.ledger import SALT_BYTES, Identity, Tombstone, check_payload, commitment, entry, event_id
from strongroom.services.runs.unzip import MAX_ENTRIES, Unzip, refused
from strongroom.services.runs.working_set import instant
from strongroom.store import MAX_RECORD_BYTES, Entry
from strongroom.values import EPOCH, Event

FORMAT = 1
ENGINE = "aos-context/2.1.0"
MANIFEST, WORKING_SET, LEDGER, MEMORIES = "manifest.json", "working_set.json", "run.jsonl", "memories.jsonl"
EPISODES, ARTIFACTS = "episodes/", "artifacts/"
# A line holds a record and what the format adds to it.
MAX_LINE = MAX_RECORD_BYTES + (1 << 20)
MAX_DOCUMENT = MAX_RECORD_BYTES
MAX_PACK_BYTES = (1 << 32) - 1

Json = dict[str, Any]


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
        """Write the manifest, which is the last entry."""
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


# ---- events as lines ------------------------------------------------------------------------------------------------


def line_of(event: Event, salt: str) -> bytes:
    """Return the line of an event that still has its content."""
    line = {**event.to_dict(), "salt": salt}
    return encode(line if event.detail is None else {**line, "detail": event.detail}) + b"\n"


def erased_line(event: Event, kept: Tombstone) -> bytes:
    """Return the line of an erased event."""
    told = event.to_dict()
    line = {name: told[name] for name in ("sequence_id", "event_type", "timestamp")}
    return encode({**line, "erased": msgspec.to_builtins(kept)}) + b"\n"


def entry_of(line: Json, number: int, identity: Identity) -> tuple[Entry, bool]:
    """Return what to append for a line of run.jsonl, and whether to erase it again at once.

    The commitment is made for the run it will belong to, from the salt that came along: the same run in the same
    space gets the same chain, wherever it is restored.
    """
    place = f"{LEDGER}:{number}"
    if "erased" in line:
        return _erased(line, place, identity), True
    extra = {name: line.pop(name) for name in ("salt", "detail") if name in line}
    type, payload = line.get("event_type"), line.get("payload")
    if not str(type).startswith("custom."):
        check_payload(type, payload)
    check_schema("ledger_event", line, path=place)
    salt = extra.get("salt")
    if salt is not None and not _is_salt(salt):
        raise refused(f"{place} has a salt that is not {SALT_BYTES} bytes")
    own_id = line["event_id"]
    made = entry(
        identity,
        line["event_type"],
        line["payload"],
        actor=line["writer_id"],
        at=_microseconds(line["timestamp"]),
        parent=line["parent_event_id"],
        detail=extra.get("detail"),
        id=None if own_id == event_id(number - 1) else own_id,
        salt=salt,
    )
    return made, False


def _erased(line: Json, place: str, identity: Identity) -> Entry:
    try:
        kept = msgspec.convert(line["erased"], Tombstone)
        type, at = str(line["event_type"]), _microseconds(line["timestamp"])
    except (msgspec.ValidationError, KeyError) as problem:
        raise refused(f"{place} is not an erased event ({problem})") from None
    return Entry(type, encode(None), at=at, commitment=commitment(identity, type, at, kept))


def _is_salt(salt: object) -> bool:
    try:
        return isinstance(salt, str) and len(b64decode(salt, validate=True)) == SALT_BYTES
    except ValueError:
        return False


def _microseconds(text: object) -> int:
    if not isinstance(text, str):
        raise refused("an event has no time")
    passed = instant(text, "timestamp") - EPOCH
    return (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds


# ---- reading --------------------------------------------------------------------------------------------------------


class PackReader:
    """A pack whose structure was checked. Content is checked as it is read, against zip and manifest."""

    def __init__(self, file: BinaryIO, *, max_bytes: int = MAX_PACK_BYTES) -> None:
        self._zip = Unzip(file, max_bytes=max_bytes)
        self.names = set(self._zip.members)
        self.manifest: Json | None = None
        if MANIFEST in self.names:
            self.manifest = self._manifest()
        elif not {WORKING_SET} <= self.names <= {WORKING_SET, LEDGER}:
            raise refused("it has no manifest, and is not a plain working set with its ledger")

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
            return parse(b"".join(self.chunks(name)))
        except InvalidInput as problem:
            raise problem if "refused" in str(problem) else refused(f"{name!r}: {problem}") from None

    def lines(self, name: str) -> Iterator[Json]:
        """Yield the objects of a JSON-lines entry (nothing, if it is not there)."""
        if name not in self.names:
            return
        for number, raw in enumerate(self._split(name), 1):
            try:
                value = parse(raw)
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

    def _manifest(self) -> Json:
        found = self.document(MANIFEST)
        check_schema("manifest", found, path=MANIFEST)
        told: Json = found
        if told.get("format") != FORMAT or "sizes" not in told or "origin" not in told or "ledger_head" not in told:
            raise refused("its manifest is not of a format known here")
        if set(told["files"]) != self.names - {MANIFEST} or set(told["sizes"]) != set(told["files"]):
            raise refused("its entries are not those the manifest lists")
        for name, size in told["sizes"].items():
            if self._zip.members[name].size != size:
                raise refused(f"{name!r} has not the size the manifest says")
        for name in self.names - {MANIFEST, WORKING_SET, LEDGER, MEMORIES}:
            if not name.startswith((EPISODES, ARTIFACTS)) or name.count("/") != 1:
                raise refused(f"{name!r} is not an entry of a pack")
        if not {WORKING_SET, LEDGER} <= self.names:
            raise refused("it holds no working set, or no ledger")
        return told
