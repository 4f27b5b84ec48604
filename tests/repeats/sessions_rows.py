"""Every operation of sessions that writes, as rows of the table of repeats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strongroom.errors import NotFound
from strongroom.tokens import Custom
from tests.repeats.rows import Call, Row

Act = Callable[[Any, str | None], Awaitable[Any]]
LETTERS, HALVES = Custom(len, name="letters"), Custom(lambda text: len(text) // 2, name="halves")


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def two_sessions(ctx: Any) -> list[str]:
    """Begin two conversations of three messages, of which one is pinned, and cut off another one."""
    names = ["one", "two"]
    for name in names:
        session = await ctx.sessions.open(name)
        await session.append([{**said(text), "id": text} for text in "abcd"])
        await session.pin("b")
        await session.truncate_from("d")
    return names


FOREIGN = [{**said("x"), "id": "twice"}, {**said("y"), "id": "twice"}]


async def nothing(ctx: Any) -> None:
    return None


async def no_other_content(ctx: Any, state: Any, commit_id: str | None) -> Any:
    pytest.skip("there is nothing about this call but its target")


def on_session(name: str, act: Act, other: Act | None = None) -> Row:
    """Return the row of a method of a session: of the first of two, with other content, of the second."""

    def of(place: int, act: Act) -> Call:
        async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
            return await act(await ctx.sessions.get(state[place]), commit_id)

        return call

    return Row(f"session.{name}", two_sessions, of(0, act), of(0, other) if other else no_other_content, of(1, act))


async def whole(storing: Awaitable[Any]) -> list[tuple[Any, ...]]:
    """Return messages with all that is told of them, so that they can be compared."""
    return [told(one) for one in await storing]


async def popped(popping: Awaitable[Any]) -> tuple[Any, ...]:
    return told(await popping)


def told(one: Any) -> tuple[Any, ...]:
    return dict(one), one.id, one.index, one.at, one.tokens, one.sidecar


async def seeing(session: Any, method: Callable[..., Awaitable[Any]], *given: Any, commit_id: str | None) -> Any:
    """Write on the condition that the session is as it is now."""
    revision = (await session.info()).revision
    return await method(*given, expected_revision=revision, commit_id=commit_id)


async def id_of(making: Awaitable[Any]) -> str:
    id: str = (await making).id
    return id


async def got(ctx: Any, id: str) -> Any:
    """Return a handle, None once it is gone: the operation is the same."""
    try:
        return await ctx.sessions.get(id)
    except NotFound:
        return None


def deleting(place: int, by_handle: bool = False) -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        handle = await got(ctx, state[place]) if by_handle else None
        if handle is not None:
            await handle.delete(commit_id=commit_id)
        else:
            await ctx.sessions.delete(state[place], commit_id=commit_id)
        assert state[place] not in [info.id for info in await ctx.sessions.list()]

    return call


def erasing(place: int, by_handle: bool = False) -> Call:
    async def call(ctx: Any, state: Any, commit_id: str | None) -> Any:
        handle = await got(ctx, state[place]) if by_handle else None
        if handle is not None:
            return await handle.erase(all=True, commit_id=commit_id)
        return await ctx.sessions.erase(state[place], commit_id=commit_id)

    return call


ROWS = (
    Row(
        "sessions.open",
        nothing,
        lambda ctx, _, id: id_of(ctx.sessions.open(title="t", commit_id=id)),
        lambda ctx, _, id: id_of(ctx.sessions.open(title="other", commit_id=id)),
        lambda ctx, _, id: id_of(ctx.sessions.open("named", title="t", commit_id=id)),
    ),
    Row(
        "sessions.open",
        nothing,
        lambda ctx, _, id: id_of(ctx.sessions.open("s", commit_id=id)),
        lambda ctx, _, id: id_of(ctx.sessions.open("s", metadata={"k": 1}, commit_id=id)),
        lambda ctx, _, id: id_of(ctx.sessions.open("other", commit_id=id)),
    ),
    Row("sessions.delete", two_sessions, deleting(0), no_other_content, deleting(1)),
    Row("sessions.erase", two_sessions, erasing(0), no_other_content, erasing(1)),
    Row("sessions.erase", two_sessions, erasing(0, True), no_other_content, erasing(1, True)),
    Row("session.delete", two_sessions, deleting(0, True), no_other_content, deleting(1, True)),
    on_session(
        "append",
        lambda session, id: whole(session.append([said("x"), {**said("y"), "id": "y"}], commit_id=id)),
        lambda session, id: whole(session.append([said("x"), {**said("z"), "id": "y"}], commit_id=id)),
    ),
    on_session(
        "append",
        lambda session, id: whole(session.append(FOREIGN, sidecars=[{"v": 1}, None], ids="repeat", commit_id=id)),
        lambda session, id: whole(session.append(FOREIGN, sidecars=[{"v": 2}, None], ids="repeat", commit_id=id)),
    ),
    on_session(
        "replace",
        lambda session, id: whole(session.replace([said("x"), {**said("again"), "id": "a"}], commit_id=id)),
        lambda session, id: whole(session.replace([said("x")], commit_id=id)),
    ),
    on_session(
        "replace_from",
        lambda session, id: whole(session.replace_from("b", [said("x"), {**said("c"), "id": "c"}], commit_id=id)),
        lambda session, id: whole(session.replace_from("c", [said("x"), {**said("c"), "id": "c"}], commit_id=id)),
    ),
    on_session("pop", lambda session, id: popped(session.pop(commit_id=id))),
    # Whoever repeats reads the revision anew, and it is another one by then.
    on_session(
        "append",
        lambda session, id: whole(seeing(session, session.append, said("x"), commit_id=id)),
        lambda session, id: whole(seeing(session, session.append, said("y"), commit_id=id)),
    ),
    on_session(
        "replace",
        lambda session, id: whole(seeing(session, session.replace, said("x"), commit_id=id)),
        lambda session, id: whole(seeing(session, session.replace, said("y"), commit_id=id)),
    ),
    on_session(
        "replace_from",
        lambda session, id: whole(seeing(session, session.replace_from, "b", said("x"), commit_id=id)),
        lambda session, id: whole(seeing(session, session.replace_from, "c", said("x"), commit_id=id)),
    ),
    on_session("pop", lambda session, id: popped(seeing(session, session.pop, commit_id=id))),
    on_session(
        "truncate_from",
        lambda session, id: session.truncate_from("b", commit_id=id),
        lambda session, id: session.truncate_from("a", commit_id=id),
    ),
    on_session(
        "erase",
        lambda session, id: session.erase(["a"], commit_id=id),
        lambda session, id: session.erase(["b"], commit_id=id),
    ),
    on_session("restore", lambda session, id: session.restore(commit_id=id)),
    on_session(
        "rename",
        lambda session, id: session.rename("new", commit_id=id),
        lambda session, id: session.rename("newer", commit_id=id),
    ),
    on_session(
        "set_metadata",
        lambda session, id: session.set_metadata({"k": 1}, commit_id=id),
        lambda session, id: session.set_metadata({"k": 2}, commit_id=id),
    ),
    on_session(
        "pin",
        lambda session, id: session.pin("a", commit_id=id),
        lambda session, id: session.pin("c", commit_id=id),
    ),
    on_session(
        "unpin",
        lambda session, id: session.unpin("b", commit_id=id),
        lambda session, id: session.unpin("a", commit_id=id),
    ),
    on_session(
        "count_with",
        lambda session, id: session.count_with(LETTERS, commit_id=id),
        lambda session, id: session.count_with(HALVES, commit_id=id),
    ),
    on_session(
        "fork",
        lambda session, id: id_of(session.fork(commit_id=id)),
        lambda session, id: id_of(session.fork("a", commit_id=id)),
    ),
)
