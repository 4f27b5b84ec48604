"""The router: endpoints as data, and each of them as a route of Starlette's.

The application, its OpenAPI description, and the test of every route against every role are all made from the same
table, so none of them can forget one. A file of `routes/` declares its endpoints above their functions; what goes in
and what comes out is read from the function's own signature.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strongroom.context import AsyncContext
from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.scope import Scope as StoreScope
from strongroom.server.ids import marked_ids, named
from strongroom.server.keys import Right
from strongroom.server.meaning import Meaning
from strongroom.server.paths import PathRoute
from strongroom.server.request import Body, Nothing, Query, Request, json_body, understand
from strongroom.server.responses import JSON, Whole, reply
from strongroom.server.versions import matched

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

MOST_CONTEXTS = 10_000
ANYBODYS_BODY_BYTES = 4 * 1024  # of whoever needs no key: many of them must not use up what bodies may take


class Endpoint(Struct, frozen=True, kw_only=True):
    """A row of the table. `body` and `query` are msgspec types; `answer` describes what comes back, for the docs."""

    method: str
    path: str
    call: Callable[[Request[Any, Any]], Awaitable[Any]]
    right: Right | None  # None: anybody may, even without a key
    summary: str
    group: str
    body: Any = None
    query: Any = Nothing
    answer: Any = None
    media: str = JSON
    accepts: str = JSON  # anything else, and the endpoint reads the body itself
    writes: bool = False  # although its right alone does not say so
    large: bool = False  # whether its body may be as large as a pack; it is spooled to disk
    max_body_bytes: int = sys.maxsize  # less than the server's own limit
    keyed: bool = True  # whether it takes an Idempotency-Key: all that writes does, unless a repeat cannot be answered

    @property
    def reads(self) -> bool:
        """Whether nothing can change by it."""
        return self.method == "GET" or (self.right in (None, "read") and not self.writes)


class Endpoints(list[Endpoint]):
    """The endpoints of one group, in the order in which they are tried."""

    def __init__(self, group: str, **options: Any) -> None:
        self._group = group
        self._options = options

    def __call__(self, line: str, right: Right | None, summary: str, **more: Any) -> Callable[[F], F]:
        """Declare the endpoint of a method and a path, such as `GET /runs`, with the right that it takes."""
        method, path = line.split()

        def declare(call: F) -> F:
            hints = get_type_hints(call)
            body, query = (None if each is NoneType else each for each in get_args(hints["request"]))
            answer = hints["return"]
            types = {
                "body": body,
                "query": query or Nothing,
                "answer": None if issubclass(get_origin(answer) or answer, Response) else answer,
            }
            options = {**types, **self._options, **more}
            self.append(
                Endpoint(
                    method=method, path=path, call=call, right=right, summary=summary, group=self._group, **options
                )
            )
            return call

        return declare


class EndpointApp:
    """An endpoint as an application: bounds, the gate, what was said, and then the endpoint itself."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._query = Query(endpoint.query)
        self.path, self.reads = endpoint.path, endpoint.reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, state = self._endpoint, scope["app"].state
        limit = state.settings.max_pack_bytes if endpoint.large else state.settings.max_body_bytes
        limit = min(limit, endpoint.max_body_bytes, ANYBODYS_BODY_BYTES if endpoint.right is None else limit)
        body = Body(scope, receive, limit, spooled=endpoint.large)
        request: Request[Any, Any] = Request(scope, body)
        try:
            request.caller = await state.gate.admit(request, endpoint.right)
            body.confirm = partial(state.gate.confirm, request, request.caller)
            key = request.headers.get("idempotency-key")
            if key is not None and endpoint.method != "GET" and not endpoint.keyed:
                raise InvalidInput("this call takes no Idempotency-Key: a commit has an id of its own; nothing changed")
            request.query = self._query.read(scope["query_string"])
            content = None
            if endpoint.body is not None:
                content = understand(endpoint.body, await json_body(request), "body", strict=True)
            elif endpoint.method != "GET" and endpoint.accepts == JSON:  # what nobody reads is refused, never ignored
                understand(Nothing, await json_body(request), "body", strict=True)
            request.content = content if endpoint.reads else matched(request.headers, content)
            request.ctx = context_of(state, request.caller.space)
            try:
                with marked_ids(request.caller):
                    result = await endpoint.call(request)
            except (CommitUnknown, InvalidInput) as problem:
                raise named(problem, key) from None
            response = result if isinstance(result, Response) else reply(result)
            if isinstance(response, Whole):
                # Until it is sent, which is up to its reader. What was done is never answered as refused.
                body.hold(len(response.body), at_all_costs=not endpoint.reads)
            await response(scope, receive, send)
        finally:
            body.release()


def routes(endpoints: list[Endpoint]) -> list[PathRoute]:
    """Return the endpoints as Starlette's routes."""
    return [PathRoute(each.path, EndpointApp(each), methods=[each.method], name=each.summary) for each in endpoints]


def context_of(state: Any, space: str) -> AsyncContext:
    """Return the context of a space, made once."""
    contexts: dict[str, AsyncContext] = state.contexts
    found = contexts.get(space)
    if found is None:
        if len(contexts) > MOST_CONTEXTS:
            contexts.clear()
        meaning: Meaning | None = state.meaning
        more: dict[str, Any] = {} if meaning is None else {"embedder": meaning.embedder, "index": meaning.index}
        found = contexts[space] = AsyncContext(StoreScope(state.bounded, space), **more)
    return found
