"""Telling clients that a resource changed, whichever process changed it: the store's own watch is what is listened to.

In 2026-07-28 a client opens a stream (`subscriptions/listen`) and is told on it. In 2025-11-25 it subscribes to one
address after the other and is told between its other answers; such a subscription ends with the server, after an hour,
or when the client takes it back. On stdio, where a connection is a process, it is told of the list of resources once it
has asked for it. Nothing is replayed: who was told, or was away, reads again.

A list is looked at, once a second, at its newest end: what is new is always there. That something old was erased is
told only if it was among the newest. Rejected: a stream that every new run and session appends to, as all writers would
meet at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    event_to_notification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from strongroom.errors import REFUSING, Closed, InvalidInput, NotFound, StrongroomError
from strongroom.mcp.principals import Principal
from strongroom.mcp.uris import Address, path_of
from strongroom.services.files.paths import FILE, HISTORY, file_path
from strongroom.services.memories.keys import log_key
from strongroom.services.runs.state import KIND as RUN
from strongroom.services.sessions.state import CUT, MESSAGE, SESSION
from strongroom.store import Key, Range, Scan

MOST_ADDRESSES = 64  # in one subscription
MOST_SUBSCRIPTIONS = 1_024  # in one process
WAIT_SECONDS = 5.0
LOOK_SECONDS = 1.0
NEWEST = 8  # of each kind that a look at a list compares
LEGACY_SECONDS = 3_600.0

Changes = Callable[[Principal, str], AsyncIterator[None]]
LIST = ""  # stands for the list of resources where an address stands for one of them
LISTED = (RUN, SESSION)  # what that list leads through, beside what never changes


# ---- what changes ---------------------------------------------------------------------------------------------------
# Each of these yields once as soon as it watches, and then after every change.


async def run_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever something happened to a run: every change of it is in its ledger."""
    run = await who.ctx.runs.get(address.parts[0])
    head = await run.head()
    yield
    async for _ in run.follow(after=head.length):
        yield


async def session_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever messages came to a conversation, or were hidden in it."""
    session = await who.ctx.sessions.get(address.parts[0])
    scope = who.ctx.scope
    async for _ in _longer(who, scope.key(MESSAGE, session.id), scope.key(CUT, session.id)):
        yield


async def memory_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever a memory of the space was proposed, decided on or revoked."""
    async for _ in _longer(who, log_key(who.ctx.space)):
        yield


async def file_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever something happened at a path."""
    async for _ in _longer(who, who.ctx.scope.key(HISTORY, file_path(path_of(address)))):
        yield


async def runs_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever there is another run."""
    async for _ in newest_changes(who, RUN):
        yield


async def sessions_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever there is another conversation."""
    async for _ in newest_changes(who, SESSION):
        yield


async def files_changes(who: Principal, address: Address) -> AsyncIterator[None]:
    """Yield whenever there is another file."""
    async for _ in newest_changes(who, FILE):
        yield


async def newest_changes(who: Principal, *kinds: str) -> AsyncIterator[None]:
    """Yield whenever the newest of these kinds are others than before."""
    scope = who.ctx.scope
    questions = [Scan(scope.space, kind, limit=NEWEST, reverse=True) for kind in kinds]
    seen: list[list[str]] | None = None
    while True:
        found = [[document.key.id for document in page.documents] for page in await scope.get_all(questions)]
        if found != seen:
            seen = found
            yield
        await asyncio.sleep(LOOK_SECONDS)


async def _longer(who: Principal, *streams: Key) -> AsyncIterator[None]:
    """Yield whenever one of these streams has grown. The first of them is the one that is waited for."""
    scope = who.ctx.scope
    store: Any = scope.store
    questions = [Range(stream, limit=0) for stream in streams]
    seen = [part.length for part in await scope.get_all(questions)]
    yield
    while True:
        await store.wait(streams[0], seen[0], WAIT_SECONDS)
        found = [part.length for part in await scope.get_all(questions)]
        if found != seen:
            seen = found
            yield


# ---- 2026-07-28: a stream of notices --------------------------------------------------------------------------------


class Listeners:
    """Serves `subscriptions/listen`: one call is one stream, until its client goes."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._open = 0

    async def listen(
        self,
        context: ServerRequestContext[Any, Any],
        who: Principal,
        params: types.SubscriptionsListenRequestParams,
    ) -> types.SubscriptionsListenResult:
        wanted = params.notifications
        addresses = list(dict.fromkeys(wanted.resource_subscriptions or ()))
        _check_number(len(addresses), self._open)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}

        async def tell(uri: str) -> None:
            event: ServerEvent = ResourcesListChanged() if uri == LIST else ResourceUpdated(uri=uri)
            notice = event_to_notification(event, meta)
            await context.session.send_notification(notice, related_request_id=context.request_id)

        # Lists of tools and prompts never change; what is honoured is said first.
        honoured = types.SubscriptionFilter(
            resource_subscriptions=addresses or None, resources_list_changed=wanted.resources_list_changed or None
        )
        told = types.SubscriptionsAcknowledgedNotification(
            params=types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
        )
        acknowledged = anyio.Event()
        self._open += 1
        try:
            async with anyio.create_task_group() as watches:
                for uri in [*addresses, *([LIST] if wanted.resources_list_changed else [])]:
                    await watches.start(self._watch, who, uri, tell, acknowledged)
                await context.session.send_notification(told, related_request_id=context.request_id)
                acknowledged.set()
                await anyio.sleep_forever()
        finally:
            self._open -= 1
        return types.SubscriptionsListenResult(_meta=meta)

    async def _watch(
        self,
        who: Principal,
        uri: str,
        tell: Callable[[str], Awaitable[None]],
        acknowledged: anyio.Event,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        """Watch from now on, and tell of what came since once the client knows that it is told."""
        changes = _until_gone(self._changes, who, uri)
        await anext(changes, None)
        task_status.started()
        await acknowledged.wait()
        async for _ in changes:
            await tell(uri)


# ---- 2025-11-25: one address after the other ------------------------------------------------------------------------


class Subscriptions:
    """Keeps what clients of the older family subscribed to, a connection's apart from every other's."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def subscribe(self, context: ServerRequestContext[Any, Any], who: Principal, uri: str) -> None:
        """Tell this connection of changes from now on."""
        self.unsubscribe(context, uri)
        connection = connection_of(context)
        _check_number(1 + sum(owner == connection for owner, _ in self._tasks), len(self._tasks))
        await self._begin(context, who, uri)

    async def listed(self, context: ServerRequestContext[Any, Any], who: Principal) -> None:
        """Tell this process's client of changes of the list that it is about to read."""
        older = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if older and context.request is None and (connection_of(context), LIST) not in self._tasks:
            await self._begin(context, who, LIST)

    async def _begin(self, context: ServerRequestContext[Any, Any], who: Principal, uri: str) -> None:
        connection = connection_of(context)
        session = context.session
        changes = _until_gone(self._changes, who, uri)
        await anext(changes, None)

        async def watch() -> None:
            try:
                async with asyncio.timeout(LEGACY_SECONDS):
                    async for _ in changes:
                        await (
                            session.send_resource_list_changed() if uri == LIST else session.send_resource_updated(uri)
                        )
            except TimeoutError:
                pass
            finally:
                if self._tasks.get((connection, uri)) is asyncio.current_task():
                    del self._tasks[connection, uri]

        self._tasks[connection, uri] = asyncio.create_task(watch())

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell it no more."""
        task = self._tasks.pop((connection_of(context), uri), None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """End every subscription."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def connection_of(context: ServerRequestContext[Any, Any]) -> str:
    """Return what tells a connection from others: the session of its requests, or nothing on stdio."""
    return "" if context.request is None else str(context.request.headers.get("mcp-session-id", ""))


async def _until_gone(changes: Changes, who: Principal, uri: str) -> AsyncIterator[None]:
    """Yield changes; end, rather than fail, when what is watched is gone or the store is closed.

    Whatever else fails may work later, and something may have changed meanwhile: so a watch that begins again is told,
    and one that cannot begin yet is not waited for.
    """
    begun = False
    while True:
        try:
            async for _ in changes(who, uri):
                begun = True
                yield
            return
        except (NotFound, Closed, InvalidInput):
            return
        except StrongroomError as problem:
            if getattr(problem, "reason", "") in REFUSING:
                return
        if not begun:
            begun = True
            yield
        await asyncio.sleep(WAIT_SECONDS)


def _check_number(addresses: int, subscriptions: int) -> None:
    if addresses > MOST_ADDRESSES:
        raise MCPError(types.INVALID_PARAMS, f"at most {MOST_ADDRESSES} addresses may be watched by one client")
    if subscriptions >= MOST_SUBSCRIPTIONS:
        raise MCPError(types.INTERNAL_ERROR, "too many subscriptions; try again later")
