"""`/mcp`: assistants over HTTP, behind the same gate as everything else.

Who calls is decided by the gate alone: the key's space, name and role become a `Principal`, and the session that an
older client opens belongs to the key that opened it. Of OAuth this is the resource server's side: whoever comes without
a token is told where tokens come from (RFC 9728), and what a token says is checked as on every other path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

import strongroom
from strongroom.mcp.principals import Principal, profile_of
from strongroom.server.ids import marked_ids
from strongroom.server.jsonrpc import objection
from strongroom.server.keys import Caller
from strongroom.server.mcp_sessions import IDLE_SECONDS, MOST_SESSIONS, Sessions
from strongroom.server.paths import PathRoute
from strongroom.server.request import Body
from strongroom.server.responses import Refusal
from strongroom.server.router import context_of
from strongroom.server.settings import Settings
from strongroom.server.shutdown import end
from strongroom.server.sse import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
GRACE_SECONDS = 1.0
PRINCIPAL = "strongroom.principal"

T = TypeVar("T")

log = logging.getLogger("strongroom.server")


class McpApp:
    """The path as an application: bounds, the gate, and then the SDK's transport."""

    path, reads = PATH, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["app"].state
        if state.mcp is None:
            raise Refusal(404, "no_such_path", "MCP needs more packages on the server: pip install 'strongroom[mcp]'")
        body = Body(scope, receive, state.settings.max_body_bytes, spooled=False)
        request = Request(scope, body)
        try:
            _check_origin(request, state.settings)
            caller: Caller = await _telling_where(request, state.gate.admit(request, "read"))
            body.confirm = lambda: _telling_where(request, state.gate.confirm(request, caller))
            transport = await state.mcp.transport()
            content = await request.body()
            wrong = objection(content) if scope["method"] == "POST" else None
            if wrong is not None:
                await wrong(scope, receive, send)
                return
            # What surrounds a header's value is no part of it; the parser leaves it there, and the SDK compares.
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            scope["user"] = _owner(caller)
            scope[PRINCIPAL] = Principal(context_of(state, caller.space), caller.name, profile_of(caller.role))
            whole = _replayed(content, receive)
            with state.streams.one(caller.name), marked_ids(caller):
                answer = _Answer(send, partial(state.gate.still_admits, request, caller))
                serving = state.mcp.sessions.serve(transport.handle_request, caller, scope, whole, answer.send)
                await answer.until_over(serving, state.shutdown.begun)
        finally:
            body.release()


def create_server() -> Server[Any]:
    """Make the server of this path: it asks the request who calls."""
    from strongroom.mcp import server

    def principal(context: server.Context) -> Principal:
        assert context.request is not None
        who: Principal = context.request.scope[PRINCIPAL]
        return who

    return server.create_server(principal, version=strongroom.__version__)


class Assistants:
    """The SDK's transport, loaded when the first assistant comes: that takes longer than all else about starting."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.sessions = Sessions(settings.max_sessions, kept=settings.mcp_sessions)
        self._wanted, self._over = asyncio.Event(), asyncio.Event()
        self._made: asyncio.Future[StreamableHTTPSessionManager | Exception] = (
            asyncio.get_running_loop().create_future()
        )

    async def transport(self) -> StreamableHTTPSessionManager:
        """Return it, once it can be used; raise if it never can."""
        self._wanted.set()
        made = await asyncio.shield(self._made)
        if isinstance(made, Exception):
            # One for each caller: an error that is raised again and again gets longer each time.
            raise RuntimeError(f"the transport of assistants did not start ({type(made).__name__})") from made
        return made

    async def serve(self) -> None:
        """Wait until it is wanted, and have it run from then on until `stop`."""
        await self._wanted.wait()
        try:
            made = await asyncio.to_thread(self._load)
            async with made.run():
                self._made.set_result(made)
                await self._over.wait()
        except Exception as problem:
            if self._made.done():
                raise
            log.exception("assistants cannot be served until the server is started again")
            self._made.set_result(problem)

    def _load(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        # Where several processes share a port a session would be known to one of them: there none is kept.
        return StreamableHTTPSessionManager(
            create_server(),
            stateless=not self._settings.mcp_sessions,
            max_request_body_size=self._settings.max_body_bytes,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_SESSIONS,
        )

    async def stop(self, serving: asyncio.Task[None]) -> None:
        """Let what runs end in order; what nobody wanted is not begun any more."""
        self._over.set()
        await (serving if self._wanted.is_set() else end(serving))


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[None]:
    """Serve assistants for the time of a block, if the SDK is installed."""
    app.state.mcp = None
    if find_spec("mcp_types") is None:  # older versions of the SDK have no such package
        yield
        return
    app.state.mcp = assistants = Assistants(app.state.settings)
    serving = asyncio.create_task(assistants.serve())
    watching = asyncio.create_task(assistants.sessions.watch(lambda caller: app.state.gate.still_knows(caller)))
    try:
        yield
    finally:
        await end(watching)
        await assistants.stop(serving)


def routes() -> list[PathRoute]:
    """Return the path itself, and what is told to whoever looks for a way in."""
    return [
        PathRoute(PATH, McpApp(), methods=["GET", "POST", "DELETE"], name="Assistants (MCP)"),
        PathRoute(METADATA, metadata, methods=["GET"]),
        PathRoute(METADATA + PATH, metadata, methods=["GET"]),
    ]


# ---- who comes in ---------------------------------------------------------------------------------------------------


async def _telling_where(request: Request, asking: Awaitable[T]) -> T:
    """Ask the gate; whoever is turned away is told where tokens come from."""
    try:
        return await asking
    except Refusal as refusal:
        settings: Settings = request.app.state.settings
        if refusal.status == 401 and settings.jwt_keys_url:
            parts = urlsplit(resource(request))
            where = f"{parts.scheme}://{parts.netloc}{METADATA}{parts.path}"
            wrong = 'error="invalid_token", ' if "authorization" in request.headers else ""
            refusal.headers["WWW-Authenticate"] = f'Bearer {wrong}resource_metadata="{where}"'
        raise


def _owner(caller: Caller) -> Any:
    """Return the key as the SDK knows owners of sessions: nobody else can go on with one."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token="-", client_id=caller.name, scopes=[caller.role], subject=caller.space))


def _check_origin(request: Request, settings: Settings) -> None:
    """Refuse pages of other sites, with a key as without one: the protocol asks for that."""
    origin = request.headers.get("origin")
    if origin is None or "*" in settings.allowed_origins or origin.lower() in settings.allowed_origins:
        return
    if origin.lower().partition("://")[2] != request.headers.get("host", "").lower():
        raise Refusal(403, "forbidden", "this page may not call the server; see STRONGROOM_ALLOWED_ORIGINS")


# ---- OAuth: where tokens come from ----------------------------------------------------------------------------------


async def metadata(request: Request) -> Response:
    """Tell who gives out tokens for this server (RFC 9728), if it takes any but its own keys."""
    settings: Settings = request.app.state.settings
    if not settings.jwt_keys_url:
        raise Refusal(404, "no_such_path", "this server takes keys of its own and no tokens; make a key for it")
    told = {
        "resource": resource(request),
        "resource_name": "Strongroom",
        "authorization_servers": [settings.jwt_issuer],
        "bearer_methods_supported": ["header"],
    }
    return JSONResponse(told)


def resource(request: Request) -> str:
    """Return what tokens for this server name as their audience: its address, as it is set, or as it was called by."""
    audience: str = request.app.state.settings.jwt_audience
    if audience.startswith(("http://", "https://")):
        return audience
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}{PATH}"


# ---- passing a request on -------------------------------------------------------------------------------------------


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Give the body that was read, and after it what else the connection says."""
    left = [content]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


class _Answer:
    """What is sent to one caller, for as long as the gate lets it stay; streams could last for ever."""

    def __init__(self, send: Send, admitted: Callable[[], Awaitable[bool]]) -> None:
        self._send = send
        self._admitted = admitted
        self._lasts = False  # whether it has begun and is not over
        self._refused = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on, unless it is one of many and its caller may no longer have it."""
        more = message.get("more_body", False)
        if self._refused.is_set() or (more and not await self._may_stay()):
            return
        self._lasts = more or message["type"] == "http.response.start"
        await self._send(message)

    async def until_over(self, answering: Coroutine[Any, Any, None], begun: asyncio.Event) -> None:
        """Answer; a stream ends when the server stops, and when its caller may no longer have it."""
        answer, stopping = asyncio.ensure_future(answering), asyncio.ensure_future(begun.wait())
        refused = asyncio.ensure_future(self._refused.wait())
        ends = {answer, stopping, refused}
        try:
            while not (await asyncio.wait(ends, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
                if self._lasts:
                    await self._may_stay()
            if not answer.done() and not self._refused.is_set():
                await asyncio.wait({answer}, timeout=GRACE_SECONDS)
            if answer.done():
                answer.result()
        finally:
            await end(*ends)
        if self._refused.is_set() and self._lasts:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _may_stay(self) -> bool:
        if not await self._admitted():
            self._refused.set()
        return not self._refused.is_set()
