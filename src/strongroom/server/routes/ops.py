"""For operators: is it alive, can it work, what does it promise, how is it doing."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, structs

from strongroom.bridge import Threaded
from strongroom.server.keys import SPACE
from strongroom.server.meaning import Meaning
from strongroom.server.request import Request
from strongroom.server.responses import Refusal, Whole
from strongroom.server.router import Endpoints
from strongroom.server.upkeep import Backup, Failed, LastCheck, Location, Size, Upkeep, Work
from strongroom.services.memories.values import SearchHealth
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
    meaning: Meaning | None = request.app.state.meaning
    return {"status": "ready"} | ({} if meaning is None else meaning.told())


class Stated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an acknowledged write survives, and how the search by meaning of this space is, if there is one."""

    name: Literal["durable", "relaxed", "volatile"]
    survives_process_crash: bool
    survives_power_cut: bool
    may_lose: str
    meaning: SearchHealth | None = None


@endpoint("GET /durability", "read", "What does an acknowledged write survive?")
async def durability(request: Request[None, None]) -> Stated:
    """Tell what is promised, and ask the index by meaning how far it is: a write never waits for that."""
    stated: Durability = request.ctx.durability
    meaning = None if request.app.state.meaning is None else await request.ctx.memories.health()
    return Stated(**structs.asdict(stated), meaning=meaning)


@endpoint("GET /metrics", "admin", "Counters for Prometheus", answer=str, media="text/plain")
async def metrics(request: Request[None, None]) -> Whole:
    """Tell how the whole server is doing, which is its operators' business, not that of whoever has a space on it."""
    _require_operator(request)
    return Whole(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


class Route(Struct, frozen=True):
    """How requests of one kind went. Times are in seconds; of `p50` and `p95`, the next larger bound of a histogram."""

    method: str
    route: str
    count: int
    failed: int
    p50: float
    p95: float
    longest: float


class Calls(Struct, frozen=True):
    """Since this worker started, the slowest first."""

    calls: list[Route]


class UpkeepPage(Struct, frozen=True):
    """`running` is what this worker is at, `failed` what it could not make last; `sizes` are those of the last checks,
    the oldest first."""

    durability: Durability
    check: LastCheck | None
    backups: tuple[Backup, ...]
    running: str | None
    failed: Failed | None
    sizes: tuple[Size, ...]
    place: Location


class Begun(Struct, frozen=True):
    running: str


@endpoint("GET /calls", "admin", "How long requests take")
async def calls(request: Request[None, None]) -> Calls:
    _require_operator(request)
    found = [
        Route(
            method,
            route,
            sum(figures.statuses.values()),
            sum(number for status, number in figures.statuses.items() if status >= 500),
            figures.quantile(0.5),
            figures.quantile(0.95),
            figures.longest,
        )
        for method, route, figures in request.app.state.metrics.slowest()
    ]
    return Calls(found)


@endpoint("GET /upkeep", "admin", "The last check, and the backups")
async def upkeep(request: Request[None, None]) -> UpkeepPage:
    _require_operator(request)
    kept: Upkeep = request.app.state.upkeep
    # What runs is asked before what is known: work that ends in between is told as running, with what came of it,
    # never as neither running nor done.
    running, failed = kept.running, kept.failed
    known, place = await kept.known(), await kept.place()
    return UpkeepPage(request.ctx.durability, known.check, known.backups, running, failed, known.sizes, place)


@endpoint("POST /upkeep/check", "admin", "Check the whole store, beside everything else")
async def check(request: Request[None, None]) -> Begun:
    return _begin(request, "check")


@endpoint("POST /upkeep/backup", "admin", "Write a copy of the store and check it")
async def backup(request: Request[None, None]) -> Begun:
    return _begin(request, "backup")


def _begin(request: Request[Any, Any], work: Work) -> Begun:
    _require_operator(request)
    request.app.state.upkeep.start(work)
    return Begun(work)


def _require_operator(request: Request[Any, Any]) -> None:
    if request.caller.space != request.settings.space:
        raise Refusal(403, "forbidden", "this is for admins of the server's own space (STRONGROOM_SPACE)")
