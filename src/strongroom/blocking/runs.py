"""Runs for blocking code: the names of `services.runs.runs` and `services.runs.run`, each running to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from strongroom.arguments import checked, got_by
from strongroom.bridge import blocking, iterate, plain, run
from strongroom.meant import Meant, Unsettable
from strongroom.payloads import EventType
from strongroom.services.memories.values import Batch, Written
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.values import Cursor, Episode, Event, Eviction, Listing, RunConfig, Step, UpdateFields, WorkingSet


@got_by("`ctx.runs.create(objective=...)`, or `ctx.runs.get(run_id)`", lambda given: isinstance(given, AsyncRun))
class Run(Unsettable):
    """A run: its working set, ledger, episodes and artifacts. Made by `ctx.runs`.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> run.update(status="BUSY", next_action="call the carrier").seq
    1
    >>> run.record("TOOL_CALL", {"tool_name": "track", "arguments": {"order": 7}}).type
    'TOOL_CALL'
    >>> run.verify().ok
    True
    """

    _GOT_BY = " (`ctx.runs.get(...)`)"  # see `AsyncRun`

    def __init__(self, run: AsyncRun) -> None:
        self._async = run

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} seq={self.seq} status={self.working_set.status}>"

    @property
    def id(self) -> str:
        """The run's name in its space."""
        return self._async.id

    @property
    def working_set(self) -> WorkingSet:
        """The state this handle saw last; `refresh` looks again."""
        return self._async.working_set

    @property
    def state(self) -> Any:
        """The run's own state as this handle saw it last: JSON, or an instance of its type; None if there is none.

        None and `{}` are told apart: ask `"x" in (run.state or {})`, or start the run with `state={}`. It is the same
        object until this handle sees another version; editing it changes nothing before `update(state=run.state)`.
        """
        return self._async.state

    @property
    def seq(self) -> int:
        """How many updates this handle has seen: what the next one expects."""
        return self._async.seq

    @property
    def config(self) -> RunConfig:
        """What the run was started with: limits of the working set, when milestones are due."""
        return self._async.config

    @property
    def user_id(self) -> str | None:
        """Whose run it is, as this handle saw it last; None if nobody's."""
        return self._async.user_id

    @property
    def created_at(self) -> datetime:
        """When the run's first event was recorded."""
        return self._async.created_at

    @property
    def eviction(self) -> Eviction | None:
        """What the last update through this handle had to leave out (None: nothing)."""
        return self._async.eviction

    refresh = blocking(AsyncRun.refresh)
    update = blocking(AsyncRun.update)
    rollback = blocking(AsyncRun.rollback)
    record = blocking(AsyncRun.record)
    events = blocking(AsyncRun.events)
    usage = blocking(AsyncRun.usage)
    head = blocking(AsyncRun.head)
    anchor = blocking(AsyncRun.anchor)
    verify = blocking(AsyncRun.verify)
    at = blocking(AsyncRun.at)
    diff = blocking(AsyncRun.diff)
    episodes = blocking(AsyncRun.episodes)
    brief = blocking(AsyncRun.brief)

    attach = blocking(AsyncRun.attach)
    export = blocking(AsyncRun.export)

    @checked
    def update_with(
        self,
        decide: Callable[[WorkingSet], UpdateFields | None],
        *,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> WorkingSet:
        """Read, let `decide` return the fields to replace ({} or None: nothing), commit; again if somebody was faster.

        What `decide` says is not part of what a `commit_id` stands for: a repeat does not ask it.
        """
        plain("decide", decide, writes=True)
        return run(self._async.update_with(decide, actor=actor, parent=parent, commit_id=commit_id))

    @checked
    def milestone(
        self,
        reason: str = "",
        *,
        memory_batch_id: Batch | Written | str | None = None,
        next_entry_point: str = "",
        reviewer: str | None = None,
        summarizer: Callable[[Sequence[Event]], str] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        commit_id: str | None = None,
    ) -> Episode:
        """Freeze what happened since the last milestone; commit a batch of memories with it. All in one commit.

        A batch needs a `reviewer`, as with `ctx.memories.commit`: nobody approves what they proposed themselves.
        """
        plain("summarizer", summarizer, writes=True)
        making = self._async.milestone(
            reason,
            memory_batch_id=memory_batch_id,
            next_entry_point=next_entry_point,
            reviewer=reviewer,
            summarizer=summarizer,
            actor=actor,
            parent=parent,
            commit_id=commit_id,
        )
        return run(making)

    def fork(
        self,
        seq: int | None = None,
        *,
        run_id: str | None = None,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> Run:
        """Start a new run from what this one was after update `seq` (default: now). This one stays as it is."""
        return Run(run(self._async.fork(seq, run_id=run_id, actor=actor, commit_id=commit_id)))

    def artifact(self, artifact_id: str) -> Iterator[bytes]:
        """Yield an artifact's content in chunks; raise `Damaged` if it is not what was stored."""
        return iterate(self._async.artifact(artifact_id))

    def follow(self, *, after: Cursor = None, idle_seconds: float | None = None) -> Iterator[Event]:
        """Yield the events after sequence id `after`, then each new one as it is recorded, by whatever process.

        Ends only if `idle_seconds` pass without a new event.
        """
        return iterate(self._async.follow(after=after, idle_seconds=idle_seconds))

    def replay(self) -> Iterator[Step]:
        """Yield every event up to now, in order, with the working set after it."""
        return iterate(self._async.replay())


def _page(page: Listing[AsyncRun]) -> Listing[Run]:
    return Listing(map(Run, page), page.next, page.damaged)


@got_by("`ctx.runs`", lambda given: isinstance(given, AsyncRuns))
class Runs(Meant):
    """The runs of one space.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket", run_id="ticket-7")
    >>> ctx.runs.get("ticket-7").working_set.objective
    'Answer a ticket'
    >>> [run.id for run in ctx.runs.list()]
    ['ticket-7']
    """

    def __init__(self, runs: AsyncRuns) -> None:
        self._async = runs

    def __repr__(self) -> str:
        return repr(self._async)

    def register_event(self, type: str, schema: Mapping[str, Any]) -> EventType:
        """Let runs of this context record events of a `custom.` type, checked against a JSON Schema.

        Returns the type as `record` takes it, so that a type checker knows it for one.
        """
        return self._async.register_event(type, schema)

    def anchor_milestones(self, path: str | os.PathLike[str] | None, *, signing_key: bytes | None = None) -> None:
        """Let every milestone of this context's runs end with an anchor in this file (None: no longer)."""
        self._async.anchor_milestones(path, signing_key=signing_key)

    create = blocking(AsyncRuns.create, wrap=Run)
    open = blocking(AsyncRuns.open, wrap=Run)
    get = blocking(AsyncRuns.get, wrap=Run)
    restore = blocking(AsyncRuns.restore, wrap=Run)
    erase = blocking(AsyncRuns.erase)
    list = blocking(AsyncRuns.list, wrap=_page)
