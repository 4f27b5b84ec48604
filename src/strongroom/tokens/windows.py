"""A window: the messages to send, what they cost, and a receipt for what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Any

from msgspec import Struct

from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.meant import Meant
from strongroom.showing import shown_by
from strongroom.tokens.choosing import KEPT_ROLES, Dangling, check_budget, halves, is_plain, item
from strongroom.tokens.counting import Tokenizer
from strongroom.tokens.messages import count_message, count_tools
from strongroom.tokens.roles import meant, speaker


class LeftOut(Struct, frozen=True):
    """How many messages are missing for one reason, and the oldest and newest position among them.

    Reasons: `budget`, `filtered`, `tool_pair` (its other half did not fit), `summarized`, `too_large_to_summarize`,
    `no_result` (a tool call without its answer), `no_call` (an answer without its call), `starts_with`.
    """

    reason: str
    count: int
    first: int
    last: int


@shown_by("strategy", "max_tokens", "tokens_after", "messages_before", "kept", "left_out", "fallback")
class WindowReceipt(Struct, frozen=True):
    """What a window was made of.

    `kept` are positions in the history. `tokens_before` counts the whole history; where that was not read in full it is
    projected from the part that was, and `tokens_before_exact` is False. The first `stable_prefix` messages stay the
    same, word for word, when the conversation goes on, so a prompt cache can hold them. `fallback` says why a strategy
    did less than its name.
    """

    strategy: str
    max_tokens: int
    kept: tuple[int, ...]
    left_out: tuple[LeftOut, ...]
    messages_before: int
    tokens_before: int
    tokens_before_exact: bool
    tokens_after: int
    stable_prefix: int
    stable_prefix_tokens: int
    tokenizer: str
    fallback: str | None = None


@shown_by("messages", "total_tokens", "approximate", "receipt.strategy")
class Window(Meant, Struct, frozen=True):
    """Messages in order of arrival that cost `total_tokens`, tool schemas and system prompt included.

    >>> ctx = strongroom.open("memory://")
    >>> chat = ctx.sessions.open("support-7")
    >>> _ = chat.append([{"role": "user", "content": f"message {number}"} for number in range(1000)])
    >>> window = chat.window(max_tokens=100)
    >>> window.messages[-1]["content"], window.total_tokens <= 100
    ('message 999', True)
    """

    messages: list[Any]
    total_tokens: int
    approximate: bool
    receipt: WindowReceipt


class Frame(Struct, frozen=True):
    """Everything about a window but the history: its budget, and what else has to fit into it."""

    max_tokens: int
    strategy: str
    tokenizer: Tokenizer
    system: str | None
    fixed_tokens: int
    reserve_tokens: int
    keep_roles: tuple[str, ...]
    dangling: Dangling = "leave_out"
    starts_with: str | None = None

    @property
    def room(self) -> int:
        """The tokens left for messages of the history."""
        return self.max_tokens - self.fixed_tokens - self.reserve_tokens


class History(Struct, frozen=True):
    """What is known of the whole history: how many messages and tokens, and its positions.

    `upward(start)` goes through the positions from `start` on, `downward()` from the newest back.
    """

    messages: int
    tokens: int
    exact: bool
    upward: Callable[[int], Iterable[int]]
    downward: Callable[[], Iterable[int]]


class Placed(Struct, frozen=True):
    """A message of the window with its position (None for a summary) and cost, and whether it is known to be plain."""

    position: int | None
    message: Any
    tokens: int
    plain: bool = False


def frame(
    max_tokens: int,
    strategy: str,
    tokenizer: Tokenizer,
    *,
    system: str | None = None,
    tools: Sequence[Any] = (),
    reserve_tokens: int = 0,
    keep_roles: Sequence[str] = KEPT_ROLES,
    dangling: Dangling = "leave_out",
    starts_with: str | None = None,
) -> Frame:
    """Count what is sent besides the history, and refuse a budget that this alone exceeds."""
    check_budget(max_tokens, strategy)
    if type(reserve_tokens) is not int or reserve_tokens < 0:
        raise InvalidInput(f"reserve_tokens must be a whole number, 0 or more, not {reserve_tokens!r:.40}")
    if not set(keep_roles) <= set(KEPT_ROLES):
        raise InvalidInput(f"keep_roles may name {' and '.join(KEPT_ROLES)}, not {tuple(keep_roles)!r:.60}; pin others")
    fixed = count_tools(tools, tokenizer)
    if system is not None:
        fixed += count_message(system_message(system), tokenizer)
    if dangling not in ("leave_out", "keep"):
        raise InvalidInput(f"dangling must be 'leave_out' or 'keep', not {dangling!r:.40}")
    roles = tuple(keep_roles)
    made = Frame(max_tokens, strategy, tokenizer, system, fixed, reserve_tokens, roles, dangling, starts_with)
    if made.room < 0:
        raise BudgetExceeded(
            f"system prompt, tools and reserve need {fixed + reserve_tokens} of {max_tokens} tokens; raise max_tokens",
            limit=max_tokens,
            needed=fixed + reserve_tokens,
        )
    return made


def system_message(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def assemble(
    framing: Frame,
    chosen: Sequence[Placed],
    kept: frozenset[int],
    history: History,
    reasons: Mapping[int, str],
    *,
    summarized: tuple[int, int] = (0, 0),
    fallback: str | None = None,
) -> Window:
    """Put a window together. `summarized` is how many messages the summary covers and the position it reaches to.

    What a provider would refuse is left out here: half a tool call, and what comes before the role it starts with.
    """
    refused = _refused(framing, chosen, kept)
    if refused:
        reasons = {**reasons, **refused}
        chosen = [placed for placed in chosen if placed.position not in refused]
    messages = [placed.message for placed in chosen]
    tokens = sum([placed.tokens for placed in chosen])
    positions = tuple([placed.position for placed in chosen if placed.position is not None])
    if len(positions) == history.messages:
        lead = list(chosen)
    else:
        lead = []
        for placed in chosen:
            if placed.position not in kept:
                break
            lead.append(placed)
    prefix_tokens = sum(placed.tokens for placed in lead)
    prefix = len(lead)
    if framing.system is not None:
        messages.insert(0, system_message(framing.system))
        prefix += 1
        prefix_tokens += count_message(messages[0], framing.tokenizer)
    total = framing.fixed_tokens + tokens
    assert total <= framing.max_tokens - framing.reserve_tokens, "a window must never exceed its budget"
    receipt = WindowReceipt(
        strategy=framing.strategy,
        max_tokens=framing.max_tokens,
        kept=positions,
        left_out=_left_out(history, frozenset(positions), reasons, *summarized),
        messages_before=history.messages,
        tokens_before=history.tokens,
        tokens_before_exact=history.exact,
        tokens_after=total,
        stable_prefix=prefix,
        stable_prefix_tokens=prefix_tokens,
        tokenizer=framing.tokenizer.name,
        fallback=fallback,
    )
    return Window(messages, total, framing.tokenizer.approximate, receipt)


def _refused(framing: Frame, chosen: Sequence[Placed], kept: frozenset[int]) -> dict[int, str]:
    """Return the positions of what may not be sent, and why."""
    if framing.starts_with is None and all(placed.plain or is_plain(placed.message) for placed in chosen):
        return {}
    left = {placed.position: placed for placed in chosen if placed.position is not None}
    refused: dict[int, str] = {}
    while True:
        items = [item(placed.message, place, 0) for place, placed in left.items()]
        found = halves(items) if framing.dangling == "leave_out" else {}
        found = {place: lacks for place, lacks in found.items() if place not in kept}  # what is pinned was asked for
        if framing.starts_with is not None:
            for place in sorted(left.keys() - kept - found.keys()):
                if speaker(left[place].message) == meant(framing.starts_with):
                    break
                found[place] = "starts_with"
        if not found:
            return refused
        refused |= found
        left = {place: placed for place, placed in left.items() if place not in found}


def _left_out(
    history: History, chosen: frozenset[int], reasons: Mapping[int, str], covered: int, reach: int
) -> tuple[LeftOut, ...]:
    named: dict[str, list[int]] = {}
    for position, reason in sorted(reasons.items()):
        if position not in chosen:
            named.setdefault(reason, []).append(position)
    found = {reason: LeftOut(reason, len(places), places[0], places[-1]) for reason, places in named.items()}
    accounted = chosen.union(reasons)
    if covered:
        first = next(filterfalse(accounted.__contains__, history.upward(0)))
        found["summarized"] = LeftOut("summarized", covered, first, reach - 1)
    rest = history.messages - len(accounted) - covered
    if rest > 0:
        # Both walks pass over what is in the window at most, however long the history is.
        first = next(filterfalse(accounted.__contains__, history.upward(reach)))
        last = next(filterfalse(accounted.__contains__, history.downward()))
        found["budget"] = LeftOut("budget", rest, first, last)
    return tuple(found[reason] for reason in sorted(found))
