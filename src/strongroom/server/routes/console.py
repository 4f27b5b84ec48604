"""What a page for people needs beside the resources themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct
from starlette.responses import StreamingResponse

from strongroom.server.request import Request
from strongroom.server.router import Endpoints
from strongroom.services.runs.run import AsyncRun
from strongroom.values import Head, Usage

endpoint = Endpoints("console")


class Me(Struct, frozen=True):
    name: str
    space: str
    role: str
    keyless: bool


@endpoint("GET /me", "read", "Who this key is")
async def me(request: Request[None, None]) -> Me:
    caller = request.caller
    return Me(caller.name, caller.space, caller.role, "authorization" not in request.headers)


@endpoint("GET /runs/{run_id}/head", "read", "How long the ledger is, and its hash")
async def head(request: Request[None, None]) -> Head:
    return await (await _run(request)).head()


@endpoint("GET /runs/{run_id}/usage", "read", "What models and tools came to")
async def usage(request: Request[None, None]) -> Usage:
    return await (await _run(request)).usage()


@endpoint(
    "GET /runs/{run_id}/artifacts/{artifact_id}",
    "read",
    "Download an artifact",
    media="application/octet-stream",
    answer=bytes,
)
async def artifact(request: Request[None, None]) -> StreamingResponse:
    """Send the content as a file to save, whatever its type says: nothing that was stored is opened as a page."""
    run = await _run(request)
    chunks = run.artifact(request.path_params["artifact_id"])
    first = await anext(chunks, b"")  # what is missing or damaged is refused before the answer begins

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    headers = {"Content-Disposition": "attachment", "Content-Security-Policy": "sandbox"}
    return StreamingResponse(content(), media_type="application/octet-stream", headers=headers)


async def _run(request: Request[Any, Any]) -> AsyncRun:
    return await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)
