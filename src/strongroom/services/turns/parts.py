"""The parts of a turn: calls of services, planned together as one commit.

A part was looked at when it was called, so what it asks for is known (`operation`). It is planned over an `Overlay`, at
each attempt anew. What it answers, as it would have answered alone, is told by its own part of the turn's receipt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from strongroom.codec import Json, encode, pack
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, StrongroomError
from strongroom.operations import Operation, Plan, Prepared, again, identify, made_here, perform
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.turns.overlay import Overlay, Span
from strongroom.store import MAX_ANSWER, AnyQuestion, Key, Receipt, ReceiptOf, Write, new_id

T = TypeVar("T")

KIND = "turn"
MAX_PARTS = 100
MAX_BYTES = 7 << 20  # with what goes around it, what a server takes in one request
IN_TURN = "turn"  # the id that parts are prepared under: that their answers are kept is up to the turn
# How a part is planned: over a scope whose store is an `Overlay`, under an id of its own.
PlanPart = Callable[[Scope, str], Awaitable[Any]]


class Part(Struct, frozen=True):
    """One call of a turn: what it asks for, how it is planned, how a receipt tells what it answers, and what is worth
    reading beforehand."""

    operation: Operation
    plan: PlanPart
    told: Callable[[Receipt], Awaitable[Any]] = again
    ahead: tuple[AnyQuestion, ...] = ()


class Made(Struct, frozen=True):
    """The receipt of a turn; and its writes, if it was made by this very call."""

    receipt: Receipt
    writes: tuple[Write, ...] | None = None


class Collected:
    """What a call on an async turn returns. Whoever awaits it, as they do all else, goes on at once: nothing is written
    before the block ends, so there is nothing to wait for and no answer yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<collected: written when the block of the turn ends>"

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


COLLECTED = cast("None", Collected())  # to a type checker there is nothing to await, and an editor says so


async def made_before(receipt: Receipt) -> Made:
    return Made(receipt)


async def planned(store: Overlay, prepared: Prepared[T], id: str) -> Plan[T]:
    """Plan what a service has prepared, which is to read through this store. Nobody can have made it before."""
    about = prepared.operation.target
    for _ in attempts(f"{about.kind} {about.id!r}"):
        plan = await prepared.attempt()
        if plan is None:
            continue
        try:
            await store.join(id, plan.expects, plan.writes, plan.answer)
        except Conflict as conflict:
            refusal = plan.refusal(conflict)
            if refusal is not None:
                raise refusal from None
        else:
            return plan
    raise AssertionError("attempts() raises when it is enough")


def target_of(scope: Scope) -> Key:
    """Return what the id of a turn is about: the whole space."""
    return scope.key(KIND, KIND)


def size_of(content: Json, besides: Json | None) -> int:
    """Return how much of a turn's bytes a part takes."""
    return len(content) + len(besides or b"")


def require_size(size: int) -> None:
    """Refuse a turn that is too large, before anything is made of it."""
    if size > MAX_BYTES:
        raise BudgetExceeded(
            f"a turn holds at most {MAX_BYTES} bytes, and this one has {size}; nothing changed",
            limit=MAX_BYTES,
            needed=size,
        )


def content_of(parts: Sequence[Part]) -> tuple[Json, Json]:
    """Return what parts ask for, and what is said besides: each a list, in their order."""
    said = [
        [part.operation.name, part.operation.target.id, part.operation.life, Raw(part.operation.content)]
        for part in parts
    ]
    besides = [None if part.operation.besides is None else Raw(part.operation.besides) for part in parts]
    return pack({"parts": said}), pack({"parts": besides})


async def made_once(scope: Scope, operation: Operation, attempt: Callable[[], Awaitable[Plan[Made]]]) -> Made:
    """Make a turn once, however often it is asked for. One of nothing but appends is made once in each life of its
    sessions; what else it holds, or what is of a session that lives on, must not be made again with the rest."""
    try:
        return await perform(scope, operation, attempt, made_before)
    except InvalidInput as refusal:
        used = refusal.path == "commit_id" and made_here(scope)
        anew = await _in_another_life(scope, operation) if used else None
        if anew is None:
            raise
    return await perform(scope, anew, attempt, made_before)


async def _in_another_life(scope: Scope, operation: Operation) -> Operation | None:
    """Return a turn whose id was used before, if that was for the same turn in sessions that were deleted since: what
    was done in those says nothing of the sessions that have their names now."""
    id, _ = identify(operation)
    receipt = await scope.get(ReceiptOf(scope.space, id))
    told = None if receipt is None or receipt.answer is None else receipt.answer.load()
    lives, parts = (told or {}).get("lives", []), operation.content.load()["parts"]
    if receipt is None or len(lives) != len(parts):
        return None
    before = [[name, target, life, said] for (name, target, _, said), life in zip(parts, lives, strict=True)]
    if identify(replace(operation, content=pack({"parts": before})))[1] != receipt.digest:
        return None
    now = [life for _, _, life, _ in parts]
    if any(one == other for one, other in zip(now, lives, strict=True)):
        raise InvalidInput(
            f"the turn {operation.commit_id!r:.80} was made before, and a session of it was deleted since; what else "
            "it holds would be done twice, so take another id; nothing changed",
            path="commit_id",
        )
    return replace(operation, life=encode(now).decode())


async def plan(
    over: Scope, parts: Sequence[Part], moved: Conflict | None, lost: Callable[[Conflict], None]
) -> Plan[Made]:
    """Plan all parts as one commit, over a scope whose store is an `Overlay`.

    `moved` is the race that was lost the last time; `lost` hears of the next one.
    """
    store = over.store
    assert isinstance(store, Overlay)
    ids = [new_id() for _ in parts]
    store.begin(ids, moved)
    await store.look_ahead([question for part in parts for question in part.ahead])
    for part, id in zip(parts, ids, strict=True):
        await part.plan(over, id)
    expects, writes = store.expects, tuple(store.writes)

    def refusal(conflict: Conflict) -> StrongroomError | None:
        # Also what nobody expected, a content that somebody else has claimed: planned anew, the part sees whose it is.
        lost(conflict)
        return None

    answer = _answer([store.spans[id] for id in ids], [part.operation.life for part in parts])
    return Plan(expects, writes, lambda receipt: Made(receipt, writes), answer, refusal)


async def retold(parts: Sequence[Part], receipt: Receipt) -> list[Any]:
    """Return what each part answers, made from the receipt of the turn."""
    assert receipt.answer is not None
    answers = []
    for part, (start, stop, answer) in zip(parts, receipt.answer.load()["parts"], strict=True):
        told = None if answer is None else encode(answer)
        answers.append(await part.told(replace(part_of(receipt, start, stop), answer=told)))
    return answers


def part_of(receipt: Receipt, start: int, stop: int) -> Receipt:
    """Return the receipt of the part of a turn that made these writes."""
    return Receipt(receipt.id, receipt.versions[start:stop])


def _answer(spans: Sequence[Span], lives: Sequence[str]) -> Json:
    """Return what the receipt of a turn tells of its parts. Of long ones their records tell instead."""
    besides = {"lives": lives} if any(lives) else {}
    for longest in (MAX_ANSWER, 4096, 512):
        told = [
            [span.start, span.stop, Raw(span.answer) if span.answer and len(span.answer) <= longest else None]
            for span in spans
        ]
        answer = pack({"parts": told, **besides})
        if len(answer) <= MAX_ANSWER:
            return answer
    raise InvalidInput("this is more than one turn can answer for; make several; nothing changed")
