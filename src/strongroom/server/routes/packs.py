"""Resume packs over HTTP: download, upload, and snapshots kept on the server.

A pack that comes or goes may be encrypted, under 32 bytes that the caller sends along in a header. A passphrase is for
whoever has it: to stretch one takes memory and time that no caller may have of a server.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anyio import open_file, to_thread
from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from strongroom.errors import InvalidInput, NotFound, Unavailable
from strongroom.server.request import Request
from strongroom.server.responses import Refusal
from strongroom.server.router import Endpoints
from strongroom.services.runs.runs import AsyncRuns
from strongroom.values import WorkingSet

endpoint = Endpoints("packs")

CHUNK = 256 * 1024
PACK = "pack.zip"
LONGEST_NAME = 255  # bytes, of a file
LONGEST_TASK = 80  # bytes of it, which leave room for what is written beside the file
KEY_HEADER = "Strongroom-Pack-Key"


class Snapshot(Struct, frozen=True):
    ok: bool
    pack_path: str
    error: str | None = None


class NewSnapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """`pointers` goes into the manifest of the pack, beside our list of artifacts. A pack here is a zip, always."""

    zip_pack: bool = True
    pointers: dict[str, Any] = {}


class ClassicSnapshot(Struct, frozen=True):
    ok: bool
    pack_id: str
    pack_dir: str | None
    pack_zip: str
    manifest_path: str | None
    error: str | None = None


class Load(Struct, frozen=True, forbid_unknown_fields=True):
    """`pack_path` is a name that a snapshot returned; nothing else on the server's disk can be named."""

    pack_path: str
    new_run_id: str | None = None


class Loaded(Struct, frozen=True):
    ok: bool
    run_id: str
    ws: WorkingSet
    error: str | None = None


class RestoreQuery(Struct, frozen=True, forbid_unknown_fields=True):
    run_id: str | None = None


class Download(StreamingResponse):
    """A pack on its way. Its folder goes when it has been sent, or when nobody reads on."""

    def __init__(self, folder: tempfile.TemporaryDirectory[str], run_id: str) -> None:
        self._folder = folder
        path = Path(folder.name) / PACK
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(run_id, safe='')}.zip",
            "Content-Length": str(path.stat().st_size),
        }
        super().__init__(_chunks(path), media_type="application/zip", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await to_thread.run_sync(self._folder.cleanup)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    async with await open_file(path, "rb") as file:
        while chunk := await file.read(CHUNK):
            yield chunk


@endpoint("GET /runs/{run_id}/pack", "read", "Download a resume pack", media="application/zip", answer=bytes)
async def download(request: Request[None, None]) -> Download:
    """Make a pack and send it; it is written to a temporary file first, because only a complete one may leave.

    Whoever may read, may do this: nothing is recorded. Keeping a snapshot is, and needs the right to write. With
    `Strongroom-Pack-Key`, 64 hexadecimal digits, it is encrypted under those 32 bytes.
    """
    key = _key(request)
    run = await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)
    folder = tempfile.TemporaryDirectory(prefix="strongroom-pack-")
    try:
        with _no_folders():
            await run.export(Path(folder.name) / PACK, key=key, record=False)
    except BaseException:
        folder.cleanup()
        raise
    return Download(folder, run.id)


@endpoint("POST /runs/restore", "write", "Upload a resume pack", accepts="application/zip", large=True)
async def upload(request: Request[None, RestoreQuery]) -> Loaded:
    """Restore a pack sent as the body. It is spooled to disk, checked as a whole, and only then believed.

    `Strongroom-Pack-Key`, 64 hexadecimal digits, opens an encrypted one.
    """
    key = _key(request)
    with tempfile.TemporaryDirectory(prefix="strongroom-pack-") as folder:
        path = Path(folder) / PACK
        async with await open_file(path, "wb") as file:
            async for chunk in request.stream():
                await file.write(chunk)
        if path.stat().st_size == 0:
            raise InvalidInput("send the pack as the body, application/zip; nothing changed")
        most = request.settings.max_pack_bytes  # unpacked, too: a small file can hold a lot
        run = await _runs(request).restore(
            path,
            run_id=request.query.run_id,
            key=key,
            actor=request.caller.name,
            max_bytes=most,
            commit_id=request.commit_id,
        )
    return Loaded(True, run.id, run.working_set)


@endpoint("POST /runs/{run_id}/snapshot", "write", "Keep a resume pack on the server")
async def snapshot(request: Request[None, None]) -> Snapshot:
    path, _ = await _keep(request)
    return Snapshot(True, path.name)


@endpoint("POST /runs/{run_id}/resume/snapshot", "write", "Keep a resume pack on the server")
async def classic_snapshot(request: Request[NewSnapshot, None]) -> ClassicSnapshot:
    if not request.content.zip_pack:
        raise InvalidInput("a server keeps packs as zip files and no others; nothing changed", path="zip_pack")
    path, pack_id = await _keep(request, request.content.pointers)
    return ClassicSnapshot(True, pack_id, None, path.name, None)


@endpoint("POST /runs/resume/load", "write", "Restore a kept pack")
async def load(request: Request[Load, None]) -> Loaded:
    wanted = Path(request.content.pack_path)
    path = _folder(request) / wanted.name
    is_name = str(wanted) == wanted.name and wanted.name.isprintable() and len(wanted.name.encode()) <= LONGEST_NAME
    if wanted.suffix != ".zip" or not is_name:
        raise InvalidInput("pack_path must be what a snapshot returned; nothing changed", path="pack_path")
    with _no_folders():
        is_there = await to_thread.run_sync(path.is_file)
    if not is_there:
        raise NotFound(f"there is no snapshot {wanted.name!r}; nothing changed", kind="snapshot", id=wanted.name)
    runs, wanted_id = _runs(request), request.content.new_run_id
    with _no_folders():
        run = await runs.restore(path, run_id=wanted_id, actor=request.caller.name, commit_id=request.commit_id)
    return Loaded(True, run.id, run.working_set)


def _key(request: Request[Any, Any]) -> bytes | None:
    given = request.headers.get(KEY_HEADER)
    if given is None:
        return None
    if re.fullmatch("[0-9A-Fa-f]{64}", given) is None:
        raise InvalidInput(f"{KEY_HEADER} must be 64 hexadecimal digits, 32 bytes; nothing changed", path=KEY_HEADER)
    return bytes.fromhex(given)


def _runs(request: Request[Any, Any]) -> AsyncRuns:
    """A pack can hold memories, and bringing memories in is for reviewers: nobody may smuggle them past the review."""
    return request.ctx.runs if request.caller.may("review") else AsyncRuns(request.ctx.scope)


async def _keep(request: Request[Any, Any], pointers: dict[str, Any] | None = None) -> tuple[Path, str]:
    """Write a pack into this space's folder of snapshots, under a name nobody else can have chosen."""
    run = await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S_") + os.urandom(4).hex()
    if request.commit_id is not None:  # a repeat finds the file of the first; the id is the caller's own, see `ids`
        stamp = sha256(f"{len(run.id)}:{run.id}{request.commit_id}".encode()).hexdigest()[:32]
    path = _folder(request) / f"task_{_said(run.working_set.task_id.removeprefix('task_'))}_resume_{stamp}.zip"
    with _no_folders():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = await run.export(path, pointers=pointers, actor=request.caller.name, commit_id=request.commit_id)
    return path, made.pack_id


def _said(task_id: str) -> str:
    """Return what a file's name can say of a task: a letter of some scripts takes four bytes of it."""
    plain = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in task_id)
    return plain.encode()[:LONGEST_TASK].decode(errors="ignore")


@contextmanager
def _no_folders() -> Iterator[None]:
    """Say that files are the trouble, and not where the server keeps them."""
    try:
        yield
    except OSError as problem:
        raise _no_file() from problem
    except Unavailable as problem:
        if problem.reason != "io":
            raise
        raise _no_file() from problem


def _no_file() -> Refusal:
    return Refusal(503, "unavailable", "the server cannot read or write files of packs; nothing changed")


def _folder(request: Request[Any, Any]) -> Path:
    """The folder of the caller's own space, named by its bytes, or a hash of many, so that no name can leave it."""
    space = request.caller.space.encode()
    name = space.hex() if 2 * len(space) <= LONGEST_NAME else f"sha256-{sha256(space).hexdigest()}"
    return Path(request.settings.snapshots) / name
