"""The sessions that assistants of the older family hold open: so many for each key, and none for a key that is gone.

The SDK bounds all sessions together, and ends those that nobody used for a while. Who holds how many is counted here,
before the SDK makes another one: a key has its limit, and a space may hold as many as are left for all the others, so
that whoever makes keys without end leaves room for the rest. A session that ended by itself counts until somebody
finds it gone, or until it was idle for as long as the SDK waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strongroom.server.gate import LOCAL
from strongroom.server.jsonrpc import INTERNAL_ERROR, refusal
from strongroom.server.keys import Caller
from strongroom.server.sse import HEARTBEAT_SECONDS

log = logging.getLogger("strongroom.server")

MOST_SESSIONS = 1_000
IDLE_SECONDS = 30 * 60.0
NAME = "mcp-session-id"


@dataclass(slots=True, eq=False)
class _Session:
    caller: Caller
    user: Any  # its owner, as the SDK knows it
    handle: ASGIApp
    busy: int = 0  # requests that are being answered
    used: float = 0.0

    def belongs_to(self, caller: Caller) -> bool:
        return (self.caller.space, self.caller.name) == (caller.space, caller.name)


class Sessions:
    """Counts sessions, and ends them with the keys that opened them."""

    def __init__(self, most: int, *, kept: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most  # of a key
        self._kept = kept  # whether there are any at all
        self._clock = clock
        self._open: dict[str | _Session, _Session] = {}  # by their ids; by themselves while they have none

    async def serve(self, handle: ASGIApp, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered, and note what becomes of the session that it opens or belongs to."""
        id = Headers(scope=scope).get(NAME)
        session = self._open.get(id) if id is not None else None
        if id is None and self._kept and _opens(scope):
            if (most := self._limit(caller)) is not None:
                await _too_many(most)(scope, receive, send)
                return
            session = _Session(caller, scope["user"], handle)
            self._open[session] = session
        if session is None or not session.belongs_to(caller):
            await handle(scope, receive, send)
            return
        await self._serve(session, id, scope, receive, send)

    async def _serve(self, session: _Session, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        opening, status, whole = id is None, 0, False

        async def noting(message: Message) -> None:
            nonlocal id, status
            if message["type"] == "http.response.start":
                status = message["status"]
                if opening and status < 400 and (id := Headers(raw=message["headers"]).get(NAME)) is not None:
                    self._open[id] = self._open.pop(session)
            await send(message)

        session.busy += 1
        try:
            await session.handle(scope, receive, noting)
            whole = True
        finally:
            session.busy -= 1
            session.used = self._clock()
            good = whole and id is not None and 0 < status < 400
            # What opens one and fails leaves none, which is the SDK's rule too.
            if not good if opening else status == 404 or (good and scope["method"] == "DELETE"):
                self._open.pop(session if id is None else id, None)

    def _limit(self, caller: Caller) -> tuple[int, str] | None:
        """Return the limit that one more session of this caller would pass, if there is one."""
        open = self._open.values()
        if caller.name != LOCAL and sum(each.belongs_to(caller) for each in open) >= self._most:
            return self._most, "a key"
        of_space = sum(each.caller.space == caller.space for each in open)
        return (of_space, "this space now") if of_space >= MOST_SESSIONS - len(open) else None

    # ---- ending them ------------------------------------------------------------------------------------------------

    async def watch(self, still_knows: Callable[[Caller], Awaitable[bool]]) -> None:
        """End what was opened with keys that are gone, within seconds, for as long as the server runs."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                await self.look(still_knows)
            except Exception as problem:  # a store that does not answer now is asked again
                log.warning("could not look after the sessions of assistants: %s", type(problem).__name__)

    async def look(self, still_knows: Callable[[Caller], Awaitable[bool]]) -> None:
        """Forget those that the SDK has ended meanwhile, and end those whose callers would not be let in any more."""
        now = self._clock()
        for key, each in list(self._open.items()):
            if not each.busy and now - each.used > IDLE_SECONDS:
                self._open.pop(key, None)
        for caller in {each.caller for each in self._open.values()}:
            if not await still_knows(caller):
                for key, each in list(self._open.items()):
                    if each.caller == caller and isinstance(key, str):
                        self._open.pop(key, None)
                        await _end(each, key)


def _opens(scope: Scope) -> bool:
    """Tell whether the SDK makes a session for a request that names none: not for the newer family."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    return Headers(scope=scope).get("mcp-protocol-version") in (None, *HANDSHAKE_PROTOCOL_VERSIONS)


def _too_many(limit: tuple[int, str]) -> Response:
    most, whose = limit
    return refusal(
        429,
        INTERNAL_ERROR,
        f"at most {most} open sessions of {whose}; end one (DELETE), or wait: idle ones end after half an hour",
        {"code": "too_many_sessions", "limit": most},
        {"Retry-After": "5"},
    )


async def _end(session: _Session, id: str) -> None:
    """End a session as its owner would."""
    headers = [(NAME.encode(), id.encode())]
    scope = {"type": "http", "method": "DELETE", "path": "/mcp", "query_string": b"", "headers": headers}

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def unheard(message: Message) -> None:
        pass

    await session.handle({**scope, "user": session.user}, nothing, unheard)
