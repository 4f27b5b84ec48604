"""The parts of a turn: calls of services, taken down as operations, then made together as one commit.

A part is made several times over. Over a `Relay` without a receipt it is only taken down: what the service would ask a
server to do is what the turn asks for. Over an `Overlay` it is planned, at each attempt anew. Over a `Relay` with the
part's own receipt it answers, as it would have answered alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from strongroom.bridge import run
from strongroom.codec import Json, encode, pack
from strongroom.errors import Conflict, InvalidInput, StrongroomError
from strongroom.operations import OURS, Operation, Plan
from strongroom.scope import Scope
from strongroom.services.turns.overlay import Overlay, Span
from strongroom.store import MAX_ANSWER, AnyQuestion, AsyncStore, Commit, Durability, Receipt, Write, new_id

# How a part is made: over a scope, under an id of its own.
ServiceCall = Callable[[Scope, str], Awaitable[Any]]


class Part(Struct, frozen=True):
    """One call of a turn: how it is made, what it asks for, and what is worth reading beforehand."""

    call: ServiceCall
    operation: Operation
    ahead: tuple[AnyQuestion, ...] = ()


class Made(Struct, frozen=True):
    """The receipt of a turn; and its writes, if it was made by this very call."""

    receipt: Receipt
    writes: tuple[Write, ...] | None = None


class Relay:
    """A store whose operations are made elsewhere: it takes one down, or tells the receipt of one that was made."""

    def __init__(self, base: AsyncStore, receipt: Receipt | None = None) -> None:
        self._base, self._receipt = base, receipt
        self.read = base.read

    @property
    def durability(self) -> Durability:
        return self._base.durability

    async def perform(self, operation: Operation) -> Receipt:
        if self._receipt is None:
            raise Taken(operation)
        return self._receipt

    async def commit(self, commit: Commit) -> Receipt:
        raise AssertionError("what is made elsewhere is not written here")

    async def close(self) -> None:
        """Nothing is held here."""


class Taken(Exception):
    """An operation was taken down instead of being made."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation.name)
        self.operation = operation


def take(scope: Scope, call: ServiceCall, *ahead: AnyQuestion) -> Part:
    """Take a call down; raise what it is refused for without looking."""

    async def taken() -> Operation:
        try:
            await call(replace(scope, store=Relay(scope.store)), OURS + new_id())
        except Taken as one:
            return one.operation
        raise AssertionError("a part of a turn is an operation")

    return Part(call, run(taken()), ahead)


def content_of(parts: Sequence[Part]) -> tuple[Json, Json]:
    """Return what parts ask for, and what is said besides: each a list, in their order."""
    said = [
        [part.operation.name, part.operation.target.id, part.operation.life, Raw(part.operation.content)]
        for part in parts
    ]
    besides = [None if part.operation.besides is None else Raw(part.operation.besides) for part in parts]
    return pack({"parts": said}), pack({"parts": besides})


async def plan(
    scope: Scope, parts: Sequence[Part], moved: Conflict | None, lost: Callable[[Conflict], None]
) -> Plan[Made]:
    """Plan all parts as one commit. `moved` is the race that was lost the last time; `lost` hears of the next one."""
    store = Overlay(scope.store, moved)
    over, ids = replace(scope, store=store), [new_id() for _ in parts]
    store.ids.update(ids)
    await store.look_ahead([question for part in parts for question in part.ahead])
    for part, id in zip(parts, ids, strict=True):
        await part.call(over, OURS + id)
    expects, writes = store.expects, tuple(store.writes)
    expected = {expect.key for expect in expects}

    def refusal(conflict: Conflict) -> StrongroomError | None:
        lost(conflict)
        # What nobody expected, such as a name that somebody else claims, is no race: it would be lost again.
        return None if conflict.key in expected else conflict

    answer = _answer([store.spans[id] for id in ids])
    return Plan(expects, writes, lambda receipt: Made(receipt, writes), answer, refusal)


async def retold(scope: Scope, parts: Sequence[Part], receipt: Receipt) -> list[Any]:
    """Return what each part answers, made from the receipt of the turn."""
    assert receipt.answer is not None
    answers = []
    for part, (start, stop, answer) in zip(parts, receipt.answer.load()["parts"], strict=True):
        told = None if answer is None else encode(answer)
        own = Receipt(new_id(), receipt.versions[start:stop], answer=told)
        answers.append(await part.call(replace(scope, store=Relay(scope.store, own)), OURS + own.id))
    return answers


def _answer(spans: Sequence[Span]) -> Json:
    """Return what the receipt of a turn tells of its parts. Of long ones their records tell instead."""
    for longest in (MAX_ANSWER, 4096, 512):
        told = [
            [span.start, span.stop, Raw(span.answer) if span.answer and len(span.answer) <= longest else None]
            for span in spans
        ]
        answer = pack({"parts": told})
        if len(answer) <= MAX_ANSWER:
            return answer
    raise InvalidInput("this is more than one turn can answer for; make several; nothing changed")
