"""What workers do to the threads they hold. A server knows no more of a worker than the lease that it says it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from strongroom.dispatch.moves import Dead, Lost, Moves, answer_of
from strongroom.errors import InvalidInput
from strongroom.operations import Operation, repeated
from strongroom.server.operations.asked import Asked, Make, understood
from strongroom.server.operations.threads import limited

MOST = 2**53
LONGEST_LEASE_SECONDS = 3600.0  # a worker that wants it for longer renews it


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


def worker(move: Callable[[Moves, _Held, str], Awaitable[object]]) -> Make:
    async def made(asked: Asked) -> object:
        told: _Held = understood(_Held, asked.arguments)
        times = (told.lease_seconds, told.delay_seconds, told.position, told.length - told.position)
        if min(times) < 0 or max(times) > MOST or not told.owner:
            raise InvalidInput("a worker has a name, and leases and places that can be; nothing changed")
        moves = Moves(limited(asked), asked.id, told.owner)
        try:
            return await move(moves, told, asked.commit_id)
        except (Lost, InvalidInput):
            # It may be this very move that has been made.
            if await repeated(asked.ctx.scope, Operation(asked.name, moves.key, asked.content, asked.commit_id)):
                return None
            raise

    return made


def _lease(told: _Held) -> float:
    return min(told.lease_seconds, LONGEST_LEASE_SECONDS)


async def take(moves: Moves, told: _Held, id: str) -> object:
    return await moves.take(_lease(told), id)


async def renew(moves: Moves, told: _Held, id: str) -> object:
    return await moves.renew(await moves.held(told.version), _lease(told), id)


async def hand_back(moves: Moves, told: _Held, id: str) -> object:
    return await moves.hand_back(await moves.held(told.version), id)


async def release(moves: Moves, told: _Held, id: str) -> object:
    return await moves.release(await moves.held(told.version), told.receivers, told.position, told.length, id)


async def put_off(moves: Moves, told: _Held, id: str) -> object:
    hold = await moves.held(told.version)
    return await moves.put_off(hold, await moves.message(hold, told.index), told.error, told.delay_seconds, id)


async def conclude(moves: Moves, told: _Held, id: str) -> object:
    hold = await moves.held(told.version)
    answers = [answer_of(each) for each in told.answers]
    return await moves.conclude(hold, await moves.message(hold, told.index), answers, told.dead, _lease(told), id)
