"""Runs, conversations, live threads and committed memories of a space in one file, to any store.

Not in it: files, batches that wait for review, ended threads, revoked memories, vectors, keys.

| entry | holds |
|---|---|
| `runs/<n>.zip` | a resume pack each |
| `sessions/<n>.jsonl` | a conversation each (`conversations.py`) |
| `threads/<n>.jsonl` | a live thread each: a line that names it, then its slots |
| `memories.jsonl` | long-term memories |
| `manifest.json` | size and sha256 of each of them, where they are from, perhaps a signature |

Each thing is in the pack as it was at one moment; which moment that was may differ from thing to thing. What comes back
comes back in one commit, made by the ordinary services over an `Overlay`: the whole pack has been read, checked and
planned before anything is written. A pack comes from anywhere, so nothing in it is believed; memories come back
untrusted, and no message is delivered again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, BinaryIO, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import ENVELOPE, Json, encode
from strongroom.codec import pack as pack_value
from strongroom.encryption import Secret
from strongroom.errors import Conflict, NotFound
from strongroom.files import writing
from strongroom.operations import Operation, Plan, perform
from strongroom.scope import Scope
from strongroom.sealing import PACKS, scratch, sealing
from strongroom.services.memories import keys as memory_keys
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.packs import conversations, signing
from strongroom.services.packs.archive import MANIFEST, Archive, PackWriter, whole
from strongroom.services.packs.given import given
from strongroom.services.packs.unzip import refused
from strongroom.services.runs import packs as run_packs
from strongroom.services.runs import restores
from strongroom.services.runs.state import KIND as RUN
from strongroom.services.runs.state import find
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.state import SESSION
from strongroom.services.threads.deliveries import DELIVERY, MAIL, handed_back, read_delivery
from strongroom.services.threads.payloads import Inert, seal, unseal
from strongroom.services.threads.plans import INFO, THREAD, plan_appends, unchanged
from strongroom.services.threads.reading import look
from strongroom.services.threads.values import Limits
from strongroom.services.turns.overlay import Overlay
from strongroom.store import Commit, Entry, Expect, Get, Put, Range, Receipt, Scan, Write, new_id, require_name
from strongroom.values import Restored, SpacePack, iso, moment

FORMAT = 2
ENGINE = "strongroom/1"
RUNS, SESSIONS, THREADS, MEMORIES = "runs/", "sessions/", "threads/", "memories.jsonl"
MAX_BYTES = 1 << 28
KIND = "pack"

Which = Sequence[str] | bool
FilePath = str | os.PathLike[str]


class Services(Protocol):
    """What packs need of a context."""

    scope: Scope
    memories: AsyncMemories


class SlotLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a thread."""

    type: str
    body: Any
    at: int
    from_id: str
    to_id: str | None = None


# ---- export ---------------------------------------------------------------------------------------------------------


async def export(
    services: Services,
    path: FilePath,
    *,
    runs: Which,
    sessions: Which,
    threads: Which,
    memories: Which,
    signing_key: bytes | None,
    key: Secret | None,
) -> SpacePack:
    """Write a pack. The file is complete and on disk, or not there; in the store nothing changes."""
    scope = services.scope
    with writing(path, over=PACKS) as plain, sealing(plain, key) as file, PackWriter(file) as pack:
        counts = {
            "runs": await _each(pack, RUNS, "zip", await _ids(scope, RUN, runs), _run(scope, key is not None)),
            "sessions": await _each(pack, SESSIONS, "jsonl", await _ids(scope, SESSION, sessions), _session(scope)),
            "threads": await _each(pack, THREADS, "jsonl", await _ids(scope, INFO, threads), _thread(scope, threads)),
        }
        known = await _ids(scope, memory_keys.MEMORY, memories)
        items = await services.memories.pack_items(known) if known else ()
        pack.add(MEMORIES, [_line(dict(item)) for item in items])
        manifest: dict[str, Any] = {
            "_schema_version": "2.1",
            "format": FORMAT,
            "created_at": iso(moment(scope.clock())),
            "compatible_engine_versions": [ENGINE],
            "files": pack.files,
            "sizes": pack.sizes,
            "pointers": {"space": scope.space, "memories": len(items), **counts},
        }
        manifest["pack_id"] = "pack_" + sha256(encode(manifest)).hexdigest()[:16]
        if signing_key is not None:
            manifest["signature"] = signing.sign(manifest, signing_key)
        raw = encode(manifest)
        pack.finish(raw)
    return SpacePack(
        pack_id=manifest["pack_id"],
        manifest_sha256=sha256(raw).hexdigest(),
        signed=signing_key is not None,
        memories=len(items),
        **counts,
    )


async def _ids(scope: Scope, kind: str, which: Which) -> list[str]:
    if not isinstance(which, bool):
        return list(dict.fromkeys(require_name(id, "an id") for id in which))
    tags = {"state": "live"} if kind == INFO else {}
    scan = Scan(scope.space, kind, tags)
    return [one.key.id async for page in scope.pages(scan) for one in page] if which else []


async def _each(
    pack: PackWriter, folder: str, ending: str, ids: list[str], chunks: Callable[[str], AsyncIterator[bytes]]
) -> list[str]:
    """Add an entry for each, and return whose. What nothing is left of, like a thread that was erased, has none."""
    added = list[str]()
    for id in ids:
        told = chunks(id)
        first = await anext(told, None)
        if first is None:
            continue
        with pack.adding(f"{folder}{len(added):06d}.{ending}") as entry:
            entry.write(first)
            async for chunk in told:
                entry.write(chunk)
        added.append(id)
    return added


def _run(scope: Scope, encrypted: bool) -> Callable[[str], AsyncIterator[bytes]]:
    async def chunks(id: str) -> AsyncIterator[bytes]:
        ref, _ = await find(scope, id)
        with scratch(encrypted=encrypted) as file:
            await run_packs.export(ref, file, memories=None, signing_key=None)
            with whole(file) as read:
                for chunk in read:
                    yield chunk

    return chunks


def _session(scope: Scope) -> Callable[[str], AsyncIterator[bytes]]:
    async def chunks(id: str) -> AsyncIterator[bytes]:
        async for line in conversations.lines(await AsyncSessions(scope).get(id)):
            yield _line(line)

    return chunks


def _thread(scope: Scope, which: Which) -> Callable[[str], AsyncIterator[bytes]]:
    async def chunks(id: str) -> AsyncIterator[bytes]:
        head, place = _line({"thread": id}), 0
        while True:
            page = await scope.some(Range(scope.key(THREAD, id), place, None, conversations.PAGE))
            if not page.length and not isinstance(which, bool):
                raise NotFound(f"there is no thread {id!r}; nothing was exported", kind="thread", id=id)
            for one in page.records:
                if one.body is not None:
                    slot = SlotLine(one.type, one.body.load(), one.at, one.sender or "", one.receiver)
                    yield head + _line(msgspec.to_builtins(slot))
                    head = b""
            if not page.records:
                return
            place = page.records[-1].index + 1

    return chunks


def _line(value: dict[str, Any]) -> bytes:
    return encode(value, depth=-ENVELOPE) + b"\n"


# ---- restore --------------------------------------------------------------------------------------------------------


class SpaceArchive(Archive):
    """A pack of many things whose structure was checked."""

    def __init__(self, file: BinaryIO, *, max_bytes: int) -> None:
        super().__init__(file, max_bytes=max_bytes)
        if self.manifest is None or self.manifest.get("format") != FORMAT:
            raise refused("it is not one of a whole context; `ctx.runs.restore` takes those of single runs")
        for name in self.names - {MANIFEST, MEMORIES}:
            if not name.startswith((RUNS, SESSIONS, THREADS)) or name.count("/") != 1:
                raise refused(f"{name!r} is not an entry of a pack")


async def restore(
    services: Services,
    path: FilePath,
    *,
    public_key: bytes | None,
    key: Secret | None,
    max_bytes: int,
    actor: str,
    commit_id: str | None,
) -> Restored:
    """Bring back everything in a pack, in one commit."""
    scope = services.scope
    with given(path, key) as file:
        pack = SpaceArchive(file, max_bytes=max_bytes)
        problem = signing.problem(pack.manifest, public_key)
        if problem:
            raise refused(problem)

        async def attempt() -> Plan[Restored]:
            return await _plan(services, pack, actor, key is not None)

        async def replay(_: Receipt) -> Restored:
            # The pack itself tells: it was held against what came back, and there may be too much for a receipt.
            return msgspec.convert((pack.manifest or {})["pointers"], Restored)

        content = encode({"manifest": pack.manifest, "actor": actor})
        demands = encode({"public_key": None if public_key is None else public_key.hex(), "max_bytes": max_bytes})
        target = scope.key(KIND, "space")
        operation = Operation("context.restore", target, content, commit_id, demands, lambda: whole(file))
        return await perform(scope, operation, attempt, replay)


async def _plan(services: Services, pack: SpaceArchive, actor: str, encrypted: bool) -> Plan[Restored]:
    store = Overlay(services.scope.store)
    over = replace(services.scope, store=store)
    runs = [await _restore_run(over, pack, name, actor, encrypted) for name in pack.under(RUNS)]
    sessions = [await _joined(store, conversations.writes(over, pack.lines(name))) for name in pack.under(SESSIONS)]
    threads = [await _joined(store, _thread_writes(over, pack, name)) for name in pack.under(THREADS)]
    items = list(pack.lines(MEMORIES))
    if items:
        over_memories = AsyncMemories(over, policy=services.memories._policy)
        brought = await over_memories.unpack_writes(items, new=True)
        await store.commit(Commit(new_id(), brought.expects, brought.writes))
    made = Restored(runs=tuple(runs), sessions=tuple(sessions), threads=tuple(threads), memories=len(items))
    told = (pack.manifest or {}).get("pointers", {})
    for name, found in {"runs": runs, "sessions": sessions, "threads": threads, "memories": len(items)}.items():
        if told.get(name) != found:
            raise refused(f"its {name} are not those the manifest tells of")
    # The pack of an empty space is one too: its commit expects what never is, since it must expect something.
    nothing = (Expect(services.scope.key(KIND, "space"), 0),)
    return Plan(store.expects or nothing, tuple(store.writes), lambda receipt: made)


async def _joined(store: Overlay, planned: Awaitable[tuple[str, list[Expect], list[Write]]]) -> str:
    id, expects, writes = await planned
    await store.commit(Commit(new_id(), tuple(expects), tuple(writes)))
    return id


async def _restore_run(scope: Scope, pack: SpaceArchive, name: str, actor: str, encrypted: bool) -> str:
    with scratch(encrypted=encrypted) as file:
        for chunk in pack.chunks(name):
            file.write(chunk)
        ref, _ = await restores.restore(
            scope,
            file,
            run_id=None,
            memories=None,
            public_key=None,
            head=None,
            actor=actor,
            max_bytes=MAX_BYTES,
        )
        return ref.run_id


async def _thread_writes(scope: Scope, pack: SpaceArchive, name: str) -> tuple[str, list[Expect], list[Write]]:
    told = pack.lines(name)
    id = next(told, {}).get("thread")
    key = scope.key(THREAD, require_name(id, "a thread's id"))
    entries = [_entry(conversations._read(SlotLine, line)) for line in told]
    if not entries:
        raise refused(f"thread {id!r:.60} is empty")
    [there], count = await look(scope, [key])
    if there.length:
        raise Conflict(f"there is a thread {id!r} already; nothing changed", expected=0, actual=there.length, key=key)
    planned = plan_appends([(there, entries)], count, limits=Limits(), now=entries[0].at)
    # Nothing that comes back is delivered, whether it was or not: no pack is believed about what workers have yet to
    # do. So no flag is raised, and whoever gets a new message is given none from before it.
    delivery = scope.key(DELIVERY, key.id)
    document = await scope.get(Get(delivery))
    state = replace(handed_back(read_delivery(document)), put_off={}, seen=there.birth.first + len(entries))
    writes = [write for write in planned.writes if write.key.kind != MAIL]
    return key.id, [*planned.expects, unchanged(delivery, document)], [*writes, Put(delivery, pack_value(state))]


def _entry(one: SlotLine) -> Entry:
    """Return a message as `threads.append` or a dispatcher would have stored it; raise if neither would have."""
    require_name(one.type, "a payload's type")
    for who in (one.from_id, one.to_id):
        if who is not None:
            require_name(who, "a sender or receiver")
    if not -(2**62) < one.at < 2**62:
        raise refused("a message of a thread has a time that none can have")
    try:
        opened = unseal(encode(one.body, depth=-ENVELOPE))
        body = seal(Inert(one.type, Json(opened.payload)), opened.metadata)
        _ = opened.chain  # says so if it is none
    except Exception as problem:
        raise refused(f"a message of a thread is none ({problem})") from None
    if len(one.body) > 2:
        raise refused("a message of a thread is a payload and its metadata, and nothing else")
    return Entry(one.type, body, at=one.at, sender=one.from_id, receiver=one.to_id)
