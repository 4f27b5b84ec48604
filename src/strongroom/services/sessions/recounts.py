"""Counting what is stored anew after a change of the tokenizer: a block at a time, on the back of ordinary calls.

A stored weight is never rewritten. The new counts go to a stream of their own (`state.Recount` says how they lie
there), where `view.learn` looks them up. A message that has none yet is counted by whoever reads it, so every window
is right from the first moment; this makes sure that it is not counted again and again for ever.
"""

from __future__ import annotations

from strongroom.codec import encode
from strongroom.services.sessions.state import COUNT
from strongroom.services.sessions.view import View
from strongroom.store import Append, Commit, Entry, Expect, Range, Slice, new_id


async def recount(view: View, most: int | None = None) -> int:
    """Count the messages of the next `most` blocks and store that; return how many messages are left.

    Raises `Conflict` if the session changed or somebody else counted the same block meanwhile.
    """
    plan = view.state.recount
    if plan is None:
        return 0
    key = view.side(COUNT)
    made, length = await _made(view)
    stop = plan.blocks if most is None else min(plan.blocks, made + most)
    while made < stop:
        low, high = plan.span(made)
        (part,) = await view.scope.store.read([Range(view.stream, low, high)])
        counts = [view.message(record).tokens for record in part.records]
        block = Entry(view.tokenizer.name, encode([low, counts]), at=view.scope.clock())
        # Not merely that the session exists: a block of a plan that was given up would shift all that come after it.
        expects = (Expect(view.document, view.version), Expect(key, length))
        receipt = await view.scope.store.commit(Commit(new_id(), expects, (Append(key, (block,)),)))
        made, length = made + 1, receipt.versions[0]
    return max(plan.span(made)[1] - plan.start, 0)


async def uncounted(view: View) -> int:
    """Return how many messages are still to be counted anew."""
    plan = view.state.recount
    return 0 if plan is None else max(plan.span((await _made(view))[0])[1] - plan.start, 0)


async def _made(view: View) -> tuple[int, int]:
    """Return how many blocks there are, and the length of their stream."""
    (end,) = await view.scope.store.read([Range(view.side(COUNT), 0, 0)])
    found: Slice = end
    return found.length - found.first, found.length
