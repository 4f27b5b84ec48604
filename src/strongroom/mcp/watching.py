"""Telling clients that a resource changed, whichever process changed it: the store's own watch is what is listened to.

In 2026-07-28 a client opens a stream (`subscriptions/listen`) and is told on it. In 2025-11-25 it subscribes to one
address after the other and is told between its other answers; such a subscription ends with the server, after an hour,
or when the client takes it back. Nothing is replayed: who was told, or was away, reads again.
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
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, event_to_notification

from strongroom.errors import StrongroomError
from strongroom.mcp.principals import Principal
from strongroom.mcp.uris import Address, path_of
from strongroom.services.files.paths import HISTORY, file_path
from strongroom.services.memories.keys import log_key
from strongroom.services.sessions.state import CUT, MESSAGE
from strongroom.store import Key, Range

MOST_ADDRESSES = 64  # in one subscription
MOST_SUBSCRIPTIONS = 1_024  # in one process
WAIT_SECONDS = 5.0
LEGACY_SECONDS = 3_600.0

Changes = Callable[[Principal, str], AsyncIterator[None]]


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
        addresses = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        _check_number(len(addresses), self._open)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}

        async def tell(uri: str) -> None:
            notice = event_to_notification(ResourceUpdated(uri=uri), meta)
            await context.session.send_notification(notice, related_request_id=context.request_id)

        # Lists of tools and prompts never change; what is honoured is said first.
        honoured = types.SubscriptionFilter(resource_subscriptions=addresses or None)
        told = types.SubscriptionsAcknowledgedNotification(
            params=types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
        )
        acknowledged = anyio.Event()
        self._open += 1
        try:
            async with anyio.create_task_group() as watches:
                for uri in addresses:
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
        connection = connection_of(context)
        self.unsubscribe(context, uri)
        _check_number(1 + sum(owner == connection for owner, _ in self._tasks), len(self._tasks))
        session = context.session
        changes = _until_gone(self._changes, who, uri)
        await anext(changes, None)

        async def watch() -> None:
            try:
                async with asyncio.timeout(LEGACY_SECONDS):
                    async for _ in changes:
                        await session.send_resource_updated(uri)
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
    """Yield changes; end, rather than fail, when what is watched is gone or the store is closed."""
    try:
        async for _ in changes(who, uri):
            yield
    except StrongroomError:
        return


def _check_number(addresses: int, subscriptions: int) -> None:
    if addresses > MOST_ADDRESSES:
        raise MCPError(types.INVALID_PARAMS, f"at most {MOST_ADDRESSES} addresses may be watched by one client")
    if subscriptions >= MOST_SUBSCRIPTIONS:
        raise MCPError(types.INTERNAL_ERROR, "too many subscriptions; try again later")
