"""What went through the newest threads in the last hour: how many messages came a minute, who answered how soon, and
who called whom. Made of the messages themselves, so it holds whichever process the workers are.

A worker commits what it answers when it is done, so the time of an answer is when a message was handled. An answer goes
to the thread of the caller, of the message itself, or of whom the handler calls next; within these three, messages and
answers are joined in their order. A handler that answers nothing has no times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from strongroom.scope import Scope
from strongroom.services.threads.plans import INFO, THREAD
from strongroom.services.threads.registry import Link, chain_key
from strongroom.store import Get, Record, Scan, Slice, Tail
from strongroom.values import moment

MOST = 50  # threads that are looked at, and messages of each: the newest
MINUTES = 60
MINUTE = 60_000_000  # in microseconds


class HandlerFlow(Struct, frozen=True):
    """What came for one handler: in each minute, the oldest first, and within how many seconds 95 % were answered."""

    handler: str
    minutes: tuple[int, ...]
    answered: int
    p95_seconds: float | None


class ChainedThread(Struct, frozen=True):
    """A thread in its call chain. `names` are who called whom; `parent` is the thread that called."""

    thread_id: str
    names: tuple[str, ...]
    parent: str | None
    length: int
    last_at: datetime | None


class Flow(Struct, frozen=True):
    """`complete` is false if there are older threads, or more messages, than were looked at."""

    until: datetime
    minutes: tuple[int, ...]
    handlers: list[HandlerFlow]
    threads: list[ChainedThread]
    complete: bool


async def flow(scope: Scope, limit: int = MOST) -> Flow:
    """Return what went through the newest threads. What it costs does not depend on how many there are."""
    page = await scope.get(Scan(scope.space, INFO, {"state": "live"}, None, limit, reverse=True))
    ids = [document.key.id for document in page.documents]
    slices, chains = await scope.read_all(
        [Tail(scope.key(THREAD, id), limit) for id in ids], [Get(chain_key(scope.space, id)) for id in ids]
    )
    links = {
        id: msgspec.json.decode(document.value, type=Link)
        for id, document in zip(ids, chains, strict=True)
        if document is not None
    }
    threads = dict(zip(ids, slices, strict=True))
    now = scope.clock()
    records = {id: here.records for id, here in threads.items()}
    seen = page.next is None and all(_whole(here, now) for here in threads.values())
    return Flow(
        moment(now),
        _minutes((record.at for each in records.values() for record in each), now),
        handlers(records, {id: link.parent for id, link in links.items()}, now),
        [_chained(id, threads[id], links.get(id)) for id in ids],
        seen,
    )


def handlers(records: Mapping[str, Sequence[Record]], parents: Mapping[str, str | None], now: int) -> list[HandlerFlow]:
    """Return what came for each handler in the last hour, the busiest first."""
    came: defaultdict[str, list[int]] = defaultdict(list)
    took: defaultdict[str, list[int]] = defaultdict(list)
    children: defaultdict[str, list[str]] = defaultdict(list)
    for id, parent in parents.items():
        if parent is not None:
            children[parent].append(id)
    for id, here in records.items():
        family = [id, *children[id], *([parent] if (parent := parents.get(id)) is not None else [])]
        for name in {record.receiver for record in here if record.receiver}:
            asked = [record.at for record in here if record.receiver == name]
            said = sorted(record.at for each in family for record in records.get(each, ()) if record.sender == name)
            came[name] += asked
            took[name] += [answer - at for at, answer in joined(asked, said) if at > now - MINUTES * MINUTE]
    found = [HandlerFlow(name, _minutes(times, now), len(took[name]), p95(took[name])) for name, times in came.items()]
    return sorted((each for each in found if sum(each.minutes)), key=lambda each: (-sum(each.minutes), each.handler))


def joined(asked: Sequence[int], said: Sequence[int]) -> list[tuple[int, int]]:
    """Join each message to the first answer that is later than it and is not taken by one before."""
    pairs: list[tuple[int, int]] = []
    place = 0
    for at in asked:
        while place < len(said) and said[place] < at:
            place += 1
        if place == len(said):
            break
        pairs.append((at, said[place]))
        place += 1
    return pairs


def p95(took: Sequence[int]) -> float | None:
    """Return within how many seconds 95 % of the answers came."""
    return sorted(took)[math.ceil(len(took) * 0.95) - 1] / 1_000_000 if took else None


def _minutes(times: Iterable[int], now: int) -> tuple[int, ...]:
    """Count by the minute: the newest at the end, an hour in all."""
    counts = [0] * MINUTES
    for at in times:
        ago = max(0, now - at) // MINUTE
        if ago < MINUTES:
            counts[MINUTES - 1 - ago] += 1
    return tuple(counts)


def _whole(here: Slice, now: int) -> bool:
    """Tell whether what was read of a thread reaches back an hour, or to its beginning."""
    first = here.records[0] if here.records else None
    return first is None or first.index == here.first or first.at < now - MINUTES * MINUTE


def _chained(id: str, here: Slice, link: Link | None) -> ChainedThread:
    last = here.records[-1].at if here.records else None
    names, parent = ((), None) if link is None else (link.names, link.parent)
    return ChainedThread(id, names, parent, here.length, None if last is None else moment(last))
