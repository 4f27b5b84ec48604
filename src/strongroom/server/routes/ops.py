"""For operators: is it alive, can it work, what does it promise, how is it doing."""

from __future__ import annotations

from typing import Any

from strongroom.bridge import Threaded
from strongroom.server.endpoint import Call, Endpoint, Nothing
from strongroom.server.keys import SPACE
from strongroom.server.wire import Answer, Refusal
from strongroom.store import Durability, Scan


async def health(_: Call[None, Nothing]) -> Any:
    return {"status": "ok", "service": "aos-context-server"}


async def ready(call: Call[None, Nothing]) -> Any:
    """Ask the store something, so that "ready" means that a request would be answered, and look at its files."""
    store = call.state.store
    try:
        await store.read([Scan(SPACE, "key", limit=1)])
        if isinstance(store, Threaded):
            await store.require_usable()
    except Exception as error:
        raise Refusal(503, "not_ready", "the store does not answer", headers={"Retry-After": "1"}) from error
    return {"status": "ready"}


async def durability(call: Call[None, Nothing]) -> Durability:
    stated: Durability = call.ctx.durability
    return stated


async def metrics(call: Call[None, Nothing]) -> Answer:
    """Tell how the whole server is doing, which is its operators' business, not that of whoever has a space on it."""
    if call.caller.space != call.settings.space:
        raise Refusal(403, "forbidden", "this is for admins of the server's own space (STRONGROOM_SPACE)")
    return Answer(call.state.metrics.text().encode(), media="text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/health",
        call=health,
        right=None,
        summary="Is the process alive?",
        group="operations",
        answer=dict[str, str],
    ),
    Endpoint(
        method="GET",
        path="/ready",
        call=ready,
        right=None,
        summary="Would a request be answered?",
        group="operations",
        answer=dict[str, str],
    ),
    Endpoint(
        method="GET",
        path="/durability",
        call=durability,
        right="read",
        summary="What does an acknowledged write survive?",
        group="operations",
        answer=Durability,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        call=metrics,
        right="admin",
        summary="Counters for Prometheus",
        group="operations",
        answer=str,
        media="text/plain",
    ),
)
