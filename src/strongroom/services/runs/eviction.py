"""Making room in a working set: which sliding items leave, decided from the state alone (pure).

The budget counts everything the brief prints of a working set, line by line, with the configured tokenizer. Items leave
in one strict order, least important first, until the rest fits: by priority, then by the moment they are from (an
instant, whatever the offset it was written with), then by their place in the list. So a lesser item never stays while a
greater one goes, and a larger budget keeps at least as much. Skipping an item too big for the room and keeping lesser
ones was rejected for those two reasons.

Everything but sliding items never leaves: an update for which it leaves no room is refused, and so is a new item that
could not fit even alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import starmap
from typing import Any

from strongroom.errors import BudgetExceeded
from strongroom.services.runs.brief import fixed_parts, frame_tokens, sliding_line
from strongroom.services.runs.working_set import WorkingSetJson, ranked
from strongroom.tokens import Tokenizer
from strongroom.values import EvictedItem, Eviction


def tokens_of(state: WorkingSetJson, tokenizer: Tokenizer) -> int:
    """Return what a working set costs."""
    return _fixed(state, tokenizer) + sum(_costs(state, tokenizer))


def make_room(
    before: WorkingSetJson | None, after: WorkingSetJson, *, max_tokens: int, tokenizer: Tokenizer
) -> tuple[WorkingSetJson, Eviction | None]:
    """Return `after` with what must leave taken out, and the receipt (None: everything fits)."""
    items = after["sliding_context"]
    costs = _costs(after, tokenizer)
    fixed = _fixed(after, tokenizer)
    if fixed > max_tokens:
        raise BudgetExceeded(
            f"the working set takes {fixed} tokens without its sliding context, and may take {max_tokens}; "
            "shorten a field or unpin something; nothing changed",
            limit=max_tokens,
            needed=fixed,
        )
    known = before["sliding_context"] if before else []
    for item, cost in zip(items, costs, strict=True):
        if fixed + cost > max_tokens and item not in known:
            raise BudgetExceeded(
                f"sliding item {item['id']!r} takes {cost} tokens, and {max_tokens - fixed} are left beside what "
                "never leaves; attach it as an artifact or shorten it; nothing changed",
                limit=max_tokens,
                needed=fixed + cost,
            )
    total = needed = fixed + sum(costs)
    if total <= max_tokens:
        return after, None
    leaving: list[int] = []
    for place in ranked(items):
        if total <= max_tokens:
            break
        total -= costs[place]
        leaving.append(place)
    gone = set(leaving)
    kept = {**after, "sliding_context": [item for place, item in enumerate(items) if place not in gone]}
    evicted = tuple(
        EvictedItem(
            id=items[place]["id"],
            priority=items[place]["priority"],
            timestamp=items[place]["timestamp"],
            tokens=costs[place],
        )
        for place in leaving
    )
    return kept, Eviction(
        evicted=evicted,
        tokens_before=needed,
        tokens_after=total,
        max_tokens=max_tokens,
        tokenizer=tokenizer.name,
    )


@lru_cache(maxsize=8)
def _costs_by(tokenizer: Any) -> tuple[int, Callable[..., int]]:
    """Return what the headings cost, and what counts a line by how it is made and of what.

    An update changes a line or two and all of them are counted: most of an update's time, before this was kept.
    """

    def cost(form: Callable[..., str], *texts: Any) -> int:
        return int(tokenizer.count(form(*texts)))

    return frame_tokens(tokenizer.count), lru_cache(maxsize=4096)(cost)


def _fixed(state: WorkingSetJson, tokenizer: Tokenizer) -> int:
    known: Any = tokenizer  # hashable by identity, which a protocol cannot say
    frame, cost = _costs_by(known)
    return frame + sum(starmap(cost, fixed_parts(state)))


def _costs(state: WorkingSetJson, tokenizer: Tokenizer) -> list[int]:
    known: Any = tokenizer  # as above
    _, cost = _costs_by(known)
    return [cost(sliding_line, item["timestamp"], item["content"]) for item in state["sliding_context"]]
