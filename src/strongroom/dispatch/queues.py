"""What waits for whom, and which worker is at it: read from the flags and leases that workers themselves go by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from strongroom.errors import Damaged
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DEAD, DELIVERY, MAIL, Delivery, read_delivery
from strongroom.services.threads.plans import THREAD
from strongroom.store import Document, Get, Range, Scan
from strongroom.values import moment

MOST_WAITING = 500  # threads that are looked at, those that wait longest
MOST_READ = 1_000  # messages of a thread that are looked at for the first that waits
PAGE = 100


class Queue(Struct, frozen=True):
    """What waits for one handler: how many threads, since when the oldest message, how many are tried again later.

    `oldest` is None if the message lies behind a thousand that are others'.
    """

    handler: str
    threads: int
    oldest: datetime | None
    retrying: int


class LeaseInfo(Struct, frozen=True):
    """A thread that a worker has, and until when it is nobody else's."""

    worker: str
    thread_id: str
    handlers: tuple[str, ...]
    until: datetime


class WaitingThread(Struct, frozen=True):
    """A thread with a message that its handler has yet to take; `attempts` that failed so far."""

    thread_id: str
    handler: str
    attempts: int


class Queues(Struct, frozen=True):
    """`complete` is false if more threads wait than were looked at; `dead_letters` ends at a hundred."""

    queues: list[Queue]
    leases: list[LeaseInfo]
    dead_letters: int
    complete: bool
    waiting: list[WaitingThread]


class _Waiting(Struct, frozen=True):
    handler: str
    thread_id: str


async def waiting(scope: Scope, limit: int = MOST_WAITING) -> Queues:
    """Return the queues of a space. What it costs depends on what waits, not on how many threads there are."""
    flags, dead = await scope.get_all([Scan(scope.space, MAIL, limit=limit), Scan(scope.space, DEAD, limit=100)])
    raised = [_Waiting(each.tags["receiver"], each.value.load()["thread_id"]) for each in flags.documents]
    ids = list(dict.fromkeys(each.thread_id for each in raised))
    documents = await scope.get_all([Get(scope.key(DELIVERY, thread_id)) for thread_id in ids])
    states = {thread_id: _state(document) for thread_id, document in zip(ids, documents, strict=True)}
    first: dict[str, _Waiting] = {}
    for each in raised:
        first.setdefault(each.handler, each)
    oldest = await _oldest(scope, list(first.values()), states)
    now = scope.clock()
    queues = [
        Queue(
            handler,
            sum(each.handler == handler for each in raised),
            oldest.get(handler),
            sum(each.handler == handler and _is_put_off(states[each.thread_id], handler, now) for each in raised),
        )
        for handler in first
    ]
    leases = [
        LeaseInfo(
            state.owner,
            thread_id,
            tuple(each.handler for each in raised if each.thread_id == thread_id),
            moment(state.until),
        )
        for thread_id, state in states.items()
        if state.owner is not None and state.until > now
    ]
    threads = [
        WaitingThread(each.thread_id, each.handler, _failed(states[each.thread_id], each.handler)) for each in raised
    ]
    return Queues(queues, leases, len(dead.documents), flags.next is None, threads)


def _state(document: Document | None) -> Delivery:
    try:
        return read_delivery(document)
    except Damaged:
        return Delivery()  # nobody can take that thread; what waits in others is shown


def _failed(state: Delivery, handler: str) -> int:
    failing = state.put_off.get(handler)
    return 0 if failing is None else failing.attempts


def _is_put_off(state: Delivery, handler: str, now: int) -> bool:
    failing = state.put_off.get(handler)
    return failing is not None and failing.not_before > now


async def _oldest(scope: Scope, first: Sequence[_Waiting], states: dict[str, Delivery]) -> dict[str, datetime]:
    """Return when the first message that is not handled yet came, for each handler: what is others' is passed over."""
    found: dict[str, datetime] = {}
    places = {each: states[each.thread_id].reached(each.handler) for each in first}
    for _ in range(0, MOST_READ, PAGE):
        if not places:
            break
        slices = await scope.get_all(
            [Range(scope.key(THREAD, each.thread_id), place, limit=PAGE) for each, place in places.items()]
        )
        for each, here in zip(list(places), slices, strict=True):
            came = next((record.at for record in here.records if record.receiver == each.handler), None)
            if came is not None:
                found[each.handler] = moment(came)
            if came is not None or not here.records:
                del places[each]
            else:
                places[each] = here.records[-1].index + 1
    return found
