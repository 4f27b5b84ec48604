"""A program with functions, as a user would write one: what worker processes import."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.dispatch import AsyncDispatcher, Dispatcher, Retry, respond, send

dispatcher = AsyncDispatcher(lease_seconds=1.5, poll_seconds=0.02, max_concurrent=8)


class Number(Struct, frozen=True):
    n: int


@dispatcher.handler("step", accepts=Number)
async def step(payload: Number, call: Any) -> Any:
    """Answer the caller and leave a second effect in another thread, in one go."""
    return [respond(payload), send("log", payload)]


@dispatcher.handler("log", accepts=Number)
def log(payload: Number, call: Any) -> None:
    """Keep nothing: that the message is there is the effect."""


heavy = Dispatcher(poll_seconds=0.01)


@heavy.handler("triangle", accepts=Number, cpu_bound=True)
def triangle(payload: Number, call: Any) -> Any:
    """Work for the processor, on what the thread holds."""
    assert next(slot.index for slot in call.thread.sent_by("user")) == 0
    return Number(sum(range(payload.n + 1)))


@heavy.handler("fatal", cpu_bound=True)
def fatal(payload: Any, call: Any) -> Any:
    """Take the whole process down."""
    import os

    os._exit(1)


deadly = AsyncDispatcher(lease_seconds=0.5, poll_seconds=0.02)


@deadly.handler("deadly", retry=Retry(takeovers=2))
async def dies(payload: Any, call: Any) -> Any:
    """Take the worker itself down, at one message."""
    import os

    if payload == "poison":
        await asyncio.sleep(0.05)
        os._exit(9)
    return payload


@deadly.handler("slow", retry=Retry(takeovers=2))
async def slow(payload: Any, call: Any) -> Any:
    """Take longer than the other one takes to kill."""
    await asyncio.sleep(0.3)
    return payload


def spin(rounds: int) -> int:
    """Keep a processor busy."""
    total = 0
    for n in range(rounds):
        total += n * n % 7
    return total


@heavy.handler("spin", cpu_bound=True)
def spinning(payload: int, call: Any) -> int:
    return spin(payload)


def first(payload: list[Any], call: Any) -> Any:
    """Slip, as people do, where there is none."""
    return next(iter(payload))


def shown(payload: Any, call: Any) -> str:
    """Return what others can see of this process."""
    return "".join(Path(f"/proc/self/{name}").read_bytes().decode(errors="replace") for name in ("cmdline", "environ"))


class Two(Exception):
    """What can be pickled, and not be read back."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def clumsy(payload: str, call: Any) -> Any:
    """Fail, or answer, with an object that no other process can have."""
    problem = Two("no", "luck")
    if payload == "raise":
        raise problem
    return send(problem, "x")  # type: ignore[arg-type]
