"""Operations of threads, and of conversations that begin."""

from __future__ import annotations

from typing import Any

from strongroom.dispatch.letters import Letters
from strongroom.errors import InvalidInput
from strongroom.server.operations.asked import Asked, Make, understood
from strongroom.services.threads.endings import Endings
from strongroom.services.threads.threads import AsyncThreads, entries_of, limits_of


def limited(asked: Asked) -> AsyncThreads:
    try:
        limits = limits_of(asked.besides)
    except (TypeError, AttributeError):
        raise InvalidInput("limits are numbers; nothing changed", path="besides") from None
    return AsyncThreads(asked.ctx.scope, limits=limits, types=asked.ctx.threads.types)


def append(name: str) -> Make:
    async def made(asked: Asked) -> object:
        threads = limited(asked)
        said = understood(list[tuple[str, Any, str, str | None]], asked.arguments.get("entries"))
        return await threads._append(name, asked.id, entries_of(threads, said), asked.commit_id)

    return made


def _endings(asked: Asked) -> Endings:
    threads = asked.ctx.threads
    return Endings(asked.ctx.scope, threads.limits, threads.types)


async def sweep(asked: Asked) -> None:
    """End threads that nobody has used; where the caller has an archive, that ends them and says which."""
    ttl = understood(float, asked.arguments.get("ttl_seconds"))
    if asked.besides is None:
        await asked.ctx.threads.sweep(ttl_seconds=ttl, commit_id=asked.commit_id)
    else:
        ended = asked.besides.get("ended")
        await _endings(asked).swept(ttl, None if ended is None else understood(list[str], ended), asked.commit_id)


async def expire(asked: Asked) -> object:
    return await _endings(asked).expire(asked.id, understood(int, asked.arguments.get("length")), asked.commit_id)


async def make_room(asked: Asked) -> None:
    told = asked.besides
    archived = None if told is None else understood(tuple[str | None, int], [told.get("thread_id"), told.get("length")])
    await _endings(asked).made_room(archived, asked.commit_id)


async def begin(asked: Asked) -> object:
    threads = limited(asked)
    entries = entries_of(threads, understood(list[tuple[str, Any, str, str | None]], asked.arguments.get("entries")))
    if len(entries) != 1 or entries[0].receiver is None:
        raise InvalidInput("a conversation begins with one message to somebody; nothing changed", path="entries")
    return await Letters(threads).begun(entries[0], asked.commit_id)


async def replay(asked: Asked) -> object:
    return await Letters(limited(asked)).replay(asked.id, asked.commit_id)
