"""What a page for people needs beside the resources themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import StreamingResponse

from strongroom.errors import InvalidInput
from strongroom.server import cookies
from strongroom.server.keys import Keys
from strongroom.server.request import Request
from strongroom.server.responses import Refusal, Whole, reply
from strongroom.server.router import Endpoints
from strongroom.services.runs.artifacts import use_key
from strongroom.services.runs.run import AsyncRun
from strongroom.store import Get
from strongroom.values import Head, Usage

endpoint = Endpoints("console")

MOST_ARTIFACTS = 100
MOST_FIRST = 65_536  # bytes: less than a chunk holds, so a beginning is one read


class Me(Struct, frozen=True):
    """`label` is what the key is called, if it is a key and was given one. `keyless`: let in as a neighbour, without a
    key. `kept`: by the key in the browser's cookie."""

    name: str
    label: str
    space: str
    role: str
    keyless: bool
    kept: bool


@endpoint("GET /me", "read", "Who this key is")
async def me(request: Request[None, None]) -> Me:
    caller, keyless = request.caller, request.app.state.gate.is_keyless(request)
    kept = not keyless and "authorization" not in request.headers
    known = None if keyless else await Keys(request.app.state.store).get(caller.name)
    return Me(caller.name, "" if known is None else known.label, caller.space, caller.role, keyless, kept)


class SignedIn(Struct, frozen=True):
    ok: bool
    seconds: int


@endpoint("POST /sign-in", "read", "Have the browser keep the key", keyed=False, answer=SignedIn)
async def sign_in(request: Request[None, None]) -> Whole:
    """Answer with a cookie that holds the key of the `Authorization` header: see `cookies`. Nothing is stored here."""
    _require_page_of_ours(request)
    key = request.headers.get("authorization", "").partition(" ")[2]
    if cookies.KEY.fullmatch(key) is None:
        raise InvalidInput("only a key can be kept: send it in 'Authorization: Bearer srk_...'; nothing changed")
    headers = {"Set-Cookie": cookies.keep(request, key)}
    return reply(SignedIn(True, cookies.KEPT_SECONDS), headers=headers)


@endpoint("POST /sign-out", None, "Have the browser drop the key", keyed=False, answer=dict[str, bool])
async def sign_out(request: Request[None, None]) -> Whole:
    """Answer with a cookie that ends the one of `sign-in`. Anybody may: a key that was revoked is dropped, too."""
    _require_page_of_ours(request)
    answer = reply({"ok": True})
    for cookie in cookies.drop(request):
        answer.headers.append("Set-Cookie", cookie)
    return answer


def _require_page_of_ours(request: Request[Any, Any]) -> None:
    if not cookies.is_from_this_server(request, must_say=False):
        raise Refusal(403, "forbidden", "this is for pages of this server alone; nothing changed")


@endpoint("GET /runs/{run_id}/head", "read", "How long the ledger is, and its hash")
async def head(request: Request[None, None]) -> Head:
    return await (await _run(request)).head()


@endpoint("GET /runs/{run_id}/usage", "read", "What models and tools came to")
async def usage(request: Request[None, None]) -> Usage:
    return await (await _run(request)).usage()


class ArtifactInfo(Struct, frozen=True):
    """`bytes` is None if the content is not here: it was erased, or left out of a pack."""

    id: str
    type: str
    path: str
    sha256: str
    bytes: int | None


class Artifacts(Struct, frozen=True):
    """The first hundred that the working set points to."""

    artifacts: list[ArtifactInfo]


@endpoint("GET /runs/{run_id}/artifacts", "read", "What a run has attached")
async def attached(request: Request[None, None]) -> Artifacts:
    run, scope = await _run(request), request.ctx.scope
    pointers = run.working_set.artifact_refs[:MOST_ARTIFACTS]
    uses = await scope.get_all([Get(use_key(scope, run.id, each.id)) for each in pointers])
    return Artifacts(
        [
            ArtifactInfo(each.id, each.type, each.path, each.sha256, None if use is None else use.value.load()["size"])
            for each, use in zip(pointers, uses, strict=True)
        ]
    )


class ArtifactQuery(Struct, frozen=True, forbid_unknown_fields=True):
    first: Annotated[int, Meta(ge=1, le=MOST_FIRST)] | None = None


@endpoint(
    "GET /runs/{run_id}/artifacts/{artifact_id}",
    "read",
    "Download an artifact",
    media="application/octet-stream",
    answer=bytes,
)
async def artifact(request: Request[None, ArtifactQuery]) -> StreamingResponse:
    """Send the content as a file to save, whatever its type says: nothing that was stored is opened as a page.

    `first` asks for its beginning alone, so many bytes of it, which nobody has checked.
    """
    run = await _run(request)
    chunks = run.artifact(request.path_params["artifact_id"])
    first = await anext(chunks, b"")  # what is missing or damaged is refused before the answer begins

    async def content() -> AsyncIterator[bytes]:
        if request.query.first is not None:
            yield first[: request.query.first]
            return
        yield first
        async for chunk in chunks:
            yield chunk

    headers = {"Content-Disposition": "attachment", "Content-Security-Policy": "sandbox"}
    return StreamingResponse(content(), media_type="application/octet-stream", headers=headers)


async def _run(request: Request[Any, Any]) -> AsyncRun:
    return await request.ctx.runs.get(request.path_params["run_id"], actor=request.caller.name)
