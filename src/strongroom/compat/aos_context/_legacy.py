"""Reading what the AoS Context Module wrote, and turning it into a resume pack that `runs.restore` takes.

Believed is what fits the schemas. A line of a ledger that does not, such as the torn one a crash leaves at the end, is
set aside and named; everything before and after it is kept, numbered in the order of the file.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from strongroom.codec import encode, parse
from strongroom.compat.aos_context import _locations
from strongroom.compat.aos_context.validation import ValidationError, assert_valid
from strongroom.errors import InvalidInput
from strongroom.services.packs.archive import MANIFEST, PackWriter
from strongroom.services.packs.unzip import refused
from strongroom.services.runs import packs, restores
from strongroom.services.runs.ledger import GENESIS, SALT_BYTES, Identity
from strongroom.services.runs.packs import PackReader
from strongroom.services.runs.working_set import require_valid
from strongroom.values import RunConfig, iso, moment

MAX_BYTES = 1 << 28
OLD_MANIFEST = "manifest.v2.1.json"
Json = dict[str, Any]


class Ledger(Struct, frozen=True):
    """The events of an old ledger, and the lines that are none, each with what is wrong with it."""

    events: list[Json]
    aside: list[tuple[int, str, bytes]]


def working_set(raw: bytes) -> Json:
    """Return a working set 2.1, or raise `ValidationError`."""
    try:
        found: Json = parse(raw)
        require_valid(found)
    except InvalidInput as problem:
        raise ValidationError(str(problem)) from None
    return found


def ledger(raw: bytes) -> Ledger:
    """Return what can be believed of a ledger file."""
    events: list[Json] = []
    aside: list[tuple[int, str, bytes]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            event = {**parse(line), "sequence_id": len(events) + 1}
            packs.entry_of(dict(event), len(events) + 1, Identity("-", "-"))
        except (InvalidInput, TypeError) as problem:
            aside.append((number, str(problem)[:200], line))
        else:
            events.append(event)
    return Ledger(events, aside)


def episodes(folder: Path) -> tuple[list[Json], list[str]]:
    """Return the episodes of a folder by the time they were made, and what is wrong with the others."""
    found, problems = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            episode = parse(path.read_bytes())
            assert_valid("episode", episode)
        except (InvalidInput, ValidationError) as problem:
            problems.append(f"{path.name} is not an episode and was left out: {problem}")
        else:
            found.append(episode)
    return sorted(found, key=lambda each: (str(each["created_at"]), str(each["episode_id"]))), problems


@contextmanager
def packed(
    state: Json, events: Sequence[Json] = (), told: Sequence[Json] = (), config: RunConfig | None = None
) -> Iterator[Path]:
    """Offer a run as a resume pack in a temporary file."""
    with tempfile.TemporaryDirectory(prefix="strongroom-import-") as folder:
        path = Path(folder) / "pack.zip"
        with path.open("xb") as file:
            _write(file, state, events, told, config)
        yield path


@contextmanager
def restorable(path: Path) -> Iterator[Path]:
    """Offer a pack, zip or folder, new or old, as one that `runs.restore` takes, checked as a whole.

    Raise FileNotFoundError, or `InvalidInput` saying why it is refused. Nothing but a temporary file is written.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no pack {path}")
    with tempfile.TemporaryDirectory(prefix="strongroom-pack-") as folder:
        archive = _zipped(path, Path(folder) / "folder.zip") if path.is_dir() else path
        old = _old_entries(archive)
        if old is None:
            check(archive)
            yield archive
            return
        try:
            state = working_set(old.working_set)
        except ValidationError as problem:
            raise InvalidInput(str(problem)) from None
        with packed(state, ledger(old.ledger).events, [_episode(raw) for raw in old.episodes]) as made:
            check(made)
            yield made


def check(path: Path) -> str:
    """Return the run id of a pack that passes every check; raise `InvalidInput` for one that does not."""
    with path.open("rb") as file:
        return restores.check(PackReader(file), public_key=None, head=None).origin.run_id


def packed_state(path: Path) -> Json:
    """Return the working set of a pack that has been checked."""
    with zipfile.ZipFile(path) as archive:
        return working_set(_read(archive, packs.WORKING_SET))


def _zipped(folder: Path, target: Path) -> Path:
    """Zip a pack that lies in a folder. Only what really is in it is taken: a link could lead anywhere."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                archive.write(path, path.relative_to(folder).as_posix())
    return target


class _Old(Struct, frozen=True):
    """What counts of an old pack."""

    working_set: bytes
    ledger: bytes
    episodes: list[bytes]


def _old_entries(path: Path) -> _Old | None:
    """Return the files of a pack with an old manifest; None if it has none, or a new one."""
    found: dict[str, list[bytes]] = {"working_set": [], "ledger": [], "episodes": []}
    room = MAX_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _old_manifest(archive)
            if manifest is None:
                return None
            for told, digest in manifest["files"].items():
                name = told.replace("\\", "/")  # as a manifest made under Windows has it
                kind = _kind(name)
                if kind is not None:
                    content = _read(archive, name, room)
                    if sha256(content).hexdigest() != digest.lower():
                        raise refused(f"{name!r:.80} is not what the manifest says")
                    found[kind].append(content)
                    room -= len(content)
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError, NotImplementedError, RuntimeError) as problem:
        raise refused(str(problem)[:200]) from None
    if not found["working_set"]:
        raise refused("it holds no working set")
    return _Old(found["working_set"][-1], (found["ledger"] or [b""])[-1], found["episodes"])


def _old_manifest(archive: zipfile.ZipFile) -> Json | None:
    name = next((name for name in (MANIFEST, OLD_MANIFEST) if name in archive.namelist()), None)
    manifest = None if name is None else parse(_read(archive, name))
    if not isinstance(manifest, dict) or "format" in manifest:
        return None
    try:
        assert_valid("manifest", manifest)
    except ValidationError as problem:
        raise refused(problem.message) from None
    return manifest


def _kind(name: str) -> str | None:
    if name in (_locations.WORKING_SET, packs.WORKING_SET, f"state/{_locations.WORKING_SET}"):
        return "working_set"
    if name in (_locations.LEDGER, packs.LEDGER, f"ledger/{_locations.LEDGER}"):
        return "ledger"
    return "episodes" if name.startswith(packs.EPISODES) and name.endswith(".json") else None


def _episode(raw: bytes) -> Json:
    try:
        episode: Json = parse(raw)
        assert_valid("episode", episode)
    except (InvalidInput, ValidationError) as problem:
        raise refused(f"it holds an episode that is none: {problem}") from None
    return episode


def _read(archive: zipfile.ZipFile, name: str, most: int = MAX_BYTES) -> bytes:
    with archive.open(name) as entry:
        content = entry.read(most + 1)
    if len(content) > most:
        raise refused(f"{name!r:.80} is larger than any such entry")
    return content


def _write(file: BinaryIO, state: Json, events: Sequence[Json], told: Sequence[Json], config: RunConfig | None) -> None:
    origin = Identity("-", state["run_id"])
    chain = GENESIS
    with PackWriter(file) as pack:
        pack.add(packs.WORKING_SET, [encode(state)])
        with pack.adding(packs.LEDGER) as lines:
            for number, event in enumerate(events, 1):
                line = {**event, "salt": event.get("salt") or b64encode(os.urandom(SALT_BYTES)).decode()}
                lines.write(encode(line) + b"\n")
                made, _ = packs.entry_of(line, number, origin)
                assert made.commitment is not None
                chain = sha256(chain + made.commitment).digest()
        for place, episode in enumerate(told):
            more = {"reason": "", "first_event": 0, "last_event": 0}
            pack.add(f"{packs.EPISODES}{place:08d}-{episode['episode_id']}.json", [encode({**episode, **more})])
        manifest = {
            "_schema_version": "2.1",
            "format": packs.FORMAT,
            "pack_id": "pack_" + os.urandom(8).hex(),
            "created_at": iso(moment(0)),
            "compatible_engine_versions": [packs.ENGINE],
            "files": pack.files,
            "sizes": pack.sizes,
            "origin": msgspec.to_builtins(origin),
            "ledger_head": {"length": len(events), "chain": chain.hex()},
            "config": msgspec.to_builtins(config or RunConfig()),
            "pointers": {"artifacts": []},
        }
        pack.finish(encode(manifest))
