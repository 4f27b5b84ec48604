"""The table of endpoints at work: from a path to its endpoint, and from a request to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import lru_cache
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.scope import Scope as StoreScope
from strongroom.server.asking import Asking
from strongroom.server.endpoint import Call, Endpoint, Query, named, understand
from strongroom.server.wire import Answer, body, reply

MOST_CONTEXTS = 10_000
MOST_PATHS, LONGEST_PATH = 1024, 256  # that are remembered


class Served:
    """An endpoint as an application of its own: limits, the gate, what was said, and then the endpoint itself."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._query = Query(endpoint.query)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["endpoint_path"] = self._endpoint.path
        scope["strongroom.reads"] = self._endpoint.reads
        asking = Asking(scope, receive)
        endpoint, state = self._endpoint, asking.state
        settings = state.settings
        try:
            asking.allow(settings.max_pack_bytes if endpoint.large else settings.max_body_bytes)
            caller = await state.gate.admit(asking, endpoint.right)
            key = asking.headers.get("idempotency-key")
            if key is not None and endpoint.method != "GET" and not endpoint.keyed:
                raise InvalidInput("this call takes no Idempotency-Key: a commit has an id of its own; nothing changed")
            query = self._query.read(asking.query)
            content = None
            if endpoint.body is not None:
                content = understand(endpoint.body, await body(asking), "body", strict=True)
            context = _context_of(state, caller.space)
            try:
                result = await endpoint.call(Call(asking, caller, context, settings, content, query))
            except (CommitUnknown, InvalidInput) as problem:
                raise named(problem, key) from None
            answer = result if isinstance(result, Answer | Response) else reply(result, endpoint.status)
            if isinstance(answer, Answer):
                asking.hold(len(answer.body))  # until it is sent, which is up to its reader
            await answer(scope, receive, send)
        finally:
            asking.release()


class Table:
    """Finds the endpoint of a path by looking it up, where a router would try one pattern after the other.

    What it does not know (pages, paths that end in a slash, other methods) goes to the application behind it, which
    knows the same endpoints as routes.
    """

    def __init__(self, endpoints: Iterable[tuple[Endpoint, Served]], otherwise: ASGIApp) -> None:
        self._otherwise = otherwise
        self._rows: dict[tuple[str, tuple[int, ...], str], tuple[Served, list[str]]] = {}
        holes: set[tuple[int, ...]] = set()
        for endpoint, served in endpoints:
            parts = endpoint.path.split("/")
            gaps = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            holes.add(gaps)
            names = [parts[place].strip("{}") for place in gaps]
            self._rows[endpoint.method, gaps, _blank(parts, gaps)] = (served, names)
        # What is spelled out further wins: /runs/boot is not a run, /memories/batches/history not a memory's history.
        self._holes = sorted(holes, key=lambda gaps: [-gap for gap in gaps])
        self._recall = lru_cache(MOST_PATHS)(self._find)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        path = scope["path"]
        find = self._recall if len(path) <= LONGEST_PATH else self._find
        served, params = (None, None) if scope.get("root_path") else find(scope["method"], path)
        if served is None:
            return self._otherwise(scope, receive, send)
        scope["path_params"] = params
        return served(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[Served | None, dict[str, str]]:
        method = "GET" if method == "HEAD" else method
        parts = path.split("/")
        for gaps in self._holes:
            if gaps and gaps[-1] >= len(parts):
                continue
            row = self._rows.get((method, gaps, _blank(parts, gaps)))
            if row is not None and all(parts[place] for place in gaps):
                return row[0], {name: parts[place] for name, place in zip(row[1], gaps, strict=True)}
        return None, {}


def _blank(parts: list[str], gaps: tuple[int, ...]) -> str:
    if not gaps:
        return "/".join(parts)
    blanked = parts.copy()
    for place in gaps:
        blanked[place] = ""
    return "/".join(blanked)


def _context_of(state: Any, space: str) -> AsyncContext:
    """Return the context of a space, made once."""
    contexts: dict[str, AsyncContext] = state.contexts
    found = contexts.get(space)
    if found is None:
        if len(contexts) > MOST_CONTEXTS:
            contexts.clear()
        found = contexts[space] = AsyncContext(StoreScope(state.bounded, space))
    return found
