"""What a model is asked for: `strongroom learn` proposes memories from sessions, once or as a worker that follows them;
`strongroom memories consolidate` what to change about those that repeat or contradict each other.

Whatever kills it, calling it again goes on where it was: what was learnt is noted in the commit that proposes it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import click
from msgspec import Struct

from strongroom.blocking import Context
from strongroom.cli.output import as_json, as_json_line, complain, many, say, wants_json
from strongroom.cli.root import Command, Count, cli, context, suggest
from strongroom.errors import REFUSING, InvalidInput, NotFound, StrongroomError, Unavailable
from strongroom.models import Model, named
from strongroom.services.memories.consolidation import MOST_MEMORIES
from strongroom.services.memories.policy import CONSOLIDATOR, LEARNER
from strongroom.services.memories.values import Consolidated, Learnt
from strongroom.services.sessions.values import SessionInfo

PAGE = 200
OWNERS = {"user_id": "--user", "project_id": "--project"}


class Round(Struct):
    """What came of going through the sessions once."""

    sessions: int = 0
    messages: int = 0
    proposals: int = 0
    unowned: int = 0
    missing: list[str] = []
    failed: list[str] = []
    refused: list[str] = []

    def add(self, learnt: Learnt) -> None:
        self.messages += learnt.messages
        self.proposals += learnt.proposals
        self.refused += [f"session {learnt.session_id}: {one}" for one in learnt.refused]


class Pass(Struct):
    """What came of going through the memories of an owner once."""

    memories: int = 0
    groups: int = 0
    proposals: int = 0
    batches: list[str] = []
    refused: list[str] = []

    def add(self, done: Consolidated) -> None:
        self.memories += 0 if done.left else done.memories  # the same are looked at again
        self.groups += done.groups
        self.proposals += done.proposals
        self.batches += [done.batch_id] if done.batch_id else []
        self.refused += done.refused


MODEL = click.option(
    "--model", required=True, envvar="STRONGROOM_MODEL", help="Who is asked (key: STRONGROOM_MODEL_KEY)."
)


@cli.command()
@click.argument("session_ids", nargs=-1, metavar="[SESSION]...")
@MODEL
@click.option("--user", "user_id", help="Whose the memories are (default: the session's own user).")
@click.option("--project", "project_id", help="The project whose they are.")
@click.option("--everybody", is_flag=True, help="They are everybody's.")
@click.option("--proposer", default=LEARNER, show_default=True, help="In whose name they are proposed.")
@click.option("--follow", is_flag=True, help="Go on with what is said next, until told to stop.")
@click.option("--every", default=5.0, show_default=True, type=click.FloatRange(0.05, 86_400), help="Pause in seconds.")
def learn(
    session_ids: tuple[str, ...], model: str, everybody: bool, follow: bool, every: float, **whose: str | None
) -> None:
    """Propose memories from what is new in sessions.

    MODEL is openai:NAME, anthropic:NAME, https://host/v1#NAME (OpenAI-compatible), anthropic+https://host/v1#NAME, or
    module:function. What it suggests waits for a review.
    """
    options = _options(model, everybody, whose)
    with context() as ctx, _until_told() as stopped:
        sweep = Sweep(ctx, session_ids, options, stopped)
        while True:
            made = Round(missing=[], failed=[], refused=[])
            try:
                sweep.learn(made)
            except Unavailable as problem:
                if not follow or problem.reason in REFUSING:
                    raise
                sweep.complain("", str(problem))  # it may come back
            if not follow or stopped.is_set():
                break
            if made.messages:
                _tell(made, line=True)
            if stopped.wait(every):
                break
    if follow:
        return
    _tell(made)
    if code := 3 if made.failed else 1 if made.missing else 130 if stopped.is_set() else 0:
        raise click.exceptions.Exit(code)


@click.command("consolidate", cls=Command)
@MODEL
@click.option("--user", "user_id", help="Whose memories.")
@click.option("--project", "project_id", help="The project whose they are.")
@click.option("--everybody", is_flag=True, help="Those of everybody.")
@click.option("--proposer", default=CONSOLIDATOR, show_default=True, help="In whose name it is proposed.")
@click.option("--newest", is_flag=True, help="Look at the newest only.")
@click.option("--limit", default=50, show_default=True, type=Count(MOST_MEMORIES), help="At a time.")
def consolidate(model: str, everybody: bool, newest: bool, limit: int, **whose: str | None) -> None:
    """Propose what to change about memories that repeat or contradict each other.

    MODEL is named as for `strongroom learn`. What it suggests waits for a review.
    """
    if not everybody and not any(whose[name] for name in OWNERS):
        raise click.UsageError("say whose memories: --user, --project or --everybody")
    options, made, after = _options(model, everybody, whose), Pass(batches=[], refused=[]), None
    with context() as ctx:
        while True:
            done = ctx.memories.consolidate(**options, limit=limit, after=after)
            made.add(done)
            if done.left:
                continue
            after = None if newest else done.next
            if after is None:
                break
    if wants_json():
        as_json(made)
        return
    say("looked at {}, asked about {}: {}", many(made.memories, "memory"), many(made.groups, "group"),
        many(made.proposals, "proposal"))  # fmt: skip
    _tell_refused(made.refused)


def _options(model: str, everybody: bool, whose: dict[str, str | None]) -> dict[str, Any]:
    for name, value in whose.items():
        if everybody and name in OWNERS and value is not None:
            raise click.UsageError(f"--everybody and {OWNERS[name]} say two things about whose the memories are")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a function of the program's own folder
    asked: Model = named(model, os.environ.get("STRONGROOM_MODEL_KEY") or None)
    return {**whose, "model": asked, **({"scope": "global"} if everybody else {})}


class Sweep(Struct):
    """Going through sessions, again and again: which revision of each was learnt from, and what was said about it."""

    ctx: Context
    ids: Sequence[str]
    options: dict[str, Any]
    stopped: Told
    seen: dict[str, str] = {}
    said: dict[str, str] = {}

    def learn(self, made: Round) -> None:
        """Learn from every session that changed since it was seen. What one of them is refused for, others are not."""
        for id, listed in _sessions(self.ctx, self.ids):
            if self.stopped.is_set():
                return
            try:
                self._learn_from(listed or self.ctx.sessions.get(id).info(), made)
            except InvalidInput:
                raise  # what was asked for, whichever session it is
            except NotFound as problem:
                if listed is None:  # else deleted meanwhile
                    made.missing.append(id)
                    self.complain(id, str(suggest(self.ctx, problem)))
            except StrongroomError as problem:
                made.failed.append(id)
                self.complain(id, f"session {id}: {problem}")
            else:
                self.said.pop(id, None)
        self.said.pop("", None)

    def _learn_from(self, info: SessionInfo, made: Round) -> None:
        if self.seen.get(info.id) == info.revision:
            return
        if info.user_id is None and not any(self.options.get(name) for name in ("user_id", "project_id", "scope")):
            made.unowned += 1
            self.seen[info.id] = info.revision
            return
        made.sessions += 1
        while not self.stopped.is_set():
            learnt = self.ctx.memories.learn(info.id, **self.options)
            made.add(learnt)
            if not learnt.left:
                self.seen[info.id] = info.revision
                return

    def complain(self, about: str, problem: str) -> None:
        """Say what is wrong, once for as long as it is the same."""
        if self.said.get(about) != problem:
            self.said[about] = problem
            complain(problem)


def _sessions(ctx: Context, ids: Sequence[str]) -> Iterator[tuple[str, SessionInfo | None]]:
    """Give the sessions that were named, or all, with what a list tells of each that can be read."""
    for id in ids:
        yield id, None
    after: str | None = None
    while not ids:
        page = ctx.sessions.list(after=after, limit=PAGE)
        for info in page:
            yield info.id, info
        for id in page.damaged:
            yield id, None
        if (after := page.next) is None:
            return


def _tell(made: Round, *, line: bool = False) -> None:
    if wants_json():
        (as_json_line if line else as_json)(made)
        return
    say("learnt from {} of {}: {}", many(made.messages, "message"), many(made.sessions, "session"),
        many(made.proposals, "proposal"))  # fmt: skip
    _tell_refused(made.refused)
    if made.unowned and not line:
        say("[dim]{} nobody's; say whose the memories are with --user, --project or --everybody[/]",
            f"{many(made.unowned, 'session')} {'is' if made.unowned == 1 else 'are'}")  # fmt: skip


def _tell_refused(refused: Sequence[str]) -> None:
    for one in refused:
        say("[dim]left out: {}[/]", one)


class Told:
    """Whether somebody said to stop. A queue, since a signal comes at any point: whoever waits for a `threading.Event`
    holds its lock for a moment, and a handler that sets it just then waits for ever."""

    def __init__(self) -> None:
        self._words: SimpleQueue[str] = SimpleQueue()

    def tell(self) -> None:
        self._words.put("stop")

    def is_set(self) -> bool:
        return not self._words.empty()

    def wait(self, seconds: float) -> bool:
        """Wait to be told, for so long at most; return whether it was said."""
        with suppress(Empty):
            self._words.put(self._words.get(timeout=seconds))
        return self.is_set()


@contextmanager
def _until_told() -> Iterator[Told]:
    """Have SIGTERM end the work after the answer at hand, instead of the process."""
    told = Told()
    before = None
    with suppress(ValueError):  # not in the main thread: the caller's business
        before = signal.signal(signal.SIGTERM, lambda *_: told.tell())
    try:
        yield told
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
