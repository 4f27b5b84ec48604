"""Operations of sessions. Counts, summaries and vectors that callers made are held against what is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.errors import Conflict, InvalidInput
from strongroom.server.operations.invocation import Invocation, Make, call, expected, require_numbers, understood
from strongroom.services.sessions import erasure, recounts, summaries, vectors
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.state import COUNT, below
from strongroom.services.sessions.view import look
from strongroom.services.sessions.writes import Counted
from strongroom.store import Range
from strongroom.tokens.counting import Absent, counter


def session(method: Callable[..., Awaitable[object]]) -> Make:
    async def made(op: Invocation) -> object:
        session = await op.ctx.sessions._handle(op.id, op.life)
        arguments = op.arguments | expected(op, "expected_revision")
        if "tokenizer" in arguments:
            arguments = arguments | {"tokenizer": counter(understood(str, arguments["tokenizer"]), {})}
        return await call(op, method, session, named=arguments)

    return made


async def open(op: Invocation) -> object:
    named = op.arguments.get("tokenizer")
    arguments = op.arguments | {"tokenizer": None if named is None else counter(understood(str, named), {})}
    return await call(op, AsyncSessions.open, op.ctx.sessions, named=arguments)


async def delete(op: Invocation) -> None:
    """Delete a session; one of an adapter, if it says so, only as it has seen it."""
    understood(_Nothing, op.arguments)
    await erasure.delete(op.ctx.scope, op.id, op.commit_id, understood(_Seen, op.more).own)


class _Nothing(Struct, frozen=True, forbid_unknown_fields=True): ...


class _Seen(Struct, frozen=True):
    own: int | None = None


class _Counts(Struct, frozen=True):
    tokenizer: str
    tokens: list[int]


def messages(method: Callable[..., Awaitable[object]]) -> Make:
    """Append messages. Counts are believed only where the session's tokenizer is not at hand here."""

    async def made(op: Invocation) -> object:
        messages = understood(list[Any], op.arguments.get("messages"))
        if "tokens" in op.more:
            counts: _Counts = understood(_Counts, op.more)
            messages = Counted(messages, counts.tokenizer, counts.tokens)
        arguments = op.arguments | {"messages": messages} | expected(op, "expected_revision")
        session = await op.ctx.sessions._handle(op.id, op.life)
        if type(session.tokenizer) is Absent and "tokens" not in op.more:
            session._count_as_at_first()
        return await call(op, method, session, named=arguments)

    return made


class _Block(Struct, frozen=True):
    block: int
    tokenizer: str
    version: int
    length: int
    counts: list[int] | None


async def recount(op: Invocation) -> object:
    """Keep the counts of a block: our own, or the caller's of a tokenizer that is not at hand here."""
    told: _Block = understood(_Block, op.arguments)
    scope = op.ctx.scope
    view, (end,) = await look(scope, op.id, lambda name: counter(name, {}), Range(scope.key(COUNT, op.id), 0, 0))
    plan, here = view.state.recount, (view.version, view.tokenizer.name, end.length, end.length - end.first)
    if plan is None or here != (told.version, told.tokenizer, told.length, told.block) or told.block >= plan.blocks:
        raise Conflict(
            f"session {op.id!r} has changed since it was counted; nothing changed",
            expected=told.version,
            actual=view.version,
            key=view.document,
        )
    counts = told.counts
    if type(view.tokenizer) is not Absent:
        counts = await recounts.count(view, plan, told.block)
    low, high = plan.span(told.block)
    if counts is None or len(counts) > high - low or min(counts, default=0) < 0:
        raise InvalidInput("counts must tell of each message of the block how many it has; nothing changed")
    return await recounts.keep(view, view.side(COUNT), told.block, told.length, counts, op.commit_id)


class _Summary(Struct, frozen=True):
    summary: summaries.StoredSummary
    tokens: int


async def summarize(op: Invocation) -> None:
    """Keep a caller's summary, of messages that are visible as the caller saw them."""
    told: _Summary = understood(_Summary, op.arguments)
    view, _ = await look(op.ctx.scope, op.id, Absent)
    summary = told.summary
    seen = [list(pair) for pair in below(view.state.visible, summary.stop)]
    if not 0 <= summary.covers <= summary.stop <= view.length or told.tokens < 0:
        raise InvalidInput("a summary is of messages that there are; nothing changed", path="summary")
    if seen != [list(pair) for pair in summary.ranges]:
        raise Conflict("other messages are visible by now; nothing changed", expected=0, actual=0, key=view.document)
    await summaries.keep(op.ctx.scope, op.id, summary, told.tokens, op.commit_id)


class _Vectors(Struct, frozen=True, forbid_unknown_fields=True):
    stop: int
    indexes: list[int]
    vectors: str


class _Embedded(Struct, frozen=True):
    mark: str
    length: int
    block: _Vectors


async def embed(op: Invocation) -> None:
    """Keep the vectors that a caller's embedder made of a block of messages."""
    told: _Embedded = understood(_Embedded, op.arguments)
    view, _ = await look(op.ctx.scope, op.id, Absent)
    stop = told.block.stop
    if not 0 < stop <= view.length or any(not 0 <= index < stop for index in told.block.indexes):
        raise InvalidInput("vectors are of messages that there are; nothing changed", path="block")
    require_numbers(told.block.vectors, "e", len(told.block.indexes))
    block = msgspec.to_builtins(told.block)
    await vectors.keep(op.ctx.scope, op.id, told.mark, told.length, block, op.commit_id)
