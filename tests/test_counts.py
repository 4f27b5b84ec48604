"""How many: `limit` of a page and `k` of a search follow one rule, and every door refuses in the same words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Meta

import strongroom
from strongroom.arguments import MOST
from strongroom.dispatch import AsyncDispatcher
from strongroom.errors import InvalidInput
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.threads import AsyncThreads

SERVICES = [
    AsyncDispatcher, AsyncFiles, AsyncMemories, strongroom.AsyncRun, AsyncRuns, strongroom.AsyncSession, AsyncSessions,
    strongroom.AsyncThread, AsyncThreads,
]  # fmt: skip
LATER = datetime(2100, 1, 1, tzinfo=UTC)
CALLS: dict[str, Callable[[Any, Any, Any, int], Any]] = {
    "runs.list limit": lambda ctx, run, session, n: ctx.runs.list(limit=n),
    "run.events limit": lambda ctx, run, session, n: run.events(limit=n),
    "run.episodes limit": lambda ctx, run, session, n: run.episodes(limit=n),
    "sessions.list limit": lambda ctx, run, session, n: ctx.sessions.list(limit=n),
    "sessions.search k": lambda ctx, run, session, n: ctx.sessions.search("hello", k=n),
    "session.page limit": lambda ctx, run, session, n: session.page(limit=n),
    "session.load k": lambda ctx, run, session, n: session.load(k=n),
    "session.search k": lambda ctx, run, session, n: session.search("hello", k=n),
    "memories.list limit": lambda ctx, run, session, n: ctx.memories.list(limit=n),
    "memories.at limit": lambda ctx, run, session, n: ctx.memories.at(LATER, limit=n),
    "memories.search k": lambda ctx, run, session, n: ctx.memories.search("hello", k=n),
    "memories.pending limit": lambda ctx, run, session, n: ctx.memories.pending(limit=n),
    "memories.would_revoke limit": lambda ctx, run, session, n: ctx.memories.would_revoke(source_ref="a", limit=n),
    "threads.list limit": lambda ctx, run, session, n: ctx.threads.list(limit=n),
    "files.list limit": lambda ctx, run, session, n: ctx.files.list(limit=n),
    "files.history limit": lambda ctx, run, session, n: ctx.files.history("/a.md", limit=n),
    "files.search k": lambda ctx, run, session, n: ctx.files.search("hello", k=n),
}
WRONG = [0, -1, MOST + 1, 2**70]


async def world(ctx: Any) -> tuple[Any, Any]:
    """Make something for every call to find."""
    run, session = await ctx.runs.create(objective="o", run_id="r"), await ctx.sessions.open("s")
    await run.milestone("begun")
    await session.append({"role": "user", "content": "hello"})
    await ctx.memories.add("hello there", source_refs=["a"])
    await ctx.memories.add("hello again", proposer="agent-7")
    await ctx.threads.append("t", {"n": 1}, from_id="a")
    await ctx.files.write("/a.md", "hello")
    return run, session


@pytest.mark.parametrize("call", CALLS)
def test_python_refuses_none_and_more_than_there_could_be(call: str) -> None:
    with strongroom.open("memory://") as ctx:
        run, session = ctx.runs.create(objective="o"), ctx.sessions.open("s")
        for wrong in WRONG:
            with pytest.raises(InvalidInput) as refused:
                CALLS[call](ctx, run, session, wrong)
            either = " or None" if call == "session.load k" else ""
            name = call.split()[1]
            assert str(refused.value) == f"{name} must be a whole number from 1 to 1,000,000,000{either}, not {wrong}"


async def test_every_store_gives_what_there_is_to_whoever_asks_for_the_most(ctx: Any) -> None:
    run, session = await world(ctx)
    found = {call: len(await ask(ctx, run, session, MOST)) for call, ask in CALLS.items()}
    assert found == dict.fromkeys(CALLS, 1) | {"run.events limit": 2}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__name__)
def test_no_count_of_a_service_is_without_the_rule(service: type) -> None:
    for name, method in inspect.getmembers(service, inspect.isfunction):
        if name.startswith("_"):
            continue
        hints = get_type_hints(method, include_extras=True)
        for count in {"limit", "k"} & hints.keys():
            said = [one for part in (hints[count], *get_args(hints[count])) for one in get_args(part)]
            assert [one.ge for one in said if isinstance(one, Meta)] == [1], name


@pytest.mark.parametrize("method", ["learn", "consolidate"])
def test_what_a_model_is_shown_at_a_time_is_refused_in_the_same_words(method: str) -> None:
    with strongroom.open("memory://") as ctx:
        given: Any = {"session": ctx.sessions.open("s")} if method == "learn" else {}
        for wrong in (0, 201):
            with pytest.raises(InvalidInput) as refused:
                getattr(ctx.memories, method)(**given, model=lambda messages: "", limit=wrong)
            told = f"limit must be a whole number from 1 to 200, not {wrong}; nothing changed"
            assert str(refused.value) == told
