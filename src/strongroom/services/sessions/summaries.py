"""Windows with a summary of what no longer fits. Each summary is stored once and built upon, the originals stay.

A stored summary is good as long as the visible messages it covers are the same: it names the ranges it was made of.
Work is bounded: a long history is taken in over several windows, each going on where the last one stopped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound
from strongroom.operations import Operation, Plan, nothing, perform
from strongroom.scope import Scope
from strongroom.services.sessions.state import SESSION, SUMMARY, below, parse, size, upward
from strongroom.services.sessions.values import Message
from strongroom.services.sessions.view import PAGE, View, forward
from strongroom.services.sessions.windows import Gathered, recent_window
from strongroom.store import Append, Entry, Expect, Get, Tail
from strongroom.tokens.choosing import newest_run
from strongroom.tokens.fitting import Share, with_summary
from strongroom.tokens.messages import count_message
from strongroom.tokens.summarising import MAX_CALLS, Progress, Summary, summarising, summary_message
from strongroom.tokens.windows import Placed, Window, assemble

Summarizer = Callable[[list[dict[str, Any]]], Any]
REMEMBERED = 8


class StoredSummary(Struct, frozen=True):
    """A record of the stream of summaries: the text, how many messages it took in, and the ranges they lie in."""

    text: str
    covers: int
    stop: int
    ranges: list[tuple[int, int]]


async def summary_window(gathered: Gathered, summarizer: Summarizer | None, share: Share) -> Window:
    """The newest messages that fit, and before them a summary of the others."""
    start = newest_run(gathered.recent, gathered.kept, gathered.room - share.summary_tokens)
    run = gathered.recent[start:]
    view = gathered.reading.view
    edge = run[0].position if run else view.length
    shared = gathered.reading.where is None  # what a filter let through is of no use to anybody else
    stored = await _best(view, edge, share.summary_tokens) if shared else None
    messages = await _gap(gathered, stored.stop if stored else 0, edge, share)
    known = None
    if stored is not None:
        known = Summary(stored.text, stored.covers, count_message(summary_message(stored.text), view.tokenizer))
    progress = await _drive(messages, known, summarizer, gathered, share)
    if progress.summary is None:
        return recent_window(gathered, fallback=progress.failure)
    reach = messages[progress.reached - 1].index + 1 if progress.reached else (stored.stop if stored else 0)
    if shared and progress.summary is not known:
        await _store(view, progress.summary, reach)
    return _assembled(gathered, {one.position for one in run}, messages, progress, min(reach, edge))


def _assembled(gathered: Gathered, run: set[int], messages: list[Message], progress: Progress, reach: int) -> Window:
    view = gathered.reading.view
    summary = progress.summary
    assert summary is not None
    too_large = {messages[place].index: "too_large_to_summarize" for place in progress.too_large}
    reasons = gathered.reasons | dict.fromkeys(gathered.reading.filtered, "filtered") | too_large
    value = Message(
        summary_message(summary.text),
        id=f"summary.{reach}",
        index=-1,
        micros=view.scope.clock(),
        tokens=summary.tokens,
    )
    chosen = gathered.placed(sorted(gathered.kept | run))
    covered = size(below(view.state.visible, reach)) - sum(
        1 for index in {*gathered.kept, *run, *reasons} if index < reach
    )
    # A filter decides about every message of the gap, and then nothing older is covered by a stored summary.
    filtered = gathered.reading.where is not None
    apart = gathered.kept | gathered.reasons.keys()
    others = (index for index in upward(view.stretches, 0) if index not in apart)
    oldest = messages[0].index if filtered else next(others, 0)
    return assemble(
        gathered.framing,
        with_summary(chosen, Placed(None, value, summary.tokens), oldest),
        gathered.kept,
        gathered.history(),
        reasons,
        summarized=(max(covered, 0), reach),
        fallback=progress.failure,
    )


async def _best(view: View, edge: int, summary_tokens: int) -> StoredSummary | None:
    """Return the stored summary that goes furthest without overlapping the newest messages, else one that does."""
    part = await view.scope.get(Tail(view.side(SUMMARY), REMEMBERED))
    found = [msgspec.json.decode(record.body, type=StoredSummary) for record in part.records if record.body]
    good = [
        one
        for one in found
        if one.ranges == below(view.state.visible, one.stop)
        and count_message(summary_message(one.text), view.tokenizer) <= summary_tokens
    ]
    return max(good, key=lambda one: (one.stop <= edge, one.stop if one.stop <= edge else -one.stop), default=None)


async def _gap(gathered: Gathered, start: int, edge: int, share: Share) -> list[Message]:
    """Return the messages between a summary and the newest ones, as far as one window can take them in."""
    view, where = gathered.reading.view, gathered.reading.where
    room = MAX_CALLS * share.input_tokens
    found: list[Message] = []
    while room > 0:
        records = [record for record in await forward(view, start, PAGE) if record.index < edge]
        if not records:
            break
        start = records[-1].index + 1
        for message in view.messages(records):
            # What is kept is sent as it is; half of a tool call is left out for a reason of its own.
            if message.index in gathered.kept or message.index in gathered.reasons:
                continue
            if where is not None and not where(message):
                continue
            found.append(message)
            room -= message.tokens
    return found


async def _drive(
    messages: list[Message],
    known: Summary | None,
    summarizer: Summarizer | None,
    gathered: Gathered,
    share: Share,
) -> Progress:
    if summarizer is None:
        return Progress(known, 0, "no_summarizer" if messages else None)
    steps = summarising(
        messages,
        [message.tokens for message in messages],
        known,
        gathered.reading.view.tokenizer,
        summary_tokens=share.summary_tokens,
        input_tokens=share.input_tokens,
    )
    answer: object = None
    try:
        request = next(steps)
        while True:
            try:
                answer = summarizer(request)
                if inspect.isawaitable(answer):
                    answer = await answer
            except Exception as problem:
                answer = problem
            request = steps.send(answer)
    except StopIteration as stop:
        progress: Progress = stop.value
        return progress


async def _store(view: View, summary: Summary, stop: int) -> None:
    body = StoredSummary(summary.text, summary.covers, stop, below(view.state.visible, stop))
    with suppress(Conflict, NotFound):
        # The session was deleted meanwhile. The window was good when it was asked for; there is nothing to keep it for.
        await keep(view.scope, view.id, body, summary.tokens)


async def keep(
    scope: Scope, session_id: str, summary: StoredSummary, tokens: int, commit_id: str | None = None
) -> None:
    """Store a summary of messages of a session, for the windows to come."""
    key = scope.key(SESSION, session_id)
    told = msgspec.to_builtins(summary)

    async def attempt() -> Plan[None]:
        document = await scope.get(Get(key))
        state = None if document is None else parse(document.value)
        # What was hidden or erased meanwhile must not come into the store in a summary's words.
        if document is None or state is None or summary.ranges != below(state.visible, summary.stop):
            raise Conflict("other messages are visible by now; nothing changed", expected=0, actual=0, key=key)
        record = Entry("summary", encode(told), weight=tokens, at=scope.clock())
        writes = (Append(scope.key(SUMMARY, session_id), (record,)),)
        return Plan((Expect(key, document.version),), writes, lambda _: None)

    operation = Operation("session.summarize", key, encode({"summary": told, "tokens": tokens}), commit_id)
    await perform(scope, operation, attempt, nothing)
