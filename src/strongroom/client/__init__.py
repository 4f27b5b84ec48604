"""The client: `connect("http://...")` gives the same `Context` as `open("agent.db")`, over a server.

A store is two verbs, so a store behind HTTP is two requests, and everything above it (runs, sessions, threads, the
registry) is the very same code. Callbacks run here, conflicts are the same exceptions, and a commit that lost its
connection is repeated under the same id, which changes nothing if it had arrived. Only memories are proposed and
decided on the server: see `strongroom.client.memories`.
"""

from __future__ import annotations

from strongroom.arguments import checked
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.client.memories import BlockingRemoteMemories, RemoteMemories
from strongroom.client.store import AsyncHttpStore, HttpStore
from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.services.runs.runs import AsyncRuns

__all__ = ["aconnect", "connect"]


@checked
def connect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> Context:
    """Connect to a server for blocking code. `key` says who you are and which space you see.

    `retry_seconds` is how long to keep trying when the server can not be reached or is busy.
    """
    store = HttpStore(url, key=key, retry_seconds=retry_seconds)
    context = Context(_over(Scope(Inline(store), store.space)))
    context.memories = BlockingRemoteMemories(context._async.memories)
    return context


@checked
async def aconnect(url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> AsyncContext:
    """Connect to the same server for async code."""
    store = await AsyncHttpStore.open(url, key=key, retry_seconds=retry_seconds)
    return _over(Scope(store, store.space))


def _over(scope: Scope) -> AsyncContext:
    context = AsyncContext(scope)
    context.memories = RemoteMemories(scope)
    context.runs = AsyncRuns(scope, memories=context.memories)
    return context
