"""Every interleaving, every crash point, every unknown outcome of racing operations.

Theory of operation
-------------------
Services await nothing but the port, so between two verbs nothing they do can be seen by anybody else: the only thing
a scheduler can decide is whose verb comes next. `Stepped` is a store that suspends before each verb; `explore` runs
the programs over it again and again and takes another decision each time, depth first, until all were taken. No
thread, no clock and no chance is involved, so a schedule that fails, fails again.

Two more decisions can be explored. A *crash* abandons a program between two of its verbs. An *unknown outcome* loses
the answer of a commit, which has happened or has not: the program gets `CommitUnknown` either way.

A program and a check are written like a service::

    async def increment(store: AsyncStore) -> None: ...
    async def check(store: AsyncStore, results: Sequence[Any]) -> None: assert ...

    assert explore([increment, increment], check).failure is None
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any

from msgspec import Struct

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline, run
from strongroom.errors import CommitUnknown, StrongroomError
from strongroom.store import (
    Answer,
    AnyQuestion,
    AsyncStore,
    Commit,
    Durability,
    Key,
    Range,
    Receipt,
    Store,
    ask,
)

Program = Callable[[AsyncStore], Coroutine[Any, Any, Any]]
Check = Callable[[AsyncStore, Sequence[Any]], Awaitable[None]]

CRASHED = "crashed"
"""The result of a program that was abandoned."""


class Step(Struct, frozen=True):
    """What one program did in a schedule: `read`, `commit`, `wait`, `crash`, or a commit whose answer was lost."""

    program: int
    what: str

    def __str__(self) -> str:
        return f"{self.program}: {self.what}"


class Failure(Struct, frozen=True):
    """The first schedule that failed, what the programs returned in it, and why it failed."""

    schedule: tuple[Step, ...]
    results: tuple[Any, ...]
    error: BaseException

    def __str__(self) -> str:
        return f"{self.error!r} after {', '.join(map(str, self.schedule))}; results {self.results!r}"


class Exploration(Struct, frozen=True):
    """How many schedules were run, and the first one that failed."""

    schedules: int
    failure: Failure | None


def explore(
    programs: Sequence[Program],
    check: Check,
    *,
    setup: Program | None = None,
    always: Program | None = None,
    recover: Sequence[Program] = (),
    crashes: int = 0,
    unknowns: int = 0,
    reads_in_order: bool = False,
    make_store: Callable[[], Store] = MemoryStore,
    max_steps: int = 500,
    max_schedules: int = 200_000,
) -> Exploration:
    """Run programs in every possible order of their verbs; return how many orders there were and the first that failed.

    A schedule fails if `check` raises after it, `always` raises between two verbs of it, a program raises something
    that is not a Strongroom error (those are results for `check` to judge), or it does not end within `max_steps`. Each
    schedule starts with a fresh store, on which `setup` has run. At most `crashes` programs are abandoned and at most
    `unknowns` commits lose their answer in each; after one with a crash, the `recover` programs run one by one.

    Nobody can tell which of two reads came first if nothing was written between them. `reads_in_order` leaves out
    schedules that differ in nothing else, so that programs of many reads can be explored to the end.
    """
    decisions = _Decisions()
    count = 0
    while True:
        if count == max_schedules:
            raise RuntimeError(f"there are more than {max_schedules} schedules; explore shorter programs")
        count += 1
        schedule = _Schedule(make_store(), decisions, crashes, unknowns, reads_in_order)
        error = schedule.failure(programs, check, setup, always, recover, max_steps)
        if error is not None:
            return Exploration(count, Failure(tuple(schedule.steps), tuple(schedule.results), error))
        if not decisions.next():
            return Exploration(count, None)


class _Decisions:
    """The decisions of one run, and how to get from them to those of the next, depth first."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int]] = []  # (the option taken, how many there were)
        self._replayed = 0

    def choose(self, options: int) -> int:
        """Return which option to take now."""
        if self._replayed == len(self._taken):
            self._taken.append((0, options))
        choice, known = self._taken[self._replayed]
        assert known == options, "the programs did not do the same thing twice: they must depend on the store alone"
        self._replayed += 1
        return choice

    def next(self) -> bool:
        """Go to the next run; tell whether there is one."""
        while self._taken and self._taken[-1][0] + 1 == self._taken[-1][1]:
            self._taken.pop()
        if not self._taken:
            return False
        choice, options = self._taken.pop()
        self._taken.append((choice + 1, options))
        self._replayed = 0
        return True


class _Schedule:
    """One run of the programs."""

    def __init__(self, store: Store, decisions: _Decisions, crashes: int, unknowns: int, reads_in_order: bool) -> None:
        self.steps: list[Step] = []
        self.results: list[Any] = []
        self._store = store
        self._decisions = decisions
        self._crashes = crashes
        self._unknowns = unknowns
        self._reads_in_order = reads_in_order

    def failure(
        self,
        programs: Sequence[Program],
        check: Check,
        setup: Program | None,
        always: Program | None,
        recover: Sequence[Program],
        max_steps: int,
    ) -> BaseException | None:
        """Run to the end; return what went wrong, if anything did."""
        whole = Inline(self._store)
        self.results = [None] * len(programs)
        live: dict[int, _Running] = {}
        try:
            if setup is not None:
                run(setup(whole))
            for place, program in enumerate(programs):
                self._start(live, place, program)
            while live:
                assert len(self.steps) < max_steps, f"the programs did not end within {max_steps} verbs"
                self._step(live)
                if always is not None:
                    run(always(whole))
            if CRASHED in self.results:
                for program in recover:
                    run(program(whole))
            run(_awaited(check(whole, tuple(self.results))))
        except Exception as error:
            return error
        finally:
            for running in live.values():
                running.abandon()
            self._store.close()
        return None

    def _start(self, live: dict[int, _Running], place: int, program: Program) -> None:
        # Up to its first verb a program can neither see nor be seen, so there is nothing to decide yet.
        running = live[place] = _Running(self._store, program)
        self._go_on(live, place, running)

    def _step(self, live: dict[int, _Running]) -> None:
        ready = [place for place, running in live.items() if running.ready()]
        if not ready:
            ready = list(live)  # everybody waits for somebody: time goes by until a wait is over
        if self._reads_in_order and self.steps and self.steps[-1].what == "read":
            # Two reads that follow each other are tried with the smaller program first. If only others are left, there
            # is no choice; that repeats a schedule and does no harm.
            last = self.steps[-1].program
            ready = [place for place in ready if place >= last or live[place].verb != "read"] or ready
        place = ready[self._decisions.choose(len(ready))]
        running = live[place]
        running.lose = self._lose(running)
        self.steps.append(Step(place, running.lose or running.verb))
        self._go_on(live, place, running)

    def _lose(self, running: _Running) -> str:
        if running.verb != "commit" or not self._unknowns:
            return ""
        choice = self._decisions.choose(3)
        self._unknowns -= choice > 0
        return ("", APPLIED, NOT_APPLIED)[choice]

    def _go_on(self, live: dict[int, _Running], place: int, running: _Running) -> None:
        try:
            running.go_on()
        except StopIteration as stop:
            self.results[place] = stop.value
            del live[place]
        except StrongroomError as error:
            self.results[place] = error
            del live[place]
        else:
            # Abandoning a program later, but before its next verb, would look the same to all others.
            if self._crashes and self._decisions.choose(2):
                self._crashes -= 1
                self.steps.append(Step(place, "crash"))
                self.results[place] = CRASHED
                live.pop(place).abandon()


APPLIED = "commit, applied, answer lost"
NOT_APPLIED = "commit, not applied, answer lost"


class _Running:
    """A program between two of its verbs, and the store it sees."""

    def __init__(self, store: Store, program: Program) -> None:
        self._store = store
        self._abandoned = False
        self._waits_for: tuple[Key, int] | None = None
        self.verb = ""
        self.lose = ""
        self._coroutine = program(Stepped(self))

    def go_on(self) -> None:
        """Do the verb that is due and all that follows it, up to the next one."""
        if self._coroutine.send(None) is not _PAUSE:
            raise TypeError("a program may await nothing but its store")

    def ready(self) -> bool:
        if self._waits_for is None:
            return True
        key, length = self._waits_for
        return ask(self._store, Range(key, 0, 0)).length > length

    def abandon(self) -> None:
        """End the program here. What it would still do on its way out cannot reach the store."""
        self._abandoned = True
        self._coroutine.close()

    async def pause(self, verb: str, waits_for: tuple[Key, int] | None = None) -> None:
        if self._abandoned:
            raise GeneratorExit
        self.verb, self._waits_for = verb, waits_for
        await _pause()
        self._waits_for = None

    def commit(self, commit: Commit) -> Receipt:
        if not self.lose:
            return self._store.commit(commit)
        try:
            if self.lose == APPLIED:
                self._store.commit(commit)
        except StrongroomError:
            pass  # refused, but that answer is lost as well
        raise CommitUnknown(
            "the answer to a commit was lost; repeat it with the same id", reason="explored", commit_id=commit.id
        )

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self._store.read(questions)

    @property
    def durability(self) -> Durability:
        return self._store.durability


class Stepped:
    """An async store that suspends before each verb, so that a schedule can choose who goes next."""

    needs_no_loop = True

    def __init__(self, running: _Running) -> None:
        self._running = running

    @property
    def durability(self) -> Durability:
        return self._running.durability

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        await self._running.pause("read")
        return self._running.read(questions)

    async def commit(self, commit: Commit) -> Receipt:
        await self._running.pause("commit")
        return self._running.commit(commit)

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        await self._running.pause("wait", (key, length))

    async def close(self) -> None:
        """The store belongs to the exploration."""


_PAUSE = object()


@types.coroutine
def _pause() -> Generator[object, None, None]:
    yield _PAUSE


async def _awaited(thing: Awaitable[None]) -> None:
    await thing
