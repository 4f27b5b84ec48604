"""`fit`: what `Session.window` does, for a plain list of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from strongroom.arguments import checked
from strongroom.errors import InvalidInput
from strongroom.tokens.choosing import (
    KEPT_ROLES,
    Choice,
    Dangling,
    Item,
    Strategy,
    check_kept,
    choose_by_priority,
    choose_recent,
    choose_relevant,
    everything,
    fitting,
    is_kept,
    item,
    newest_run,
    units,
    with_partners,
    with_priority,
)
from strongroom.tokens.counting import Tokenizer
from strongroom.tokens.counting import tokenizer as find_tokenizer
from strongroom.tokens.messages import count_message
from strongroom.tokens.relevance import rank
from strongroom.tokens.summarising import Progress, summarising, summary_message
from strongroom.tokens.windows import Frame, History, Placed, Window, assemble, frame

Summarizer = Callable[[list[dict[str, Any]]], Any]
Filter = Callable[[Mapping[str, Any]], bool]

RELEVANT_HITS = 10


class Share(Struct, frozen=True):
    """How much of a window a summary may take, and how much its maker may be given at once."""

    summary_tokens: int
    input_tokens: int


def share_of(framing: Frame, room: int, summary_tokens: int | None, input_tokens: int | None) -> Share:
    """Fill in what the caller left open: a quarter of the window, and inputs of a window's size or 2,000 tokens."""
    return Share(
        min(framing.max_tokens // 4 if summary_tokens is None else summary_tokens, room),
        max(framing.max_tokens, 2000) if input_tokens is None else input_tokens,
    )


@checked
def fit(
    messages: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    budget: int,
    strategy: Strategy = "truncate_oldest",
    tokenizer: str | Tokenizer | Callable[[str], Any] = "default",
    *,
    where: Filter | None = None,
    query: str | None = None,
    summarizer: Summarizer | None = None,
    summary_tokens: int | None = None,
    input_tokens: int | None = None,
    system: str | None = None,
    tools: Sequence[Any] = (),
    reserve_tokens: int = 0,
    keep_roles: Sequence[str] = KEPT_ROLES,
    dangling: Dangling = "leave_out",
    starts_with: str | None = None,
) -> Window:
    """Choose the messages of a list, or one, that fit into `budget` tokens. Nothing is changed; positions are indexes.

    The same decisions as `Session.window`. `where` filters before the cut. `summarizer` must be a plain function here.
    """
    framing = frame(
        budget,
        strategy,
        find_tokenizer(tokenizer),
        system=system,
        tools=tools,
        reserve_tokens=reserve_tokens,
        keep_roles=keep_roles,
        dangling=dangling,
        starts_with=starts_with,
    )
    if isinstance(messages, Mapping):
        messages = [messages]
    costs = [count_message(message, framing.tokenizer) for message in messages]
    reasons = {place: "filtered" for place, message in enumerate(messages) if where and not where(message)}
    items = {
        place: item(message, place, costs[place]) for place, message in enumerate(messages) if place not in reasons
    }
    before = History(
        len(messages),
        sum(costs),
        True,
        lambda start: range(start, len(costs)),
        lambda: reversed(range(len(costs))),
    )
    asked = [place for place in items if is_kept(messages[place], framing.keep_roles)]
    whole, halves = with_partners(asked, items)
    kept = frozenset(whole)
    choice = everything(items.values(), framing.room)
    if choice is not None:
        return assemble(framing, _placed(choice.positions, messages, costs), kept, before, reasons)
    room = framing.room - check_kept((items[place] for place in kept), framing.room)
    reasons |= dict.fromkeys(halves, "tool_pair")
    turns = [one for place, one in items.items() if place not in halves]
    fallback = None
    if strategy == "summarize_oldest":
        share = share_of(framing, room, summary_tokens, input_tokens)
        start = newest_run(turns, kept, room - share.summary_tokens)
        older = [one for one in turns[:start] if one.position not in kept]
        progress = _summarise([messages[one.position] for one in older], older, summarizer, framing, share)
        fallback = progress.failure
        if progress.summary is not None:
            reasons |= {older[place].position: "too_large_to_summarize" for place in progress.too_large}
            chosen = _placed(sorted(kept.union(one.position for one in turns[start:])), messages, costs)
            summary = Placed(None, summary_message(progress.summary.text), progress.summary.tokens)
            return assemble(
                framing,
                with_summary(chosen, summary, older[0].position),
                kept,
                before,
                reasons,
                summarized=(progress.summary.covers, older[progress.reached - 1].position + 1),
                fallback=fallback,
            )
    choice = _choose(framing.strategy, turns, kept, room, query, messages)
    chosen = _placed(choice.positions, messages, costs)
    return assemble(framing, chosen, kept, before, reasons | choice.reasons, fallback=fallback)


def _placed(positions: Sequence[int], messages: Sequence[Mapping[str, Any]], costs: Sequence[int]) -> list[Placed]:
    return [Placed(place, messages[place], costs[place]) for place in positions]


def with_summary(chosen: Sequence[Placed], summary: Placed, oldest: int) -> list[Placed]:
    """Put a summary where the messages it stands for began."""
    before = [placed for placed in chosen if placed.position is not None and placed.position < oldest]
    return [*before, summary, *chosen[len(before) :]]


def _choose(
    strategy: str,
    turns: list[Item],
    kept: frozenset[int],
    room: int,
    query: str | None,
    messages: Sequence[Mapping[str, Any]],
) -> Choice:
    if strategy == "priority":
        recent = [one.position for one in fitting(turns, kept, room)]
        return choose_by_priority(with_priority(turns, recent, kept), kept, room)
    if strategy == "relevant":
        if query is None:
            raise InvalidInput("strategy 'relevant' needs a query; nothing was read")
        found = rank(query, {one.position: messages[one.position] for one in turns}, RELEVANT_HITS)
        home = {one.position: group for group in units(turns, kept) for one in group}
        return choose_relevant(turns, [home[place] for place in found if place in home], kept, room)
    return choose_recent(turns, kept, room, must=strategy == "recent_only")


def _summarise(
    older: Sequence[Mapping[str, Any]],
    items: Sequence[Item],
    summarizer: Summarizer | None,
    framing: Frame,
    share: Share,
) -> Progress:
    if summarizer is None:
        return Progress(None, 0, "no_summarizer")
    steps = summarising(
        older,
        [one.tokens for one in items],
        None,
        framing.tokenizer,
        summary_tokens=share.summary_tokens,
        input_tokens=share.input_tokens,
    )
    answer: object = None
    try:
        request = next(steps)
        while True:
            try:
                answer = summarizer(request)
            except Exception as problem:
                answer = problem
            request = steps.send(answer)
    except StopIteration as stop:
        progress: Progress = stop.value
        return progress
