"""Counting what is stored anew after a change of the tokenizer: a block at a time, on the back of ordinary calls.

A stored weight is never rewritten. The new counts go to a stream of their own (`state.Recount` says how they lie
there), where `view.learn` looks them up. A message that has none yet is counted by whoever reads it, so every window
is right from the first moment; this makes sure that it is not counted again and again for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.codec import encode
from strongroom.operations import Operation, Plan, made_here, perform
from strongroom.services.sessions.state import COUNT, Recount
from strongroom.services.sessions.view import View
from strongroom.store import Append, Entry, Expect, Key, Range, Receipt
from strongroom.tokens import is_built_in
from strongroom.tokens.counting import required


async def recount(view: View, most: int | None = None) -> int:
    """Count the messages of the next `most` blocks and store that; return how many messages are left.

    Raises `Conflict` if the session changed or somebody else counted the same block meanwhile.
    """
    plan = view.state.recount
    if plan is None:
        return 0
    required(view.tokenizer)
    key = view.side(COUNT)
    made, length = await _made(view)
    stop = plan.blocks if most is None else min(plan.blocks, made + most)
    while made < stop:
        # Whoever has the tokenizer counts: a server as a rule, but not with one that its caller brought along.
        by_caller = made_here(view.scope) or not is_built_in(view.tokenizer.name)
        counts = await count(view, plan, made) if by_caller else None
        length = await keep(view, key, made, length, counts)
        made += 1
    return max(plan.span(made)[1] - plan.start, 0)


async def count(view: View, plan: Recount, block: int) -> list[int]:
    """Return the tokens of the messages of a block."""
    part = await view.scope.get(Range(view.stream, *plan.span(block)))
    return [view.message(record).tokens for record in part.records]


async def keep(
    view: View, key: Key, block: int, length: int, counts: Sequence[int] | None, commit_id: str | None = None
) -> int:
    """Store the counts of a block after those before it, and return how long their stream is then."""

    async def attempt() -> Plan[int]:
        plan = view.state.recount
        assert plan is not None and counts is not None
        told = Entry(view.tokenizer.name, encode([plan.span(block)[0], counts]), at=view.scope.clock())
        # Not merely that the session exists: a block of a plan that was given up would shift all that come after it.
        expects = (Expect(view.document, view.version), Expect(key, length))
        return Plan(expects, (Append(key, (told,)),), _length, refusal=lambda conflict: conflict)

    async def replay(receipt: Receipt) -> int:
        return _length(receipt)

    said = {"tokenizer": view.tokenizer.name, "version": view.version, "length": length, "counts": counts}
    operation = Operation("session.recount", view.document, encode({"block": block, **said}), commit_id)
    return await perform(view.scope, operation, attempt, replay)


def _length(receipt: Receipt) -> int:
    return receipt.versions[0]


async def uncounted(view: View) -> int:
    """Return how many messages are still to be counted anew."""
    plan = view.state.recount
    return 0 if plan is None else max(plan.span((await _made(view))[0])[1] - plan.start, 0)


async def _made(view: View) -> tuple[int, int]:
    """Return how many blocks there are, and the length of their stream."""
    end = await view.scope.get(Range(view.side(COUNT), 0, 0))
    return end.length - end.first, end.length
