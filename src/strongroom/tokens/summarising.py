"""Shrinking the oldest part of a history with a function of the caller's, step by step and without any I/O.

`summarising` is a generator: it yields the messages to summarise and is sent the summary. Whoever drives it may call a
plain function or await a model; the decisions stay here. Each step takes in at least one message, so it always ends.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from strongroom.tokens.counting import Tokenizer
from strongroom.tokens.messages import count_message

MAX_CALLS = 16  # of the summariser for one window; what is left waits for the next one


class Summary(Struct, frozen=True):
    """What stands for the oldest messages: the text, how many messages it took in, and what it costs."""

    text: str
    covers: int
    tokens: int


class Progress(Struct, frozen=True):
    """How far summarising came: the first `reached` messages are done with, for better or worse.

    `failure` says why it stopped early, `too_large` which messages no input had room for.
    """

    summary: Summary | None
    reached: int
    failure: str | None = None
    too_large: tuple[int, ...] = ()


def summary_message(text: str) -> dict[str, Any]:
    """Return the message that stands for what was summarised."""
    return {"role": "system", "content": f"Summary of the conversation so far:\n{text}"}


def summarising(
    messages: Sequence[Mapping[str, Any]],
    tokens: Sequence[int],
    summary: Summary | None,
    tokenizer: Tokenizer,
    *,
    summary_tokens: int,
    input_tokens: int,
) -> Generator[list[dict[str, Any]], object, Progress]:
    """Extend `summary` over `messages`, which follow what it covers. Send each yield the answer, or the exception.

    No input is larger than `input_tokens`, and a summary larger than `summary_tokens` is refused: it would only move
    the problem. A failure keeps what was reached before it.
    """
    place = 0
    done = Progress(summary, 0)
    for _ in range(MAX_CALLS):
        batch, too_large, place = _batch(tokens, place, input_tokens - (summary.tokens if summary else 0))
        skipped = done.too_large + too_large
        if not batch:
            return Progress(summary, place, None, skipped)
        before = [summary_message(summary.text)] if summary else []
        answer = yield before + [dict(messages[one]) for one in batch]
        cost = count_message(summary_message(answer), tokenizer) if isinstance(answer, str) else 0
        failure = _failure(answer, cost, summary_tokens)
        if failure is not None:
            return Progress(done.summary, done.reached, failure, done.too_large)
        assert isinstance(answer, str)
        summary = Summary(answer, (summary.covers if summary else 0) + len(batch), cost)
        done = Progress(summary, place, None, skipped)
    return done


def _batch(tokens: Sequence[int], place: int, room: int) -> tuple[list[int], tuple[int, ...], int]:
    batch: list[int] = []
    too_large: list[int] = []
    while place < len(tokens):
        if tokens[place] <= room:
            room -= tokens[place]
            batch.append(place)
        elif batch:
            break
        else:
            too_large.append(place)
        place += 1
    return batch, tuple(too_large), place


def _failure(answer: object, cost: int, allowed: int) -> str | None:
    if isinstance(answer, Exception):
        return f"summarizer_failed: {type(answer).__name__}: {answer}"
    if not isinstance(answer, str) or not answer.strip():
        return "summarizer_failed: it returned no text"
    return f"summary_too_long: {cost} tokens, {allowed} allowed" if cost > allowed else None
