"""Which messages go into a prompt. Pure decisions, the same for a plain list (`fit`) and for a stored session.

Rules
-----
1. The result never costs more than the budget.
2. Kept messages (system, developer, pinned) come first; if they alone do not fit, that is an error, not a cut.
3. A tool call and its answers are in together or out together.
4. Each strategy takes messages in a fixed order and stops at the first that does not fit, so a larger budget only ever
   adds messages. Skipping a large one to squeeze in smaller ones would make the prompt flicker as the budget moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.tokens.messages import answers, calls

Strategy = Literal["truncate_oldest", "recent_only", "summarize_oldest", "priority", "relevant"]
STRATEGIES: tuple[Strategy, ...] = ("truncate_oldest", "recent_only", "summarize_oldest", "priority", "relevant")
Dangling = Literal["leave_out", "keep"]
KEPT_ROLES = ("system", "developer")
HIGHEST_PRIORITY = 9
# How far apart a kept tool call and its answers may stand and still be found without reading the whole history.
PAIR_REACH = 64
MOST_TOKENS = 2**63 - 2  # what every store can add up to

_TOOL_KEYS = frozenset({"tool_calls", "tool_call_id", "type"})


class Item(Struct, frozen=True, gc=False):
    """What a decision needs to know about one message. `position` is its place in the history."""

    position: int
    tokens: int
    priority: int = 0
    calls: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()


class Choice(Struct, frozen=True):
    """The positions to send, in order, and why certain others are not (the rest did not fit)."""

    positions: tuple[int, ...]
    reasons: dict[int, str] = {}


def item(message: Mapping[str, Any], position: int, tokens: int) -> Item:
    """Describe a message to the functions below."""
    if is_plain(message):
        return Item(position, tokens, priority(message))
    return Item(position, tokens, priority(message), calls(message), answers(message))


def is_plain(message: Mapping[str, Any]) -> bool:
    """Tell whether a message is nothing but text, and so neither calls a tool nor answers a call."""
    return _TOOL_KEYS.isdisjoint(message) and "content" in message and type(message["content"]) is str


def priority(message: Mapping[str, Any]) -> int:
    """Return a message's own priority: a whole number from 1 to 9 under that key. Anything else is just data."""
    if "priority" not in message:
        return 0
    value = message["priority"]
    return value if type(value) is int and 0 < value <= HIGHEST_PRIORITY else 0


def is_kept(message: Mapping[str, Any], roles: Sequence[str] = KEPT_ROLES) -> bool:
    """Tell whether a message stays whatever its age: by its role, or because it says `"pinned": True`."""
    role = message.get("role")
    return (isinstance(role, str) and role.lower() in roles) or message.get("pinned") is True


def check_budget(max_tokens: int, strategy: str) -> None:
    """Refuse a budget or a strategy that means nothing, before anything is read."""
    if type(max_tokens) is not int or not 0 <= max_tokens <= MOST_TOKENS:
        raise InvalidInput(f"max_tokens must be a whole number from 0 to {MOST_TOKENS}, not {max_tokens!r:.40}")
    if strategy not in STRATEGIES:
        raise InvalidInput(f"no strategy {strategy!r:.40}; there are {', '.join(STRATEGIES)}")


def check_kept(kept: Iterable[Item], budget: int) -> int:
    """Return what the kept messages cost, or raise `BudgetExceeded` if that is more than there is."""
    needed = sum(one.tokens for one in kept)
    if needed > budget:
        raise BudgetExceeded(
            f"system and pinned messages need {needed} tokens and {budget} are left for them; "
            "raise max_tokens, unpin some, or narrow keep_roles",
            limit=budget,
            needed=needed,
        )
    return needed


def with_partners(kept: Iterable[int], near: Mapping[int, Item]) -> tuple[set[int], set[int]]:
    """Complete kept positions with the other half of their tool calls; return them, and those that have no other half.

    `near` describes the messages within `PAIR_REACH` of each kept one.
    """
    whole: set[int] = set()
    halves: set[int] = set()
    todo = sorted(kept)
    while todo:
        position = todo.pop()
        if position in whole or position in halves:
            continue
        one = near[position]
        around = range(position - PAIR_REACH, position + PAIR_REACH + 1)
        before = [p for p in around if p < position and p in near and near[p].calls & one.answers]
        after = [p for p in around if p > position and p in near and near[p].answers & one.calls]
        if one.answers - {call for p in before for call in near[p].calls}:
            halves.add(position)
            continue
        whole.add(position)
        todo += before + after
    return whole, halves


def halves(items: Sequence[Item]) -> dict[int, str]:
    """Return the messages that are half of a tool call among these, each with what it lacks.

    An id may be used again: an answer belongs to the newest call of its id before it that has none yet.
    """
    waiting: dict[str, list[int]] = {}
    lacking: dict[int, str] = {}
    answered: set[tuple[int, str]] = set()
    for one in items:
        for call in one.answers:
            if waiting.get(call):
                answered.add((waiting[call].pop(), call))
            else:
                lacking[one.position] = "no_call"
        for call in one.calls:
            waiting.setdefault(call, []).append(one.position)
    for one in items:
        if any((one.position, call) not in answered for call in one.calls):
            lacking[one.position] = "no_result"
    return lacking


def everything(items: Iterable[Item], room: int) -> Choice | None:
    """Return all of a history if it fits."""
    positions: list[int] = []
    for one in items:
        positions.append(one.position)
        room -= one.tokens
    return Choice(tuple(sorted(positions))) if room >= 0 else None


def fitting(history: Sequence[Item], kept: frozenset[int], room: int) -> Sequence[Item]:
    """Return the newest messages that cost at most `room`, whatever tool calls they split.

    Kept messages are paid for already; the newest of the others is always among them.
    """
    start, begun = len(history), False
    while start > 0:
        one = history[start - 1]
        if one.position not in kept:
            room -= one.tokens
            if room < 0 and begun:
                break
            begun = True
        start -= 1
    return history[start:]


def newest_run(history: Sequence[Item], kept: frozenset[int], room: int) -> int:
    """Return where the longest run at the end of `history` starts that costs at most `room` and splits no tool call.

    Kept messages are paid for already.
    """
    best = len(history)
    open_answers: set[str] = set()
    for place in range(len(history) - 1, -1, -1):
        one = history[place]
        if one.calls:
            open_answers -= one.calls
        if one.position not in kept:
            room -= one.tokens
            if room < 0:
                break
            if one.answers:
                open_answers |= one.answers
        if not open_answers:
            best = place
    return best


def units(history: Sequence[Item], kept: frozenset[int]) -> list[tuple[Item, ...]]:
    """Group a history into what must stay together: a tool call with its answers, or a message alone.

    An answer to a call that is not within `PAIR_REACH` before it belongs nowhere and is left out.
    """
    owner: dict[str, tuple[int, int]] = {}
    grouped: dict[int, list[Item]] = {}
    for one in history:
        if one.position in kept:
            continue
        if not all(_is_near(owner.get(call), one.position) for call in one.answers):
            continue
        homes = {owner[call][0] for call in one.answers}
        # One message may answer calls of several: they become one unit.
        home = min(homes, default=one.position)
        for other in sorted(homes - {home}):
            grouped[home] += grouped.pop(other)
            owner.update({call: (home, at) for call, (old, at) in owner.items() if old == other})
        grouped.setdefault(home, []).append(one)
        owner.update(dict.fromkeys(one.calls, (home, one.position)))
    return [tuple(sorted(group, key=lambda one: one.position)) for group in grouped.values()]


def choose_recent(history: Sequence[Item], kept: frozenset[int], room: int, *, must: bool = False) -> Choice:
    """Take the newest run that fits. With `must`, the newest message has to be in it."""
    start = newest_run(history, kept, room)
    if must and history and start == len(history) and history[-1].position not in kept:
        needed = _newest_tokens(history, kept)
        raise BudgetExceeded(
            f"the newest message needs {needed} tokens and {room} are left for it; raise max_tokens",
            limit=room,
            needed=needed,
        )
    positions = kept.union([one.position for one in history[start:]])
    return Choice(tuple(sorted(positions)), _split(history, start, kept, room))


def choose_by_priority(history: Sequence[Item], kept: frozenset[int], room: int) -> Choice:
    """Take the newest message, then by priority, then by age, until one does not fit.

    The newest is that of the whole history, however little of it is known here: a budget must not decide which it is.
    """
    newest = max((one.position for one in history if one.position not in kept), default=-1)
    groups = units(history, kept)
    groups.sort(key=lambda group: (_end(group) != newest, -max(one.priority for one in group), -_end(group)))
    taken = _filled(groups, room)
    return Choice(tuple(sorted(kept.union(one.position for group in taken for one in group))))


def choose_relevant(
    history: Sequence[Item], found: Sequence[Sequence[Item]], kept: frozenset[int], room: int
) -> Choice:
    """Give half of the room to the newest run and half to what was found, best first; in order of arrival.

    Once everything found is in, what is left of its half goes to the run. Each of `found` is a message with the rest
    of its tool call, and may lie inside `history`.
    """
    half = room // 2
    start = newest_run(history, kept, room - half)
    paid = kept.union(one.position for one in history[start:])
    taken = _filled(found, half, paid)
    if len(taken) == len(found):
        spent = {one.position: one.tokens for group in taken for one in group if one.position not in paid}
        # Counted as spent even where the longer run takes them in: simpler, and never over the budget.
        start = min(start, newest_run(history, kept, room - sum(spent.values())))
    positions = kept.union(one.position for one in history[start:])
    return Choice(tuple(sorted(positions.union(one.position for group in taken for one in group))))


def _filled(order: Iterable[Sequence[Item]], room: int, paid: frozenset[int] = frozenset()) -> list[Sequence[Item]]:
    bought = set(paid)
    taken: list[Sequence[Item]] = []
    for group in order:
        room -= sum(one.tokens for one in group if one.position not in bought)
        if room < 0:
            break
        bought.update(one.position for one in group)
        taken.append(group)
    return taken


def with_priority(history: Sequence[Item], recent: Iterable[int], kept: frozenset[int]) -> list[Item]:
    """Return what `choose_by_priority` chooses from: the recent messages, those with a priority, and their partners."""
    wanted = set(recent).union(one.position for one in history if one.priority)
    for group in units(history, kept):
        if any(one.position in wanted for one in group):
            wanted.update(one.position for one in group)
    return [one for one in history if one.position in wanted]


def _end(group: Sequence[Item]) -> int:
    return group[-1].position if group else -1


def _is_near(owner: tuple[int, int] | None, position: int) -> bool:
    return owner is not None and position - owner[1] <= PAIR_REACH


def _split(history: Sequence[Item], start: int, kept: frozenset[int], room: int) -> dict[int, str]:
    """Name the messages just before the run that would have fitted, had they not been half of a tool call."""
    if not start:
        return {}
    room -= sum(one.tokens for one in history[start:] if one.position not in kept)
    reasons: dict[int, str] = {}
    for one in reversed(history[:start]):
        if one.position in kept:
            continue
        room -= one.tokens
        if room < 0:
            break
        reasons[one.position] = "tool_pair"
    return reasons


def _newest_tokens(history: Sequence[Item], kept: frozenset[int]) -> int:
    newest = max(units(history, kept), key=_end, default=())
    if not newest or newest[-1].position != history[-1].position:
        newest = (history[-1],)
    return sum(one.tokens for one in newest)
