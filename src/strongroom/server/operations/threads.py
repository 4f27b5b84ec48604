"""Operations of threads, of conversations that begin, and of the workers that lease them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from strongroom.dispatch.leases import Dead, LeasedThread, LeaseLost, answer_of
from strongroom.dispatch.mail import Mail
from strongroom.errors import InvalidInput
from strongroom.operations import Operation, perform, repeated
from strongroom.server.operations.invocation import Invocation, Make, understood
from strongroom.services.threads import erasure
from strongroom.services.threads.endings import Endings
from strongroom.services.threads.threads import AsyncThreads, entries_of, limits_of

MOST = 2**53
LONGEST_LEASE_SECONDS = 3600.0  # a worker that wants it for longer renews it


def limited(op: Invocation) -> AsyncThreads:
    try:
        limits = limits_of(op.besides)
    except (TypeError, AttributeError):
        raise InvalidInput("limits are numbers; nothing changed", path="besides") from None
    return AsyncThreads(op.ctx.scope, limits=limits, types=op.ctx.threads.types)


def append(name: str) -> Make:
    async def made(op: Invocation) -> object:
        threads = limited(op)
        said = understood(list[tuple[str, Any, str, str | None]], op.arguments.get("entries"))
        made = threads._appending(name, op.id, entries_of(threads, said), op.commit_id)
        return await perform(threads.scope, *made)

    return made


def _endings(op: Invocation) -> Endings:
    threads = op.ctx.threads
    return Endings(op.ctx.scope, threads.limits, threads.types)


async def sweep(op: Invocation) -> None:
    """End threads that nobody has used; where the caller has an archive, that ends them and says which."""
    ttl = understood(float, op.arguments.get("ttl_seconds"))
    if op.besides is None:
        await op.ctx.threads.sweep(ttl_seconds=ttl, commit_id=op.commit_id)
    else:
        ended = op.besides.get("ended")
        await _endings(op).swept(ttl, None if ended is None else understood(list[str], ended), op.commit_id)


async def erase(op: Invocation) -> object:
    return await erasure.erase(op.ctx.scope, op.id, understood(erasure.Chosen, op.arguments), op.commit_id)


async def expire(op: Invocation) -> object:
    return await _endings(op).expire(op.id, understood(int, op.arguments.get("length")), op.commit_id)


async def make_room(op: Invocation) -> None:
    told = op.besides
    archived = None if told is None else understood(tuple[str | None, int], [told.get("thread_id"), told.get("length")])
    await _endings(op).made_room(archived, op.commit_id)


async def begin(op: Invocation) -> object:
    threads = limited(op)
    entries = entries_of(threads, understood(list[tuple[str, Any, str, str | None]], op.arguments.get("entries")))
    if len(entries) != 1 or entries[0].receiver is None:
        raise InvalidInput("a conversation begins with one message to somebody; nothing changed", path="entries")
    return await Mail(threads).begun(entries[0], op.commit_id)


async def replay(op: Invocation) -> object:
    return await Mail(limited(op)).replay(op.id, op.commit_id)


# ---- workers: a server knows no more of one than the lease that it says it has ---------------------------------------


class _Held(Struct, frozen=True):
    """What a worker says: who it is and which version of the delivery it knows, and then what it wants."""

    owner: str
    version: int = 0
    lease_seconds: float = 0.0
    index: int = 0
    error: str = ""
    delay_seconds: float = 0.0
    receivers: list[str] = []
    position: int = 0
    length: int = 0
    answers: list[tuple[str | None, str, Any]] = []
    dead: Dead | None = None


def worker(act: Callable[[LeasedThread, _Held, str], Awaitable[object]]) -> Make:
    async def made(op: Invocation) -> object:
        told: _Held = understood(_Held, op.arguments)
        times = (told.lease_seconds, told.delay_seconds, told.position, told.length - told.position)
        if min(times) < 0 or max(times) > MOST or not told.owner:
            raise InvalidInput("a worker has a name, and leases and places that can be; nothing changed")
        leased = LeasedThread(limited(op), op.id, told.owner)
        try:
            return await act(leased, told, op.commit_id)
        except (LeaseLost, InvalidInput):
            # It may be this very one that has been made.
            if await repeated(op.ctx.scope, Operation(op.name, leased.key, op.content, op.commit_id)):
                return None
            raise

    return made


def _lease(told: _Held) -> float:
    return min(told.lease_seconds, LONGEST_LEASE_SECONDS)


async def take(leased: LeasedThread, told: _Held, id: str) -> object:
    return await leased.take(_lease(told), id)


async def renew(leased: LeasedThread, told: _Held, id: str) -> object:
    return await leased.renew(await leased.held(told.version), _lease(told), id)


async def note(leased: LeasedThread, told: _Held, id: str) -> object:
    lease = await leased.held(told.version)
    return await leased.note(lease, await leased.message(lease, told.index), _lease(told), id)


async def hand_back(leased: LeasedThread, told: _Held, id: str) -> object:
    return await leased.hand_back(await leased.held(told.version), id)


async def release(leased: LeasedThread, told: _Held, id: str) -> object:
    return await leased.release(await leased.held(told.version), told.receivers, told.position, told.length, id)


async def put_off(leased: LeasedThread, told: _Held, id: str) -> object:
    lease = await leased.held(told.version)
    return await leased.put_off(lease, await leased.message(lease, told.index), told.error, told.delay_seconds, id)


async def conclude(leased: LeasedThread, told: _Held, id: str) -> object:
    lease = await leased.held(told.version)
    answers = [answer_of(each) for each in told.answers]
    return await leased.conclude(lease, await leased.message(lease, told.index), answers, told.dead, _lease(told), id)
