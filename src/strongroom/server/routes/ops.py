"""For operators: is it alive, can it work, what does it promise, how is it doing."""

from __future__ import annotations

from strongroom.bridge import Threaded
from strongroom.server.keys import SPACE
from strongroom.server.request import Request
from strongroom.server.responses import Refusal, Whole
from strongroom.server.router import Endpoints
from strongroom.store import Durability, Scan

endpoint = Endpoints("operations")


@endpoint("GET /health", None, "Is the process alive?")
async def health(request: Request[None, None]) -> dict[str, str]:
    return {"status": "ok", "service": "strongroom"}


@endpoint("GET /ready", None, "Would a request be answered?")
async def ready(request: Request[None, None]) -> dict[str, str]:
    """Ask the store something, so that "ready" means that a request would be answered, and look at its files."""
    store = request.app.state.store
    try:
        await store.read([Scan(SPACE, "key", limit=1)])
        if isinstance(store, Threaded):
            await store.require_usable()
    except Exception as error:
        raise Refusal(503, "not_ready", "the store does not answer", headers={"Retry-After": "1"}) from error
    return {"status": "ready"}


@endpoint("GET /durability", "read", "What does an acknowledged write survive?")
async def durability(request: Request[None, None]) -> Durability:
    stated: Durability = request.ctx.durability
    return stated


@endpoint("GET /metrics", "admin", "Counters for Prometheus", answer=str, media="text/plain")
async def metrics(request: Request[None, None]) -> Whole:
    """Tell how the whole server is doing, which is its operators' business, not that of whoever has a space on it."""
    if request.caller.space != request.settings.space:
        raise Refusal(403, "forbidden", "this is for admins of the server's own space (STRONGROOM_SPACE)")
    return Whole(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
