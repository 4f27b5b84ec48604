"""Every operation of threads, the registry and dispatch that writes, as rows of the table of repeats."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, Dispatcher
from strongroom.services.threads.deliveries import DEAD, StoredDeadLetter
from strongroom.store import Commit, Key, Put, new_id
from tests.awaitable import Awaitable as Seen
from tests.repeats.rows import Call, Row

NAMES = {"from_id": "a", "to_id": "b"}


async def nothing(ctx: Any) -> None:
    return None


async def two_threads(ctx: Any) -> list[str]:
    for thread_id in ("first", "second"):
        await ctx.threads.append(thread_id, {"n": 1}, **NAMES)
    return ["first", "second"]


async def two_chains(ctx: Any) -> list[str]:
    """Start two conversations in which somebody was called."""
    chains = [await ctx.registry.start("console.front") for _ in range(2)]
    for id in chains:
        await ctx.registry.extend(await ctx.registry.extend(id, "back"), "store")
    return chains


async def two_letters(ctx: Any) -> list[str]:
    """Write down two messages that nobody could handle, as a worker does."""
    letters = []
    for thread_id in await two_threads(ctx):
        stored = StoredDeadLetter(thread_id, 0, "b", "ValueError: no luck", 1, 0)
        key = Key(ctx.space, DEAD, f"letter-{thread_id}")
        fields = {name: getattr(stored, name) for name in stored.__struct_fields__}
        made = ctx.store.commit(Commit(new_id(), (), (Put(key, encode(fields), {"handler": "b"}),)))
        if inspect.isawaitable(made):
            await made
        letters.append(key.id)
    return letters


async def no_other_content(ctx: Any, state: Any, commit_id: str | None) -> Any:
    pytest.skip("there is nothing more to say than what it is about")


async def no_other_target(ctx: Any, state: Any, commit_id: str | None) -> Any:
    pytest.skip("it is about all threads of the space")


def of(act: Callable[[Any, Any, str | None], Awaitable[Any]]) -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        return await act(ctx, state, commit_id)

    return call


def at(place: int, act: Callable[[Any, str, str | None], Awaitable[Any]]) -> Call:
    """Return a call about one of the things that were prepared."""

    return of(lambda ctx, state, commit_id: act(ctx, state[place], commit_id))


async def make_room(ctx: Any, state: Any, commit_id: str | None) -> Any:
    limited = ctx.threads.limited(archive=lambda thread_id, pack: None)
    threads = limited if isinstance(ctx, AsyncContext) else await limited
    return await threads.make_room(commit_id=commit_id)


def desk(ctx: Any) -> Any:
    if isinstance(ctx, AsyncContext):
        return AsyncDispatcher(ctx)
    return Seen(Dispatcher(ctx._target))


ROWS = (
    Row(
        "threads.append",
        nothing,
        of(lambda ctx, _, id: ctx.threads.append("t", {"n": 1}, **NAMES, commit_id=id)),
        of(lambda ctx, _, id: ctx.threads.append("t", {"n": 2}, **NAMES, commit_id=id)),
        of(lambda ctx, _, id: ctx.threads.append("other", {"n": 1}, **NAMES, commit_id=id)),
    ),
    Row(
        "threads.append_many",
        two_threads,
        of(lambda ctx, ids, id: ctx.threads.append_many(ids[0], [1, "two"], **NAMES, commit_id=id)),
        of(lambda ctx, ids, id: ctx.threads.append_many(ids[0], [1, "two", 3], **NAMES, commit_id=id)),
        of(lambda ctx, ids, id: ctx.threads.append_many(ids[1], [1, "two"], **NAMES, commit_id=id)),
    ),
    Row(
        "threads.delete",
        two_threads,
        at(0, lambda ctx, thread_id, id: ctx.threads.delete(thread_id, commit_id=id)),
        no_other_content,
        at(1, lambda ctx, thread_id, id: ctx.threads.delete(thread_id, commit_id=id)),
    ),
    Row(
        "threads.erase",
        two_threads,
        at(0, lambda ctx, thread_id, id: ctx.threads.erase(thread_id, start=0, commit_id=id)),
        at(0, lambda ctx, thread_id, id: ctx.threads.erase(thread_id, stop=1, commit_id=id)),
        at(1, lambda ctx, thread_id, id: ctx.threads.erase(thread_id, start=0, commit_id=id)),
    ),
    Row(
        "threads.sweep",
        two_threads,
        of(lambda ctx, _, id: ctx.threads.sweep(ttl_seconds=0, commit_id=id)),
        of(lambda ctx, _, id: ctx.threads.sweep(ttl_seconds=3600, commit_id=id)),
        no_other_target,
    ),
    Row("threads.make_room", two_threads, make_room, no_other_content, no_other_target),
    Row(
        "registry.root",
        nothing,
        of(lambda ctx, _, id: ctx.registry.root("ana", commit_id=id)),
        no_other_content,
        of(lambda ctx, _, id: ctx.registry.root("bob", commit_id=id)),
    ),
    Row(
        "registry.start",
        nothing,
        of(lambda ctx, _, id: ctx.registry.start("console.front", commit_id=id)),
        of(lambda ctx, _, id: ctx.registry.start("console.back", commit_id=id)),
        of(lambda ctx, _, id: ctx.registry.start("console.front", id="named", commit_id=id)),
    ),
    Row(
        "registry.get_or_create",
        two_chains,
        of(lambda ctx, ids, id: ctx.registry.get_or_create("console.router", root=ids[0], commit_id=id)),
        of(lambda ctx, ids, id: ctx.registry.get_or_create("console.other", root=ids[0], commit_id=id)),
        of(lambda ctx, ids, id: ctx.registry.get_or_create("console.router", root=ids[1], commit_id=id)),
    ),
    Row(
        "registry.extend",
        two_chains,
        of(lambda ctx, ids, id: ctx.registry.extend(ids[0], "next", commit_id=id)),
        of(lambda ctx, ids, id: ctx.registry.extend(ids[0], "other", commit_id=id)),
        of(lambda ctx, ids, id: ctx.registry.extend(ids[1], "next", commit_id=id)),
    ),
    Row(
        "registry.cleanup",
        two_chains,
        at(0, lambda ctx, chain, id: ctx.registry.cleanup(chain, commit_id=id)),
        no_other_content,
        at(1, lambda ctx, chain, id: ctx.registry.cleanup(chain, commit_id=id)),
    ),
    Row(
        "dispatcher.send",
        nothing,
        of(lambda ctx, _, id: desk(ctx).send(None, {"n": 1}, **NAMES, commit_id=id)),
        of(lambda ctx, _, id: desk(ctx).send(None, {"n": 2}, **NAMES, commit_id=id)),
        of(lambda ctx, _, id: desk(ctx).send("named", {"n": 1}, **NAMES, commit_id=id)),
    ),
    Row(
        "dispatcher.replay",
        two_letters,
        at(0, lambda ctx, letter, id: desk(ctx).replay(letter, commit_id=id)),
        no_other_content,
        at(1, lambda ctx, letter, id: desk(ctx).replay(letter, commit_id=id)),
    ),
)
