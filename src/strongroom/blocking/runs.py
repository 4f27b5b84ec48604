"""Runs for blocking code: the names of `services.runs.runs` and `services.runs.run`, each running to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strongroom.bridge import blocking, iterate, run
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.values import Event, Eviction, Listing, RunConfig, Step, WorkingSet


class Run:
    """A run: its working set, ledger, episodes and artifacts. Made by `ctx.runs`."""

    def __init__(self, run: AsyncRun) -> None:
        self._async = run

    @property
    def id(self) -> str:
        return self._async.id

    @property
    def working_set(self) -> WorkingSet:
        """The state this handle saw last; `refresh` looks again."""
        return self._async.working_set

    @property
    def seq(self) -> int:
        return self._async.seq

    @property
    def config(self) -> RunConfig:
        return self._async.config

    @property
    def eviction(self) -> Eviction | None:
        """What the last update through this handle had to leave out (None: nothing)."""
        return self._async.eviction

    refresh = blocking(AsyncRun.refresh)
    update = blocking(AsyncRun.update)
    update_with = blocking(AsyncRun.update_with)
    rollback = blocking(AsyncRun.rollback)
    record = blocking(AsyncRun.record)
    events = blocking(AsyncRun.events)
    head = blocking(AsyncRun.head)
    verify = blocking(AsyncRun.verify)
    at = blocking(AsyncRun.at)
    diff = blocking(AsyncRun.diff)
    milestone = blocking(AsyncRun.milestone)
    episodes = blocking(AsyncRun.episodes)
    brief = blocking(AsyncRun.brief)

    attach = blocking(AsyncRun.attach)
    export = blocking(AsyncRun.export)

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

    def follow(self, *, after: int = 0, idle_seconds: float | None = None) -> Iterator[Event]:
        """See `AsyncRun.follow`."""
        return iterate(self._async.follow(after=after, idle_seconds=idle_seconds))

    def replay(self) -> Iterator[Step]:
        """Yield every event up to now, in order, with the working set after it."""
        return iterate(self._async.replay())


class RunPage(Listing[Run]):
    """A page of runs, and the cursor of the next page (None at the end)."""


def _page(page: Listing[AsyncRun]) -> RunPage:
    made = RunPage((Run(run) for run in page), page.next)
    assert isinstance(made, RunPage)
    return made


class Runs:
    """The runs of one space."""

    def __init__(self, runs: AsyncRuns) -> None:
        self._async = runs

    def register_event(self, type: str, schema: Mapping[str, Any]) -> None:
        """Let runs of this context record events of a `custom.` type, checked against a JSON Schema."""
        self._async.register_event(type, schema)

    create = blocking(AsyncRuns.create, wrap=Run)
    get = blocking(AsyncRuns.get, wrap=Run)
    restore = blocking(AsyncRuns.restore, wrap=Run)
    erase = blocking(AsyncRuns.erase)
    list = blocking(AsyncRuns.list, wrap=_page)
