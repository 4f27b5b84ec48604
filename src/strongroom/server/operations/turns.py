"""Turns: the operations that a client took down, each made by its own row of the table, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput
from strongroom.operations import NOTHING, OURS, Operation, Plan, Undecided, perform
from strongroom.scope import Scope
from strongroom.server.keys import Right
from strongroom.server.operations.invocation import Invocation, Make, Row, named, understood
from strongroom.services.turns.overlay import Overlay
from strongroom.services.turns.parts import (
    MAX_PARTS,
    Made,
    Part,
    PlanPart,
    made_before,
    made_once,
    plan,
    require_size,
    size_of,
    target_of,
)

PARTS = ("session.append", "run.update", "run.record", "threads.append", "memories.propose")


class _Turn(Struct, frozen=True):
    parts: list[tuple[str, str, str, dict[str, Any]]]


class _Besides(Struct, frozen=True):
    parts: list[dict[str, Any] | None]


class _Decided(_Turn, frozen=True):
    besides: list[dict[str, Any] | None]


class TurnRow(Row, frozen=True):
    """What a turn takes is what its parts take."""

    rows: Mapping[str, Row] = {}

    def needs(self, op: Invocation) -> set[Right]:
        rights: set[Right] = {"write"}
        try:
            return rights.union(*(row.needs(part) for row, part in _parts(self.rows, op)))
        except (InvalidInput, BudgetExceeded):
            return rights  # what is wrong with it is said to whoever has the right


def rows(table: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows of turns, made of those of their parts."""
    own = {name: table[name] for name in PARTS}
    return {name: TurnRow("write", (), _making(own), rows=own) for name in ("turn", "turn_with")}


def _making(table: Mapping[str, Row]) -> Make:
    async def made(op: Invocation) -> Made:
        scope = op.ctx.scope
        moved: Conflict | None = None

        def lost(conflict: Conflict) -> None:
            nonlocal moved
            moved = conflict

        async def attempt() -> Plan[Made]:
            if not decides_anew:
                return await plan(over, parts, moved, lost)
            if op.besides is None:
                raise Undecided
            try:
                return await plan(over, parts, None, lost)
            except Conflict:
                raise Undecided from None

        decides_anew = op.name == "turn_with"
        content = NOTHING if decides_anew else op.content
        operation = Operation(op.name, target_of(scope), content, op.commit_id)
        parts = [
            Part(msgspec.structs.replace(operation, life=part.life), _call(op.ctx, row, part))
            for row, part in _parts(table, op)
        ]
        over = msgspec.structs.replace(scope, store=Overlay(scope.store))
        if decides_anew:
            return await perform(scope, operation, attempt, made_before)
        return await made_once(scope, operation, attempt)

    return made


def _parts(table: Mapping[str, Row], op: Invocation) -> list[tuple[Row, Invocation]]:
    """Return what a turn is made of, as if each had been asked for alone."""
    if op.name == "turn_with":
        if op.besides is None:
            return []
        decided: _Decided = understood(_Decided, op.besides)
        parts, besides = decided.parts, decided.besides
    else:
        parts = understood(_Turn, op.arguments).parts
        besides = understood(_Besides, op.besides).parts
    if len(parts) > MAX_PARTS:
        told = f"a turn has at most {MAX_PARTS} parts, not {len(parts)}; nothing changed"
        raise BudgetExceeded(told, limit=MAX_PARTS, needed=len(parts))
    if len(parts) != len(besides):
        raise InvalidInput("something is said besides of each part, or nothing; nothing changed", path="besides")
    found, size = [], 0
    for (name, id, life, arguments), more in zip(parts, besides, strict=True):
        if name not in table:
            raise InvalidInput(f"a turn has no part {name!r:.60}; nothing changed", path="parts")
        if life and name != "session.append":
            raise InvalidInput(f"of {name!r:.60} there are no lives; nothing changed", path="parts")
        content = encode(arguments)
        size += size_of(content, None if more is None else encode(more))
        require_size(size)
        part = {"name": name, "id": id, "life": life, "content": content, "arguments": arguments, "besides": more}
        one = msgspec.structs.replace(op, **part)
        found.append((table[name], named(table[name], one)))
    return found


def events_in(op: Invocation) -> Iterator[tuple[object, object]]:
    """Yield type and payload of the events that an operation recorded, alone or as part of a turn."""
    if op.name == "run.record":
        yield op.arguments.get("type"), op.arguments.get("payload")
    elif op.name in ("turn", "turn_with"):
        said = op.arguments if op.name == "turn" else op.more
        for name, _, _, arguments in understood(_Turn, said).parts if "parts" in said else ():
            if name == "run.record":
                yield arguments.get("type"), arguments.get("payload")


def _call(ctx: AsyncContext, row: Row, op: Invocation) -> PlanPart:
    async def call(scope: Scope, id: str) -> object:
        there = AsyncContext(scope)
        there.memories = there.memories.using(policy=ctx.memories._policy)
        there.threads.types = ctx.threads.types
        return await row.make(msgspec.structs.replace(op, ctx=there, commit_id=OURS + id))

    return call
