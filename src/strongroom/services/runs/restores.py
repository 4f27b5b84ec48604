"""Bringing a run back from a resume pack.

The pack is read twice. The first time everything is checked and nothing is written: structure, manifest, signature,
every event, the chain, the state it leads to, episodes, contents. The second time it is written, checked once more on
the way (the file may have changed), and becomes visible with the last commit.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput
from strongroom.operations import Operation, Plan, perform
from strongroom.schemas import check as check_schema
from strongroom.scope import Scope
from strongroom.services.owning import OWNER
from strongroom.services.packs import signing
from strongroom.services.packs.archive import whole
from strongroom.services.packs.staging import Staging, sweep
from strongroom.services.packs.unzip import refused
from strongroom.services.runs import artifacts, packs
from strongroom.services.runs.episodes import TYPE as EPISODE
from strongroom.services.runs.episodes import LongTerm, MemoryWrites, Packable
from strongroom.services.runs.history import Story, all_digest, episode_digest
from strongroom.services.runs.ledger import GENESIS, Identity, recorded
from strongroom.services.runs.own_state import FIELD, differs, plain
from strongroom.services.runs.own_state import put as put_state
from strongroom.services.runs.packs import PackReader
from strongroom.services.runs.state import Attached, Mark, Ref, RunState, beginning, find, point_to, put, record, taken
from strongroom.services.runs.working_set import WorkingSetJson, instant, require_id, require_valid
from strongroom.store import Append, Entry, Erase, Expect, Get, Receipt, Write, require_name
from strongroom.values import Head, RunConfig, microseconds

_EPISODE = re.compile(re.escape(packs.EPISODES) + r"[0-9]{8}-(ep_[0-9a-f]+)\.json")
_EPISODE_EXTRAS = ("reason", "first_event", "last_event")


class Checked(Struct, frozen=True):
    """A pack that passed every check: what is needed besides its streams."""

    working_set: WorkingSetJson
    origin: Identity
    head: Head
    pack_id: str | None
    config: RunConfig
    pointers: list[Attached]
    user_id: str | None
    created: int | None


class Staged(Struct, frozen=True):
    """What is written and not yet visible, and what must be erased again once it is."""

    staging: Staging
    erase: list[Erase]
    episodes: tuple[int, str]
    blobs: dict[str, tuple[str, int]]


def check(pack: PackReader, *, public_key: bytes | None, head: Head | None) -> Checked:
    """Check a whole pack without writing anything; raise `InvalidInput` with the reason it is refused for."""
    manifest = pack.manifest or {}
    problem = signing.problem(pack.manifest, public_key)
    if problem:
        raise refused(problem)
    working_set = pack.document(packs.WORKING_SET)
    require_valid(working_set)
    if packs.STATE in pack.names:
        _check_state(pack, working_set, _config(manifest))
    told = manifest.get("origin") or {"space": "-", "run_id": working_set["run_id"]}
    origin = Identity(told["space"], told["run_id"])
    if origin.run_id != working_set["run_id"]:
        raise refused("its working set is of another run")
    found, story = _check_ledger(pack, origin, working_set if manifest else None, head)
    if manifest and (found.length, found.chain) != (
        manifest["ledger_head"]["length"],
        manifest["ledger_head"]["chain"],
    ):
        raise refused("its ledger is not the one the manifest speaks of")
    digests = [_digest(*_episode(pack, name)) for name in pack.under(packs.EPISODES)]
    for name in pack.under(packs.ARTIFACTS):
        _check_artifact(pack, name)
    for _ in pack.lines(packs.MEMORIES):
        pass
    config, pointers, user_id = _config(manifest), _pointers(pack, manifest), _owner(manifest)
    if manifest and story.config is not None:
        _check_beside(story, config, digests, pointers)
        if user_id != story.user_id:
            raise refused("its owner is not the one its ledger tells")
    chosen = story.config or config
    return Checked(working_set, origin, found, manifest.get("pack_id"), chosen, pointers, user_id, story.created)


def _check_state(pack: PackReader, working_set: WorkingSetJson, config: RunConfig) -> None:
    """Take in the run's own state."""
    try:
        working_set[FIELD] = None
        put_state(working_set, plain(pack.document(packs.STATE)), config)
    except (InvalidInput, BudgetExceeded) as problem:
        raise refused(f"{packs.STATE}: {problem}") from None


def _check_beside(story: Story, config: RunConfig, digests: list[str], pointers: list[Attached]) -> None:
    """Hold what is in a pack beside its ledger against what the ledger tells."""
    if config != story.config:
        raise refused("its configuration is not the one its ledger tells")
    if story.wrong_episode(digests) is not None:
        raise refused("its episodes are not those its ledger tells of")
    if {pointer.id: pointer for pointer in pointers} != story.attached:
        raise refused("its artifacts are not those its ledger tells of")


async def restore(
    scope: Scope,
    file: BinaryIO,
    *,
    run_id: str | None,
    memories: LongTerm | None,
    public_key: bytes | None,
    head: Head | None,
    actor: str,
    max_bytes: int,
    commit_id: str | None = None,
) -> tuple[Ref, RunState]:
    """Check the pack, then write it; the run appears with the last commit or not at all."""
    pack = PackReader(file, max_bytes=max_bytes)
    checked = check(pack, public_key=public_key, head=head)
    target = require_id(checked.working_set["run_id"] if run_id is None else run_id, "run_id")
    ref = Ref(scope, target, f"{target}~{os.urandom(8).hex()}")
    staging = Staging(scope, target)
    staged: Staged | None = None

    async def attempt() -> Plan[tuple[Ref, RunState]]:
        nonlocal staged
        if staged is None:
            there = await scope.get(Get(ref.key))
            if there is not None:
                raise taken(target, Conflict("", expected=0, actual=there.version, key=ref.key))
            await sweep(scope)
            erase = await _stage_ledger(pack, ref, staging, checked)
            made = await _stage_episodes(pack, ref, staging)
            staged = Staged(staging, erase, made, await _stage_artifacts(pack, scope, staging))
        return await _appearance(ref, checked, staged, await _memories(pack, memories), actor)

    async def replay(receipt: Receipt) -> tuple[Ref, RunState]:
        await staging.abandon()
        return await find(scope, target)

    # Hashes of everything in the pack, or, of one without a manifest, all there is.
    said = {"manifest": pack.manifest, "working_set": checked.working_set, "head": msgspec.to_builtins(checked.head)}
    demands = {
        "run_id": run_id,
        "public_key": None if public_key is None else public_key.hex(),
        "head": None if head is None else msgspec.to_builtins(head),
        "max_bytes": max_bytes,
    }
    operation = Operation(
        "runs.restore", ref.key, encode({**said, "actor": actor}), commit_id, encode(demands), lambda: whole(file)
    )
    try:
        return await perform(scope, operation, attempt, replay)
    except BaseException:
        await staging.abandon()
        raise


# ---- checking -------------------------------------------------------------------------------------------------------


def _check_ledger(
    pack: PackReader, origin: Identity, expected: WorkingSetJson | None, head: Head | None
) -> tuple[Head, Story]:
    chain, length, story = GENESIS, 0, Story()
    for number, line in enumerate(pack.lines(packs.LEDGER), 1):
        try:
            entry, erased = packs.entry_of(line, number, origin)
        except InvalidInput as problem:
            raise problem if "refused" in str(problem) else refused(f"{packs.LEDGER}:{number}: {problem}") from None
        assert entry.commitment is not None
        chain, length = sha256(chain + entry.commitment).digest(), number
        if head is not None and head.length == number and head.chain != chain.hex():
            raise refused("its ledger is not the one whose head was given")
        try:
            story.hear(recorded(entry, number - 1, erased=erased))
        except ValueError as problem:
            raise refused(f"{packs.LEDGER}:{number}: {problem}") from None
    if head is not None and head.length > length:
        raise refused("it is older than the head that was given: events are missing from its end")
    state = story.state
    if expected is not None and state is not None and differs({**state, "run_id": origin.run_id}, expected):
        raise refused("its working set is not what its ledger leads to")
    return Head(length, chain.hex()), story


def _episode(pack: PackReader, name: str) -> tuple[dict[str, Any], int]:
    """Return an episode's stored form and its time."""
    match = _EPISODE.fullmatch(name)
    found = pack.document(name)
    if match is None or not isinstance(found, dict):
        raise refused(f"{name!r} is not an episode")
    extras = {key: found.pop(key, None) for key in _EPISODE_EXTRAS}
    check_schema("episode", found, path=name)
    numbers = (extras["first_event"], extras["last_event"])
    if found["episode_id"] != match[1] or not isinstance(extras["reason"], str):
        raise refused(f"{name!r} is not the episode its name says")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise refused(f"{name!r} does not say which events it covers")
    at = microseconds(instant(found.pop("created_at"), name))
    found.pop("_schema_version")
    return {**found, **extras}, at


def _digest(body: dict[str, Any], at: int) -> str:
    return episode_digest(at, encode(body))


def _check_artifact(pack: PackReader, name: str) -> None:
    total = sha256()
    for chunk in pack.chunks(name):
        total.update(chunk)
    if name != packs.ARTIFACTS + total.hexdigest():
        raise refused(f"{name!r} is not the content its name says")


def _config(manifest: dict[str, Any]) -> RunConfig:
    try:
        return msgspec.convert(manifest.get("config", {}), RunConfig)
    except msgspec.ValidationError as problem:
        raise refused(f"its configuration is not one known here ({problem})") from None


def _owner(manifest: dict[str, Any]) -> str | None:
    try:
        return None if manifest.get(OWNER) is None else require_name(manifest[OWNER], "a user_id")
    except InvalidInput as problem:
        raise refused(f"its owner is none ({problem})") from None


def _pointers(pack: PackReader, manifest: dict[str, Any]) -> list[Attached]:
    pointers = manifest.get("pointers", {}).get("artifacts", [])
    fields = {"id": str, "type": str, "path": str, "sha256": str, "size": int}
    for pointer in pointers if isinstance(pointers, list) else [None]:
        if not isinstance(pointer, dict) or {name: type(value) for name, value in pointer.items()} != fields:
            raise refused("its list of artifacts is not well-formed")
        if packs.ARTIFACTS + pointer["sha256"] not in pack.names:
            raise refused(f"the content of artifact {pointer['id'][:60]!r} is missing")
    return msgspec.convert(pointers, list[Attached])


# ---- writing --------------------------------------------------------------------------------------------------------


async def _stage_ledger(pack: PackReader, ref: Ref, staging: Staging, checked: Checked) -> list[Erase]:
    """Append the events under their new identity; return what must be erased again."""
    blank: list[Erase] = []
    chain, number = GENESIS, 0
    for number, line in enumerate(pack.lines(packs.LEDGER), 1):
        original, _ = packs.entry_of(dict(line), number, checked.origin)
        entry, erased = packs.entry_of(line, number, ref.identity)
        assert original.commitment is not None
        chain = sha256(chain + original.commitment).digest()
        if erased and blank and blank[-1].stop == number - 1:
            blank[-1] = Erase(ref.ledger, blank[-1].start, number)
        elif erased:
            blank.append(Erase(ref.ledger, number - 1, number))
        await staging.append(ref.ledger, entry)
    if pack.manifest is not None and (number, chain.hex()) != (checked.head.length, checked.head.chain):
        raise refused("it changed while it was being read")
    return blank


async def _stage_episodes(pack: PackReader, ref: Ref, staging: Staging) -> tuple[int, str]:
    """Append the episodes; return what the ledger will tell of them."""
    digests = []
    for name in pack.under(packs.EPISODES):
        body, at = _episode(pack, name)
        for side in ("ws_before", "ws_after"):
            body[side] = {**body[side], "run_id": ref.run_id}
        digests.append(_digest(body, at))
        await staging.append(ref.episodes, Entry(EPISODE, encode(body), at=at))
    return all_digest(digests)


async def _stage_artifacts(pack: PackReader, scope: Scope, staging: Staging) -> dict[str, tuple[str, int]]:
    """Take contents in; return the blob and size of each sha256 that is not here yet."""
    blobs: dict[str, tuple[str, int]] = {}
    for name in pack.under(packs.ARTIFACTS):
        digest = name.removeprefix(packs.ARTIFACTS)
        blob = "blob_" + os.urandom(10).hex()
        found, size = await artifacts.stage(staging, scope.key(artifacts.BLOB, blob), pack.chunks(name))
        if found != digest:
            raise refused("it changed while it was being read")
        blobs[digest] = (blob, size)
    return blobs


async def _memories(pack: PackReader, memories: LongTerm | None) -> MemoryWrites | None:
    items = list(pack.lines(packs.MEMORIES))
    if not items:
        return None
    if not isinstance(memories, Packable):
        raise refused("it holds memories, and this context has no long-term memory to take them")
    return await memories.unpack_writes(items)


async def _appearance(
    ref: Ref, checked: Checked, staged: Staged, brought: MemoryWrites | None, actor: str
) -> Plan[tuple[Ref, RunState]]:
    """Plan what makes the run visible: its document and everything that points to what was staged."""
    working_set, now = {**checked.working_set, "run_id": ref.run_id}, ref.scope.clock()
    state = RunState(
        working_set=working_set,
        streams=ref.streams,
        config=checked.config,
        mark=Mark(checked.head.length, 0),
        created=now if checked.created is None else checked.created,
        user_id=checked.user_id,
    )
    told = {"pack_id": checked.pack_id, "run_id": checked.origin.run_id, "length": checked.head.length}
    told |= {"chain": checked.head.chain} if checked.pack_id else {}
    brings = beginning(state, checked.pointers, staged.episodes)
    restored = record(ref, "RESTORED", told, at=now, actor=actor, detail=brings)
    alone, pointer = point_to(ref)
    expects, writes = await _artifact_writes(ref.scope, ref.run_id, checked.pointers, staged.blobs)
    return Plan(
        (Expect(ref.key, 0), alone, *staged.staging.expects, *expects, *(brought.expects if brought else ())),
        (
            put(ref, state),
            pointer,
            *staged.staging.last_writes(),
            *staged.erase,
            Append(ref.ledger, (restored,)),
            *writes,
            *(brought.writes if brought else ()),
        ),
        lambda receipt: (ref, state),
        refusal=lambda conflict: taken(ref.run_id, conflict) if conflict.key in (ref.key, alone.key) else None,
    )


async def _artifact_writes(
    scope: Scope, run_id: str, pointers: list[Attached], blobs: dict[str, tuple[str, int]]
) -> tuple[list[Expect], list[Write]]:
    expects: list[Expect] = []
    writes: list[Write] = []
    for digest, (blob, size) in blobs.items():
        known = await scope.get(Get(artifacts.artifact_key(scope, digest)))
        if known is None:
            made = artifacts.put_artifact(scope, digest, blob, size)
            expects.append(Expect(made.key, 0))
            writes.append(made)
        else:
            expect, again = artifacts.again(known)
            expects.append(expect)
            writes += [again, artifacts.drop_blob(scope, blob)]
    for pointer in pointers:
        writes.append(artifacts.put_use(scope, run_id, pointer))
    return expects, writes
