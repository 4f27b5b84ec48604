"""Artifacts: content of any size, stored once by its sha256, in chunks, and pointed to by the runs that use it.

| kind | id | holds |
|---|---|---|
| `blob` (stream) | a random name | the chunks |
| `artifact` (document) | the sha256 | which blob, how many bytes |
| `artifact-use` (document) | run id / artifact id | what a run calls it; tagged with run and sha256 |

The `artifact` document is written again by every new use, so that erasing the last use and adding one cannot miss each
other: one of the two conflicts and looks again.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import Damaged, NotFound
from strongroom.files import name_of, reading
from strongroom.operations import Operation, refusing
from strongroom.scope import Scope
from strongroom.services.packs.staging import Staging
from strongroom.services.runs.state import Attached, Ref, Stored
from strongroom.services.runs.updates import By, MakeRequest, Outcome, Request
from strongroom.store import Delete, Document, Entry, Expect, Get, Key, Put, Range, Scan, Write
from strongroom.values import ArtifactRef, iso, moment

BLOB = "blob"
ARTIFACT = "artifact"
USE = "artifact-use"
CHUNK = 1 << 18
READ_CHUNKS = 4


class Upload(Struct, frozen=True):
    """Content on its way in: its chunks are staged, its hash is known."""

    staging: Staging
    blob: str
    sha256: str
    size: int
    beginning: bytes


async def upload(scope: Scope, run_id: str, chunks: Iterable[bytes]) -> Upload:
    """Take content in, chunk by chunk, without making it visible."""
    staging, blob = Staging(scope, run_id), "blob_" + os.urandom(10).hex()
    beginning = bytearray()

    def watched() -> Iterator[bytes]:
        for chunk in chunks:
            if not beginning:
                beginning.extend(chunk)
            yield chunk

    try:
        total, size = await stage(staging, scope.key(BLOB, blob), watched())
    except BaseException:
        await staging.abandon()
        raise
    return Upload(staging, blob, total, size, bytes(beginning))


def preview(scope: Scope, content: Upload, pointer: ArtifactRef, max_tokens: int, priority: int) -> dict[str, Any]:
    """Return a sliding item with the beginning of uploaded text, cut to so many tokens, and where the rest is."""
    text = content.beginning.decode(errors="replace")
    low, high = 0, min(len(text), max_tokens * 16)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if scope.tokenizer.count(text[:middle]) <= max_tokens else (low, middle - 1)
    shown = "".join(mark if mark.isprintable() or mark == "\n" else " " for mark in text[:low])
    return {
        "id": pointer.id,
        "content": f"{shown}\n({content.size} bytes in all: artifact {pointer.id})",
        "timestamp": iso(moment(scope.clock())),
        "priority": priority,
    }


async def attach(
    ref: Ref,
    source: str | os.PathLike[str] | bytes,
    *,
    type: str,
    path: str | None,
    preview_tokens: int,
    priority: int,
    by: By,
    commit_id: str | None,
    update: Callable[[Operation, By, MakeRequest], Awaitable[Outcome]],
) -> ArtifactRef:
    """Store content and point to it from the working set, in one commit of `update`."""
    scope = ref.scope
    with refusing, reading(source) as chunks:
        content = await upload(scope, ref.run_id, chunks)
    name = name_of(source) if path is None else path
    pointer = ArtifactRef(type=type, id=f"art_{os.urandom(8).hex()}", path=name, sha256=content.sha256)
    append: dict[str, list[Any]] = {"artifact_refs": [pointer]}
    if preview_tokens:
        append["sliding_context"] = [preview(scope, content, pointer, preview_tokens, priority)]

    async def make_request(stored: Stored) -> Request:
        expects, writes = await store_writes(scope, ref.run_id, pointer, content)
        told = (attached(pointer, content.size),)
        return Request(append=append, expects=expects, writes=writes, answer=encode(pointer.id), attached=told)

    told = {"type": type, "path": name, "sha256": content.sha256, "preview_tokens": preview_tokens}
    asked = encode({**told, "priority": priority, **by._asdict()})
    operation = Operation("run.attach", ref.key, asked, commit_id, source=lambda: reading(source))
    try:
        done = await update(operation, by, make_request)
    except BaseException:
        await content.staging.abandon()
        raise
    if done.stored is None:
        await content.staging.abandon()
    assert done.answer is not None
    return msgspec.structs.replace(pointer, id=done.answer.load())


async def stage(staging: Staging, key: Key, chunks: Iterable[bytes]) -> tuple[str, int]:
    """Append content to a staged blob; return its sha256 and size."""
    total, size = sha256(), 0
    for chunk in chunks:
        total.update(chunk)
        size += len(chunk)
        await staging.append(key, Entry("chunk", encode(b64encode(chunk).decode())))
    return total.hexdigest(), size


def artifact_key(scope: Scope, digest: str) -> Key:
    return scope.key(ARTIFACT, digest)


def use_key(scope: Scope, run_id: str, artifact_id: str) -> Key:
    return scope.key(USE, f"{run_id}/{artifact_id}")


def put_artifact(scope: Scope, digest: str, blob: str, size: int) -> Put:
    return Put(artifact_key(scope, digest), encode({"blob": blob, "size": size}))


def drop_blob(scope: Scope, blob: str) -> Delete:
    return Delete(scope.key(BLOB, blob))


def again(document: Document) -> tuple[Expect, Put]:
    """Say how to add a use of content that is there: write it once more, so that nobody can be erasing it."""
    return Expect(document.key, document.version), Put(document.key, document.value)


def attached(pointer: ArtifactRef, size: int) -> Attached:
    """Return what an event tells of content that is attached with it."""
    return Attached(**msgspec.structs.asdict(pointer), size=size)


def put_use(scope: Scope, run_id: str, told: Attached) -> Put:
    value = {"type": told.type, "path": told.path, "sha256": told.sha256, "size": told.size}
    return Put(use_key(scope, run_id, told.id), encode(value), tags={"run": run_id, "sha256": told.sha256})


async def store_writes(
    scope: Scope, run_id: str, pointer: ArtifactRef, content: Upload
) -> tuple[tuple[Expect, ...], tuple[Write, ...]]:
    """Say what makes uploaded content a run's artifact; what is there already is not stored twice."""
    known = await scope.get(Get(artifact_key(scope, content.sha256)))
    use = put_use(scope, run_id, attached(pointer, content.size))
    if known is None:
        made = put_artifact(scope, content.sha256, content.blob, content.size)
        return (Expect(made.key, 0), *content.staging.expects), (made, use, *content.staging.last_writes())
    expect, put = again(known)
    return (expect, *content.staging.expects), (put, use, *content.staging.forget_writes())


async def read(ref: Ref, artifact_id: str) -> AsyncIterator[bytes]:
    """Yield an artifact's content in chunks; raise `Damaged` if it is not what was stored."""
    scope = ref.scope
    use = await scope.get(Get(use_key(scope, ref.run_id, artifact_id)))
    if use is None:
        raise NotFound(f"run {ref.run_id!r} has no content for artifact {artifact_id!r}", kind=USE, id=artifact_id)
    digest = use.value.load()["sha256"]
    async for chunk in content(scope, digest):
        yield chunk


async def content(scope: Scope, digest: str) -> AsyncIterator[bytes]:
    """Yield the content with that sha256."""
    stored = await scope.get(Get(artifact_key(scope, digest)))
    if stored is None:
        raise NotFound(f"there is no content with sha256 {digest}", kind=ARTIFACT, id=digest)
    try:
        blob = scope.key(BLOB, stored.value.load()["blob"])
    except (LookupError, TypeError, ValueError):
        raise Damaged(f"the content with sha256 {digest} is not what was stored", reason="corrupt") from None
    place, total = 0, sha256()
    while True:
        page = await scope.get(Range(blob, place, place + READ_CHUNKS))
        for record in page.records:
            if record.body is None:
                raise NotFound(f"the content with sha256 {digest} was erased", kind=ARTIFACT, id=digest)
            try:
                chunk = b64decode(record.body.load(), validate=True)
            except (TypeError, ValueError):
                raise Damaged(f"the content with sha256 {digest} is not what was stored", reason="corrupt") from None
            total.update(chunk)
            yield chunk
        place += READ_CHUNKS
        if place >= page.length:
            break
    if total.hexdigest() != digest:
        raise Damaged(f"the content with sha256 {digest} is not what was stored", reason="checksum")


async def uses(scope: Scope, **tags: str) -> list[Document]:
    """Return every use with these tags."""
    return [use async for page in scope.pages(Scan(scope.space, USE, tags)) for use in page]


async def wrong(ref: Ref, told: Mapping[str, Attached]) -> str:
    """Return what is wrong with the content of a run, given what its ledger tells; nothing if all of it is there."""
    scope, there = ref.scope, {}
    for use in await uses(scope, run=ref.run_id):
        there[use.key.id] = (use.value, use.tags)
    for one in told.values():
        put = put_use(scope, ref.run_id, one)
        if there.pop(put.key.id, None) != (put.value, put.tags):
            return f"artifact {one.id!r} is missing, or not the one that was attached"
    if there:
        return f"{min(there)!r} is an artifact that no event attached"
    for digest, size in sorted({(one.sha256, one.size) for one in told.values()}):
        found = 0
        try:
            async for chunk in content(scope, digest):
                found += len(chunk)
        except (Damaged, NotFound) as problem:
            return str(problem)
        if found != size:
            return f"the content with sha256 {digest} has {found} bytes, and {size} were attached"
    return ""


async def copy_writes(
    scope: Scope, from_run: str, to_run: str, pointers: Iterable[ArtifactRef]
) -> tuple[tuple[Expect, ...], tuple[Write, ...], tuple[Attached, ...]]:
    """Say what lets a second run use the same artifacts, and which these are. A pointer without content stays one."""
    expects: list[Expect] = []
    writes: list[Write] = []
    copied: list[Attached] = []
    for pointer in pointers:
        if not pointer.sha256:
            continue
        use, known = await scope.read(
            Get(use_key(scope, from_run, pointer.id)), Get(artifact_key(scope, pointer.sha256))
        )
        if use is None or known is None:
            continue
        expect, put = again(known)
        if expect not in expects:
            expects.append(expect)
            writes.append(put)
        copied.append(attached(pointer, use.value.load()["size"]))
        writes.append(put_use(scope, to_run, copied[-1]))
    return tuple(expects), tuple(writes), tuple(copied)


async def erase_writes(scope: Scope, run_id: str) -> tuple[tuple[Expect, ...], tuple[Write, ...], int]:
    """Say what takes a run's artifacts away. Content that another run uses stays, for that run."""
    expects: list[Expect] = []
    writes: list[Write] = []
    own = await uses(scope, run=run_id)
    for digest in sorted({use.value.load()["sha256"] for use in own}):
        known = await scope.get(Get(artifact_key(scope, digest)))
        if known is None:
            continue
        expects.append(Expect(known.key, known.version))
        if all(use.tags["run"] == run_id for use in await uses(scope, sha256=digest)):
            stored: dict[str, Any] = known.value.load()
            writes += [Delete(scope.key(BLOB, stored["blob"])), Delete(known.key)]
    writes += [Delete(use.key) for use in own]
    return tuple(expects), tuple(writes), len(own)
