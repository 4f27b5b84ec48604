"""Threads: immutable message buffers."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from strongroom.dispatch.flow import MOST, Flow
from strongroom.dispatch.flow import flow as read_flow
from strongroom.dispatch.mail import Mail
from strongroom.dispatch.queues import MOST_WAITING, Queues, waiting
from strongroom.errors import InvalidInput, StrongroomError
from strongroom.server.request import Limit, Natural, Request
from strongroom.server.router import Endpoints
from strongroom.server.sse import Shown, Stream, last_seen
from strongroom.services.threads.payloads import unseal
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import ErasedSlots, Slot, ThreadInfo, ThreadStats
from strongroom.values import place_of

endpoint = Endpoints("threads")


class NewSlot(Struct, frozen=True, forbid_unknown_fields=True):
    payload: Any
    from_id: str
    to_id: str = ""
    metadata: dict[str, Any] = {}


class SlotView(Struct, frozen=True):
    thread_id: str
    index: int
    type: str
    from_id: str
    to_id: str
    at: datetime
    payload: Any


class Slots(Struct, frozen=True):
    slots: list[SlotView]
    length: int
    next: str | None = None


class SliceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Slots from index `start` on and before `stop`; `after` goes on with what a page called `next`."""

    start: Natural | None = None
    after: str | None = None
    limit: Limit = 1000
    stop: Natural | None = None
    type: str | None = None
    from_id: str | None = None


class Erasing(Struct, frozen=True, forbid_unknown_fields=True):
    """`start` <= index < `stop`, or all that were appended `before` a time; `start` 0 alone is the whole thread."""

    start: Natural | None = None
    stop: Natural | None = None
    before: datetime | None = None


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    limit: Limit = 50


class FollowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural | None = None


@endpoint("POST /threads/{thread_id}/slots", "write", "Append a message")
async def append(request: Request[NewSlot, None]) -> SlotView:
    wanted = request.content
    slot = await request.ctx.threads.append(
        request.path_params["thread_id"],
        wanted.payload,
        from_id=wanted.from_id,
        to_id=wanted.to_id,
        metadata=wanted.metadata,
        commit_id=request.commit_id,
    )
    return _view(slot)


@endpoint("GET /threads/{thread_id}/slots", "read", "Read messages")
async def read(request: Request[None, SliceQuery]) -> Slots:
    thread, query = await request.ctx.threads.get(request.path_params["thread_id"]), request.query
    if None not in (query.start, query.after):
        raise InvalidInput("say start, an index, or after, what a page called `next`, not both")
    there = await thread.indexes()
    start = max(place_of(query.after) if query.start is None else query.start, there.start)
    end = there.stop if query.stop is None else min(query.stop, there.stop)
    slots = await request.fewer(query.limit, lambda count: thread.slice(start, min(end, start + count)))
    fits = [_view(slot) for slot in slots if query.type in (None, slot.type) and query.from_id in (None, slot.from_id)]
    following = slots[-1].index + 1 if slots else end
    return Slots(fits, len(there), str(following) if following < end else None)


class ThreadPage(Struct, frozen=True):
    """Some threads, the cursor of the next page (None at the end), and the ids of those that cannot be read."""

    threads: tuple[ThreadInfo, ...]
    next: str | None
    damaged: tuple[str, ...] = ()


@endpoint("GET /threads", "read", "List threads")
async def list_threads(request: Request[None, ListQuery]) -> ThreadPage:
    query, threads = request.query, request.ctx.threads
    found = await request.fewer(query.limit, lambda limit: threads.list(after=query.after, limit=limit))
    return ThreadPage(found, found.next, found.damaged)


@endpoint("GET /threads/stats", "read", "Figures over all threads")
async def stats(request: Request[None, None]) -> ThreadStats:
    return await request.ctx.threads.stats()


@endpoint("POST /threads/{thread_id}/erase", "admin", "Leave nothing of messages")
async def erase(request: Request[Erasing, None]) -> ErasedSlots:
    wanted, threads = request.content, request.ctx.threads
    return await threads.erase(
        request.path_params["thread_id"],
        start=wanted.start,
        stop=wanted.stop,
        before=wanted.before,
        commit_id=request.commit_id,
    )


@endpoint("DELETE /threads/{thread_id}", "write", "Delete a thread")
async def delete(request: Request[None, None]) -> dict[str, bool]:
    return {"ok": await request.ctx.threads.delete(request.path_params["thread_id"], commit_id=request.commit_id)}


# ---- workers --------------------------------------------------------------------------------------------------------


class Letter(Struct, frozen=True):
    """A message that nobody could handle. `payload` is None if the message is gone."""

    id: str
    thread_id: str
    index: int
    handler: str
    error: str
    attempts: int
    at: datetime
    payload: Any


class Letters(Struct, frozen=True):
    letters: list[Letter]
    next: str | None


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    handler: str | None = None
    after: str | None = None
    limit: Limit = 50


@endpoint("GET /threads/dead", "read", "Messages that nobody could handle")
async def dead(request: Request[None, DeadQuery]) -> Letters:
    query, threads = request.query, request.ctx.threads

    async def page(limit: int) -> Letters:
        found = await Mail(threads).dead(handler=query.handler, after=query.after, limit=limit)
        letters = [
            Letter(
                each.id, each.thread_id, each.index, each.handler, each.error, each.attempts, each.at,
                await _payload(threads, each.thread_id, each.index),
            )
            for each in found
        ]  # fmt: skip
        return Letters(letters, found.next)

    return await request.fewer(query.limit, page)


@endpoint("POST /threads/dead/{letter_id}/retry", "write", "Deliver a dead letter again")
async def retry(request: Request[None, None]) -> SlotView:
    return _view(await Mail(request.ctx.threads).replay(request.path_params["letter_id"], request.commit_id))


@endpoint("GET /threads/queues", "read", "What waits for whom, and who is at it")
async def queues(request: Request[None, None]) -> Queues:
    return await request.fewer(MOST_WAITING, partial(waiting, request.ctx.scope))


@endpoint("GET /threads/flow", "read", "What went through the newest threads in the last hour")
async def flow(request: Request[None, None]) -> Flow:
    return await request.fewer(MOST, partial(read_flow, request.ctx.scope))


async def _payload(threads: AsyncThreads, thread_id: str, index: int) -> Any:
    try:
        return _view(await threads.thread(thread_id)[index]).payload
    except StrongroomError:
        return None


@endpoint("GET /threads/{thread_id}/follow", "read", "Messages as they come", media="text/event-stream")
async def follow(request: Request[None, FollowQuery]) -> Stream:
    """Send messages as they are appended. The id of each is its index."""
    after = last_seen(request, request.query.after)
    slots = request.ctx.threads.follow(request.path_params["thread_id"], after=-1 if after is None else after)

    async def shown() -> Shown:
        async for slot in slots:
            yield slot.index, slot.type, _view(slot)

    return Stream(request, shown())


def _view(slot: Slot) -> SlotView:
    payload = None if slot.record.body is None else unseal(slot.record.body).payload
    return SlotView(slot.thread_id, slot.index, slot.type, slot.from_id, slot.to_id, slot.at, payload)
