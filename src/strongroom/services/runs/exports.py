"""Writing a run to a resume pack, a page at a time."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from strongroom.codec import Json, encode, pack
from strongroom.errors import Conflict, Damaged
from strongroom.files import path_of, writing
from strongroom.operations import Operation, Plan, perform
from strongroom.services.runs import artifacts, episodes, history, packs, signing
from strongroom.services.runs.ledger import GENESIS, body_of, event
from strongroom.services.runs.long_term import LongTerm, Packable
from strongroom.services.runs.packs import PackWriter
from strongroom.services.runs.state import Ref, Stored, read, record, recording
from strongroom.services.runs.verifying import ERASED, Tombstones
from strongroom.store import Document, Range, Receipt
from strongroom.values import Head, Pack, iso, moment

PAGE = 16


async def to_file(
    ref: Ref,
    path: str | os.PathLike[str],
    *,
    memories: LongTerm | None,
    signing_key: bytes | None,
    actor: str,
    commit_id: str | None,
) -> Pack:
    """Write the run to a file and tell so in its ledger."""

    async def written() -> Pack:
        return await unrecorded(ref, path, memories=memories, signing_key=signing_key)

    # The key itself never leaves this process, nor does the path: what an id stands for is told by their hashes.
    said = [os.fsencode(path_of(path).absolute()).hex(), None if signing_key is None else signing_key.hex()]
    return await told(ref, sha256(encode(said)).hexdigest(), written, actor=actor, commit_id=commit_id)


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


async def unrecorded(
    ref: Ref, path: str | os.PathLike[str], *, memories: LongTerm | None, signing_key: bytes | None
) -> Pack:
    """Write the run to a file. In the store nothing changes."""
    with writing(path) as file:
        return await export(ref, file, memories=memories, signing_key=signing_key)


async def export(ref: Ref, file: BinaryIO, *, memories: LongTerm | None, signing_key: bytes | None) -> Pack:
    """Write the run as it is now. What is recorded while it is being written is not in the pack."""
    stored = await read(ref)
    with PackWriter(file) as pack:
        pack.add(packs.WORKING_SET, [encode(stored.working_set)])
        chain, at, named = await _ledger(stored, pack)
        named |= await _episodes(ref, pack)
        await _memories(sorted(named), memories, pack)
        uses = await artifacts.uses(ref.scope, run=ref.run_id)
        await _artifacts(ref, uses, pack)
        await _require_not_erased(stored)
        manifest = _manifest(stored, pack, Head(stored.length, chain.hex()), at, uses)
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


def _manifest(stored: Stored, pack: PackWriter, head: Head, at: int, uses: list[Document]) -> dict[str, Any]:
    """Return the manifest, named after its own content."""
    ref = stored.ref
    manifest: dict[str, Any] = {
        "_schema_version": "2.1",
        "format": packs.FORMAT,
        "created_at": iso(moment(at)),
        "compatible_engine_versions": [packs.ENGINE],
        "files": pack.files,
        "sizes": pack.sizes,
        "origin": {"space": ref.scope.space, "run_id": ref.run_id},
        "ledger_head": msgspec.to_builtins(head),
        "config": msgspec.to_builtins(stored.state.config),
        "pointers": {"artifacts": sorted((_pointer(ref, use) for use in uses), key=lambda each: str(each["id"]))},
    }
    return {**manifest, "pack_id": "pack_" + sha256(encode(manifest)).hexdigest()[:16]}


async def _ledger(stored: Stored, pack: PackWriter) -> tuple[bytes, int, set[str]]:
    """Write the events; return the chain, the time of the last one and the memories they name."""
    tombstones, named = Tombstones(stored.ref), set[str]()
    chain, at = GENESIS, 0
    with pack.adding(packs.LEDGER) as entry:
        async for kept in history.records(stored.ref, 0, stored.length):
            told = event(kept, stored.working_set)
            if kept.body is None:
                stone = await tombstones.get(kept.index)
                if stone is None:
                    raise Damaged(f"event {told.sequence_id} is blank and no erasure was recorded", reason="gap")
                entry.write(packs.erased_line(told, stone))
            else:
                entry.write(packs.line_of(told, body_of(kept.body).salt))
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
            name = f"{packs.EPISODES}{kept.index:08d}-{made.episode_id}.json"
            pack.add(name, [encode({**made.to_dict(), **more})])
        place = page.records[-1].index + 1 if page.records else page.length
        if place >= page.length:
            return named


async def _memories(ids: list[str], memories: LongTerm | None, pack: PackWriter) -> None:
    items: Sequence[Mapping[str, Any]] = ()
    if ids and isinstance(memories, Packable):
        items = await memories.pack_items(ids)
    pack.add(packs.MEMORIES, (encode(dict(item)) + b"\n" for item in items))


async def _artifacts(ref: Ref, uses: list[Document], pack: PackWriter) -> None:
    for digest in sorted({use.value.load()["sha256"] for use in uses}):
        with pack.adding(packs.ARTIFACTS + digest) as entry:
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
