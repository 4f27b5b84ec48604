"""Does a cost grow with what stands beside it? One session among many others, one tenant among many.

A file for each size, or the small would not be small. The others have a message each, the one that is measured as much
as its window takes.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.growing import Late, Rows, filled, told
from benchmarks.measuring import pick
from benchmarks.workload import BUDGET, message, messages
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.scope import Scope

SESSIONS = pick((1, 10, 100, 1_000, 10_000, 100_000), (1, 100, 1_000))
SPACES = pick((1, 10, 100, 1_000, 10_000), (1, 10, 100))
SESSIONS_SECONDS, SPACES_SECONDS = pick((60.0, 20.0), (1.5, 1.5))  # to fill them
TOGETHER = 100  # appends of one commit
OWN = 200  # messages of the session that is measured


def measure() -> Rows:
    with tempfile.TemporaryDirectory() as name:
        yield from sessions("neighbours", Path(name), SESSIONS, SESSIONS_SECONDS)
    with tempfile.TemporaryDirectory() as name:
        yield from spaces(Path(name))


def sessions(question: str, folder: Path, sizes: tuple[int, ...], seconds: float) -> Rows:
    """Open a session, append to it and read its window, among so many."""

    def fill(size: int, late: Late) -> bool:
        with strongroom.open(folder / f"{size}.db", durability="relaxed") as ctx:
            for start in range(0, size, TOGETHER):
                with ctx.turn() as turn:
                    for number in range(start, min(start + TOGETHER, size)):
                        turn.append(ctx.sessions.open(f"s{number}"), [message(number)])
                if late():
                    return False
            ctx.sessions.open(f"s{size // 2}").append(messages(0, OWN))
        return True

    with ExitStack() as stack:
        opened = {
            size: stack.enter_context(strongroom.open(folder / f"{size}.db")) for size in filled(sizes, seconds, fill)
        }
        ours = {size: ctx.sessions.open(f"s{size // 2}") for size, ctx in opened.items()}
        opening = {size: partial(ctx.sessions.open, f"s{size // 2}") for size, ctx in opened.items()}
        yield from told(question, "open a session among many", opening)
        appending = {size: partial(one.append, [message(1)]) for size, one in ours.items()}
        yield from told(question, "append among many sessions", appending)
        windows = {size: partial(one.window, max_tokens=BUDGET) for size, one in ours.items()}
        yield from told(question, "window among many sessions", windows)


def spaces(folder: Path) -> Rows:
    """Append to a tenant's session, among so many tenants of one open store, as a server has them."""

    def fill(size: int, late: Late) -> bool:
        with strongroom.open(folder / f"{size}.db", durability="relaxed") as ctx:
            for number in range(size):
                tenant(ctx, number).sessions.open("s").append([message(number)])
                if late():
                    return False
        return True

    with ExitStack() as stack:
        opened = {
            size: stack.enter_context(strongroom.open(folder / f"{size}.db"))
            for size in filled(SPACES, SPACES_SECONDS, fill)
        }
        ours = {size: tenant(ctx, size // 2).sessions.open("s") for size, ctx in opened.items()}
        works = {size: partial(one.append, [message(1)]) for size, one in ours.items()}
        yield from told("neighbours", "append among many spaces", works)


def tenant(ctx: Any, number: int) -> Context:
    """Return another space of an open store."""
    return Context(AsyncContext(Scope(Inline(ctx.store), f"tenant-{number}")))
