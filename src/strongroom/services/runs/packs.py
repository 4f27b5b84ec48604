"""The resume pack: a zip of JSON that holds a whole run (pure over file objects).

| entry | holds |
|---|---|
| `working_set.json` | the working set |
| `state.json` | the run's own state, if it ever had one |
| `run.jsonl` | the ledger, one event a line: v2.1, plus `salt` and `detail`; of an erased event, what is left |
| `episodes/<place>-<id>.json` | milestones |
| `memories.jsonl` | the memories its milestones and events name |
| `artifacts/<sha256>` | contents |
| `manifest.json` | size and sha256 of each of them, the ledger's head, where it is from, perhaps a signature |

The same run gives the same bytes: times and ids come from its content.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from strongroom.codec import ENVELOPE, Json, encode, pack
from strongroom.encryption import Secret
from strongroom.errors import Conflict, Damaged, InvalidInput, Unavailable
from strongroom.files import path_of, writing
from strongroom.operations import Operation, Plan, perform, refusing
from strongroom.schemas import check as check_schema
from strongroom.sealing import PACKS, sealing
from strongroom.services.owning import owned
from strongroom.services.packs import signing
from strongroom.services.packs.archive import MANIFEST, MAX_PACK_BYTES, Archive, PackWriter
from strongroom.services.packs.unzip import refused
from strongroom.services.runs import artifacts, episodes, history
from strongroom.services.runs.episodes import LongTerm, Packable
from strongroom.services.runs.ledger import (
    GENESIS,
    SALT_BYTES,
    Identity,
    Tombstone,
    body_of,
    check_payload,
    commitment,
    entry,
    event,
    event_id,
)
from strongroom.services.runs.own_state import FIELD, without
from strongroom.services.runs.state import Ref, Stored, read, record, recording
from strongroom.services.runs.verifying import ERASED, Tombstones
from strongroom.services.runs.working_set import instant
from strongroom.store import Document, Entry, Range, Receipt
from strongroom.values import Event, Head, Pack, iso, microseconds, moment

FORMAT = 1
ENGINE = "aos-context/2.1.0"
WORKING_SET, STATE, LEDGER, MEMORIES = "working_set.json", "state.json", "run.jsonl", "memories.jsonl"
EPISODES, ARTIFACTS = "episodes/", "artifacts/"
OURS = "artifacts"  # what a manifest points to by itself


# ---- events as lines ------------------------------------------------------------------------------------------------


def line_of(event: Event, salt: str) -> bytes:
    """Return the line of an event that still has its content."""
    line = {**event.to_dict(), "salt": salt}
    return encode(line if event.detail is None else {**line, "detail": event.detail}, depth=-ENVELOPE) + b"\n"


def erased_line(event: Event, kept: Tombstone) -> bytes:
    """Return the line of an erased event."""
    told = event.to_dict()
    line = {name: told[name] for name in ("sequence_id", "event_type", "timestamp")}
    return encode({**line, "erased": msgspec.to_builtins(kept)}) + b"\n"


def entry_of(line: dict[str, Any], number: int, identity: Identity) -> tuple[Entry, bool]:
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


def _erased(line: dict[str, Any], place: str, identity: Identity) -> Entry:
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
    return microseconds(instant(text, "timestamp"))


# ---- reading --------------------------------------------------------------------------------------------------------


class PackReader(Archive):
    """A resume pack whose structure was checked; one without a manifest is a working set with its ledger."""

    def __init__(self, file: BinaryIO, *, max_bytes: int = MAX_PACK_BYTES) -> None:
        super().__init__(file, max_bytes=max_bytes)
        if self.manifest is None:
            if not {WORKING_SET} <= self.names <= {WORKING_SET, LEDGER}:
                raise refused("it has no manifest, and is not a plain working set with its ledger")
            return
        if self.manifest.get("format") != FORMAT or not {"origin", "ledger_head"} <= self.manifest.keys():
            raise refused("its manifest is not of a format known here")
        for name in self.names - {MANIFEST, WORKING_SET, STATE, LEDGER, MEMORIES}:
            if not name.startswith((EPISODES, ARTIFACTS)) or name.count("/") != 1:
                raise refused(f"{name!r} is not an entry of a pack")
        if not {WORKING_SET, LEDGER} <= self.names:
            raise refused("it holds no working set, or no ledger")


# ---- writing --------------------------------------------------------------------------------------------------------


PAGE = 16
_NAMED = re.compile(r"pack_[0-9a-f]{16} [0-9a-f]{64}")


async def to_file(
    ref: Ref,
    path: str | os.PathLike[str],
    *,
    memories: LongTerm | None,
    signing_key: bytes | None,
    key: Secret | None,
    pointers: Mapping[str, Any] | None,
    actor: str,
    commit_id: str | None,
) -> Pack:
    """Write the run to a file and tell so in its ledger."""
    made: Pack | None = None

    async def written() -> Pack:
        nonlocal made
        made = await unrecorded(ref, path, memories=memories, signing_key=signing_key, key=key, pointers=pointers)
        return made

    # The signing key never leaves this process, nor does the path: what an id stands for is told by their hashes. Of
    # what encrypts only whether there is any: a hash of a passphrase would help to guess it.
    with refusing:
        where = path_of(path).absolute()
    said: list[Any] = [os.fsencode(where).hex(), None if signing_key is None else signing_key.hex()]
    if key is not None:
        said.append("encrypted")
    if pointers:
        said.append({"pointers": checked_pointers(pointers)})
    try:
        return await told(ref, sha256(encode(said)).hexdigest(), written, actor=actor, commit_id=commit_id)
    except Unavailable as problem:
        if problem.reason == "read_only" and made is not None:  # the store is, not the place of the file
            told_more = (
                "the pack is written, and only its record in the run's ledger is not: record=False asks for none"
            )
            problem.args = (f"{problem} in it; {told_more}",)
        raise


async def told(
    ref: Ref, where: str, written: Callable[[], Awaitable[Pack]], *, actor: str, commit_id: str | None
) -> Pack:
    """Tell in the ledger of a pack that has been written."""

    async def attempt() -> Plan[Pack]:
        made = await written()
        length, chain = made.head.length, made.head.chain
        told = {"pack_id": made.pack_id, "length": length, "chain": chain, "manifest_sha256": made.manifest_sha256}
        return recording(ref, record(ref, "SNAPSHOT", told, actor=actor), lambda receipt: made, pack(made))

    async def replay(receipt: Receipt) -> Pack:
        assert receipt.answer is not None
        return msgspec.json.decode(receipt.answer, type=Pack)

    async def decide() -> Json:
        return pack(await written())

    operation = Operation("run.export", ref.key, encode({"where": where, "actor": actor}), commit_id)
    return await perform(ref.scope, operation, attempt, replay, decide)


async def require_written(ref: Ref, pack: Pack) -> Pack:
    """Return what is said of a pack, if it was made of this run's own ledger, or raise `InvalidInput`."""
    length = pack.head.length
    here = await ref.scope.get(Range(ref.ledger, length - 1, length)) if length else None
    chain = here.records[0].chain if here is not None and here.records else GENESIS
    if pack.run_id != ref.run_id or (chain or GENESIS).hex() != pack.head.chain:
        raise InvalidInput("this pack was not made of the run's ledger; nothing changed", path="head")
    if not _NAMED.fullmatch(f"{pack.pack_id} {pack.manifest_sha256}"):
        raise InvalidInput("a pack is named after its manifest; nothing changed", path="pack_id")
    return pack


async def unrecorded(
    ref: Ref,
    path: str | os.PathLike[str],
    *,
    memories: LongTerm | None,
    signing_key: bytes | None,
    key: Secret | None = None,
    pointers: Mapping[str, Any] | None = None,
) -> Pack:
    """Write the run to a file. In the store nothing changes."""
    own = checked_pointers(pointers or {})
    with writing(path, over=PACKS) as plain, sealing(plain, key) as file:
        return await export(ref, file, memories=memories, signing_key=signing_key, pointers=own)


def checked_pointers(pointers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a caller has a manifest point to besides, or raise `InvalidInput`: the artifacts are ours to list."""
    if OURS in pointers:
        raise InvalidInput(f"a pack lists its {OURS} itself; nothing was exported", path="pointers")
    with refusing:
        return dict(encode(dict(pointers), depth=2).load())  # as deep as they lie in the manifest


async def export(
    ref: Ref,
    file: BinaryIO,
    *,
    memories: LongTerm | None,
    signing_key: bytes | None,
    pointers: Mapping[str, Any] | None = None,
) -> Pack:
    """Write the run as it is now. What is recorded while it is being written is not in the pack."""
    stored = await read(ref)
    with PackWriter(file) as pack:
        pack.add(WORKING_SET, [encode(without(stored.working_set))])
        if FIELD in stored.working_set:
            pack.add(STATE, [encode(stored.working_set[FIELD])])
        chain, at, named = await _ledger(stored, pack)
        named |= await _episodes(ref, pack)
        await _memories(sorted(named), memories, pack)
        uses = await artifacts.uses(ref.scope, run=ref.run_id)
        await _artifacts(ref, uses, pack)
        await _require_not_erased(stored)
        manifest = _manifest(stored, pack, Head(stored.length, chain.hex()), at, uses, pointers or {})
        if signing_key is not None:
            manifest["signature"] = signing.sign(manifest, signing_key)
        raw = encode(manifest)
        pack.finish(raw)
    return Pack(
        pack_id=manifest["pack_id"],
        run_id=ref.run_id,
        head=Head(stored.length, chain.hex()),
        manifest_sha256=sha256(raw).hexdigest(),
        signed=signing_key is not None,
    )


def _manifest(
    stored: Stored, pack: PackWriter, head: Head, at: int, uses: list[Document], pointers: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest, named after its own content."""
    ref = stored.ref
    attached = sorted((_pointer(ref, use) for use in uses), key=lambda each: str(each["id"]))
    manifest: dict[str, Any] = {
        "_schema_version": "2.1",
        "format": FORMAT,
        "created_at": iso(moment(at)),
        "compatible_engine_versions": [ENGINE],
        "files": pack.files,
        "sizes": pack.sizes,
        "origin": {"space": ref.scope.space, "run_id": ref.run_id},
        "ledger_head": msgspec.to_builtins(head),
        "config": msgspec.to_builtins(stored.state.config),
        **owned({}, stored.state.user_id),
        "pointers": {**pointers, OURS: attached},
    }
    return {**manifest, "pack_id": "pack_" + sha256(encode(manifest)).hexdigest()[:16]}


async def _ledger(stored: Stored, pack: PackWriter) -> tuple[bytes, int, set[str]]:
    """Write the events; return the chain, the time of the last one and the memories they name."""
    tombstones, named = Tombstones(stored.ref), set[str]()
    chain, at = GENESIS, 0
    with pack.adding(LEDGER) as entry:
        async for kept in history.records(stored.ref, 0, stored.length):
            told = event(kept, stored.working_set)
            if kept.body is None:
                stone = await tombstones.get(kept.index)
                if stone is None:
                    raise Damaged(f"event {told.sequence_id} is blank and no erasure was recorded", reason="gap")
                entry.write(erased_line(told, stone))
            else:
                entry.write(line_of(told, body_of(kept.body).salt))
                if kept.type == "MEMORY_COMMITTED":
                    named.update(told.payload["memory_ids"])
            chain, at = kept.chain or chain, kept.at
    return chain, at, named


async def _episodes(ref: Ref, pack: PackWriter) -> set[str]:
    named, place = set[str](), 0
    while True:
        page = await ref.scope.some(Range(ref.episodes, place, None, PAGE))
        for kept in page.records:
            made = episodes.read(kept)
            if made is None:
                continue
            named.update(made.memory_commits)
            more = {"reason": made.reason, "first_event": made.first_event, "last_event": made.last_event}
            name = f"{EPISODES}{kept.index:08d}-{made.episode_id}.json"
            pack.add(name, [encode({**made.to_dict(), **more})])
        place = page.records[-1].index + 1 if page.records else page.length
        if place >= page.length:
            return named


async def _memories(ids: list[str], memories: LongTerm | None, pack: PackWriter) -> None:
    items: Sequence[Mapping[str, Any]] = ()
    if ids and isinstance(memories, Packable):
        items = await memories.pack_items(ids)
    pack.add(MEMORIES, (encode(dict(item)) + b"\n" for item in items))


async def _artifacts(ref: Ref, uses: list[Document], pack: PackWriter) -> None:
    for digest in sorted({use.value.load()["sha256"] for use in uses}):
        with pack.adding(ARTIFACTS + digest) as entry:
            async for chunk in artifacts.content(ref.scope, digest):
                entry.write(chunk)


def _pointer(ref: Ref, use: Document) -> dict[str, Any]:
    return {**use.value.load(), "id": use.key.id.removeprefix(f"{ref.run_id}/")}


async def _require_not_erased(stored: Stored) -> None:
    """Refuse to finish if the run was erased meanwhile: the pack would hold what is gone, or half of it."""
    now = await read(stored.ref)
    async for kept in history.records(stored.ref, stored.length, now.length):
        if kept.type == ERASED:
            raise Conflict(
                f"run {stored.ref.run_id!r} was erased while it was being exported; nothing was exported",
                expected=stored.length,
                actual=now.length,
                key=stored.ref.key,
            )
