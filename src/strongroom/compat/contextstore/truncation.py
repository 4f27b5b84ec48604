"""ContextStore's strategies over `strongroom.tokens`: which messages stay, decided there; how it is told, decided here.

The same holds for all of them: system messages stay as long as they fit, the newest messages are an
unbroken run, and a tool call is never parted from its answers.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from strongroom.codec import encode
from strongroom.compat.contextstore.tokenizer import ModelTokenizer
from strongroom.compat.contextstore.tokenizer_interfaces import (
    SummarizerCallback,
    Tokenizer,
    TruncationResult,
    TruncationStrategy,
    ordered,
)
from strongroom.errors import InvalidInput
from strongroom.tokens import Custom, count_message
from strongroom.tokens.choosing import Choice, choose_recent, everything, is_kept, item, with_partners
from strongroom.tokens.relevance import plain_text

Messages = list[dict[str, Any]]


def cost(message: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """Return what a message costs: all a model is sent if its own tokenizer counts, otherwise the words of its text."""
    if isinstance(tokenizer, ModelTokenizer):
        return count_message(message, Custom(lambda text: tokenizer.count_tokens(text).count, name=tokenizer.name))
    text = text_of(message)
    return tokenizer.count_tokens(text).count if text else 0


def text_of(message: Mapping[str, Any]) -> str:
    """Return the words of a message, whatever shape its content has."""
    content = message.get("content")
    if isinstance(content, Mapping):
        content = content.get("text", content.get("data", content))
    if content is None or isinstance(content, str):
        return content or ""
    return plain_text({"content": content}) or encode(content).decode()


class _Recent(TruncationStrategy):
    """Keep the system messages and the longest run of the newest ones that fits beside them."""

    def apply(self, messages: Messages, token_budget: int, tokenizer: Tokenizer) -> TruncationResult:
        found = cut(ordered(messages), token_budget, tokenizer)
        if found.dropped_ids:
            found.metadata["strategy"] = self.name
        return found


class TruncateOldestStrategy(_Recent):
    """Drop the oldest messages."""

    @property
    def name(self) -> str:
        return "truncate_oldest"


class RecentOnlyStrategy(_Recent):
    """Keep the newest messages."""

    @property
    def name(self) -> str:
        return "recent_only"


class SummarizeOldestStrategy(TruncationStrategy):
    """Let a function summarise the oldest messages, `chunk_size` at a time, until the rest fits.

    Each round takes in at least one message that was not summarised before, but never the newest. A summary that is no
    shorter than what it stands for ends it, and what is left is cut.
    """

    def __init__(self, summarizer: SummarizerCallback | None = None, chunk_size: int = 5) -> None:
        if type(chunk_size) is not int or chunk_size < 1:
            raise InvalidInput(f"chunk_size must be a whole number, 1 or more, not {chunk_size!r:.40}")
        self._summarizer = summarizer
        self._chunk_size = chunk_size

    @property
    def name(self) -> str:
        return "summarize_oldest"

    def apply(self, messages: Messages, token_budget: int, tokenizer: Tokenizer) -> TruncationResult:
        turns = ordered(messages)
        costs = [cost(turn, tokenizer) for turn in turns]
        left = [place for place, turn in enumerate(turns) if not is_kept(turn)]
        done: list[int] = []
        summary: Messages = []
        tokens, summary_tokens, rounds = sum(costs), 0, 0
        reason = None if self._summarizer else "no_summarizer"
        while reason is None and left[1:] and tokens > token_budget > 0:
            chunk = left[:-1][: self._chunk_size]
            try:
                text = _answer(self._summarizer, [*summary, *(turns[place] for place in chunk)])
            except Exception as problem:
                reason = f"summarizer_failed: {type(problem).__name__}: {problem}"
                break
            rounds += 1
            made = _summary(text, turns, [*done, *chunk])
            saved = summary_tokens + sum(costs[place] for place in chunk) - cost(made, tokenizer)
            if saved <= 0:
                reason = "summary_too_long"
                break
            done, left, summary = [*done, *chunk], left[len(chunk) :], [made]
            tokens, summary_tokens = tokens - saved, cost(made, tokenizer)
        found = cut(_with(summary, turns, done), token_budget, tokenizer)
        found.tokens_before = sum(costs)
        found.summarized_ids = [_id(turns[place]) for place in done]
        if summary and summary[0] not in found.messages:
            # Not even the summary fits: what it stood for is dropped after all.
            found.dropped_ids = [*found.summarized_ids, *(one for one in found.dropped_ids if one != _id(summary[0]))]
            found.summarized_ids = []
        found.metadata = {"iterations": rounds, "strategy": self.name}
        if reason is not None and tokens > token_budget:
            name, _, error = reason.partition(": ")
            found.metadata |= {"fallback": "truncate_oldest", "fallback_reason": name, "error": error}
        return found


def cut(turns: Messages, budget: int, tokenizer: Tokenizer) -> TruncationResult:
    """Keep what fits of messages in order: the system messages first, then the newest run."""
    costs = [cost(turn, tokenizer) for turn in turns]
    items = {place: item(turn, place, costs[place]) for place, turn in enumerate(turns)}
    choice = everything(items.values(), budget) if budget > 0 else Choice(())
    if choice is None:
        kept, halves = with_partners([place for place, turn in enumerate(turns) if is_kept(turn)], items)
        if sum(costs[place] for place in kept) > budget:
            kept = set()  # not even these fit: they take their chance with the others
        room = budget - sum(costs[place] for place in kept)
        run = [one for place, one in items.items() if place not in halves]
        choice = choose_recent(run, frozenset(kept), room)
    stay = set(choice.positions)
    return TruncationResult(
        [turns[place] for place in choice.positions],
        sum(costs),
        sum(costs[place] for place in stay),
        [_id(turn) for place, turn in enumerate(turns) if place not in stay],
        metadata={"iterations": int(len(stay) < len(turns))},
    )


def get_strategy(name: str, **opts: Any) -> TruncationStrategy:
    """Return the strategy of that name, or raise `ValueError`."""
    if name not in STRATEGIES:
        raise InvalidInput(f"Unknown strategy {name!r:.40}; there are {', '.join(STRATEGIES)}")
    if name != "summarize_oldest":
        return STRATEGIES[name]()
    return SummarizeOldestStrategy(opts.get("summarizer"), opts.get("chunk_size", 5))


STRATEGIES: dict[str, type[TruncationStrategy]] = {
    "truncate_oldest": TruncateOldestStrategy,
    "recent_only": RecentOnlyStrategy,
    "summarize_oldest": SummarizeOldestStrategy,
}


def _summary(text: str, turns: Messages, places: Sequence[int]) -> dict[str, Any]:
    first = turns[places[0]]
    return {
        "id": f"summary_{_id(first)}",
        "role": "system",
        "content": text,
        **{name: first[name] for name in ("timestamp",) if name in first},
        "metadata": {"is_summary": True, "summarized_count": len(places)},
    }


def _with(summary: Messages, turns: Messages, places: Sequence[int]) -> Messages:
    """Put a summary where the messages it stands for began."""
    if not summary:
        return turns
    gone, first = frozenset(places), places[0]
    rest = [(place, turn) for place, turn in enumerate(turns) if place not in gone]
    before = [turn for place, turn in rest if place < first]
    return [*before, *summary, *(turn for place, turn in rest if place > first)]


def _answer(summarizer: Any, messages: Messages) -> str:
    answer = summarizer(messages)
    if inspect.isawaitable(answer):
        # There may be an event loop running here, which this call must not enter again: another thread has none.
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(asyncio.run, _awaited(answer)).result()
    if not isinstance(answer, str):
        raise InvalidInput(f"a summarizer must return a text, not a {type(answer).__name__}")
    return answer


async def _awaited(answer: Any) -> Any:
    return await answer


def _id(message: Mapping[str, Any]) -> str:
    return str(message.get("id", ""))
