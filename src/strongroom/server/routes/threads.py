"""Threads: immutable message buffers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from strongroom.server.endpoint import Call, Endpoint, Limit, Natural, Nothing
from strongroom.server.sse import Shown, last_seen, stream
from strongroom.services.threads.payloads import unseal
from strongroom.services.threads.values import Slot, ThreadPage, ThreadStats


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
    next: int | None = None


class SliceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    start: Natural = 0
    stop: Natural | None = None
    type: str | None = None
    from_id: str | None = None


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    limit: Limit = 50


class FollowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    after: Natural | None = None


async def append(call: Call[NewSlot, Nothing]) -> SlotView:
    wanted = call.body
    slot = await call.ctx.threads.append(
        call.path["thread_id"],
        wanted.payload,
        from_id=wanted.from_id,
        to_id=wanted.to_id,
        metadata=wanted.metadata,
        commit_id=call.commit_id,
    )
    return _view(slot)


async def read(call: Call[None, SliceQuery]) -> Slots:
    thread, query = await call.ctx.threads.get(call.path["thread_id"]), call.query
    length = await thread.length()
    stop = min(query.start + 1000, length) if query.stop is None else min(query.stop, query.start + 1000)
    start = query.start
    slots = await call.fewer(max(1, stop - start), lambda count: thread.slice(start, min(stop, start + count)))
    fits = [_view(slot) for slot in slots if query.type in (None, slot.type) and query.from_id in (None, slot.from_id)]
    following = slots[-1].index + 1 if slots else stop
    return Slots(fits, length, following if slots and following < min(stop, length) else None)


async def list_threads(call: Call[None, ListQuery]) -> ThreadPage:
    query = call.query
    return await call.fewer(query.limit, lambda limit: call.ctx.threads.list(after=query.after, limit=limit))


async def stats(call: Call[None, Nothing]) -> ThreadStats:
    return await call.ctx.threads.stats()


async def delete(call: Call[None, Nothing]) -> dict[str, bool]:
    return {"ok": await call.ctx.threads.delete(call.path["thread_id"], commit_id=call.commit_id)}


async def follow(call: Call[None, FollowQuery]) -> Any:
    """Send messages as they are appended. The id of each is its index."""
    after = last_seen(call, call.query.after)
    slots = call.ctx.threads.follow(call.path["thread_id"], after=-1 if after is None else after)

    async def shown() -> Shown:
        async for slot in slots:
            yield slot.index, slot.type, _view(slot)

    return stream(call, shown())


def _view(slot: Slot) -> SlotView:
    payload = None if slot.record.body is None else unseal(slot.record.body).payload
    return SlotView(slot.thread_id, slot.index, slot.type, slot.from_id, slot.to_id, slot.at, payload)


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="threads", **more)


ONE = "/threads/{thread_id}"
ENDPOINTS = (
    _endpoint("GET", "/threads", list_threads, "read", "List threads", query=ListQuery, answer=ThreadPage),
    _endpoint("GET", "/threads/stats", stats, "read", "Figures over all threads", answer=ThreadStats),
    _endpoint("POST", f"{ONE}/slots", append, "write", "Append a message", body=NewSlot, answer=SlotView),
    _endpoint("GET", f"{ONE}/slots", read, "read", "Read messages", query=SliceQuery, answer=Slots),
    _endpoint("DELETE", ONE, delete, "write", "Delete a thread", answer=dict[str, bool]),
    _endpoint(
        "GET", f"{ONE}/follow", follow, "read", "Messages as they come", query=FollowQuery, media="text/event-stream"
    ),
)  # fmt: skip
