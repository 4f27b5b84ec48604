"""CPU-bound functions, in other processes. What crosses over is names, numbers and JSON bytes; never an object.

The other process opens the store itself and reads the message by its thread and index. It only computes: what it
answers goes back as JSON, and the process that holds the lease commits it. What it raises goes back in words: an
exception that cannot be unpickled here would break the pool for everybody.

A process that dies breaks its pool, and every message in it hears of that. Which one it was nobody can tell, so each is
computed once more in a pool of its own (`alone`), and only what breaks that has failed. Whoever submits next begins a
new pool; those who hear of the old one later have nothing to close.

The key of an encrypted store goes to processes of our own when they begin, through the pipe they are started with: it
is on no command line, in no environment, and not in what each message is sent with. An executor that was given gets no
key, since nobody knows where it sends things; its processes find one in their own environment.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from strongroom.blocking import Context
from strongroom.codec import Json
from strongroom.context import AsyncContext
from strongroom.dispatch.routes import (
    Call,
    ExecutorGone,
    FailedElsewhere,
    Outgoing,
    Respond,
    Route,
    Send,
    ran,
    words_of,
)
from strongroom.encryption import Secret
from strongroom.errors import InvalidInput, shown
from strongroom.opening import open_scope
from strongroom.services.threads.payloads import PLAIN, Inert, seal, type_name, unseal
from strongroom.services.threads.values import Slot
from strongroom.store import AsyncStore

Answer = tuple[str | None, str, bytes]
Computed = list[Answer] | str  # what a function answered, or the words of what it raised
ImportPath = tuple[str, str]


class Given:
    """What a worker knows of the executor it was given: that it is gone, and of which threads it has a message."""

    def __init__(self) -> None:
        self.gone: ExecutorGone | None = None
        self.has: set[str] = set()


class Pool:
    """The processes of a dispatcher, started when they are first needed. An executor that was given is used instead."""

    def __init__(
        self,
        executor: Executor | None = None,
        *,
        max_workers: int | None = None,
        max_tasks_per_child: int | None = None,
    ) -> None:
        self._given = executor
        self._own: Executor | None = None
        self.max_workers = max_workers
        self.max_tasks_per_child = max_tasks_per_child

    @property
    def is_given(self) -> bool:
        return self._given is not None

    def submit(self, *words: Any, key: Secret | None = None) -> Future[Computed]:
        """Have a message computed, of a store that this key opens. `ExecutorGone` if one that was given is broken."""
        if self._given is not None:
            try:
                return self._given.submit(compute, *words)
            except BrokenExecutor as problem:
                raise ExecutorGone(f"the executor that was given takes no more messages: {problem}") from problem
        if self._own is None:
            self._own = self._started(self.max_workers, key)
        try:
            return self._own.submit(compute, *words)
        except BrokenExecutor:
            self._own = self._started(self.max_workers, key)
            return self._own.submit(compute, *words)

    @contextmanager
    def alone(self, *words: Any, key: Secret | None = None) -> Iterator[Future[Computed]]:
        """Have a message computed in a process of its own. An executor that was given has no other, so it gets it."""
        if self._given is not None:
            yield self.submit(*words)
            return
        own = self._started(1, key)
        try:
            yield own.submit(compute, *words)
        finally:
            own.shutdown(wait=False, cancel_futures=True)

    def _started(self, max_workers: int | None, key: Secret | None) -> Executor:
        # Spawned, because a fork would inherit open files and locks.
        return ProcessPoolExecutor(
            max_workers,
            mp_context=multiprocessing.get_context("spawn"),
            max_tasks_per_child=self.max_tasks_per_child,
            initializer=_remember,
            initargs=(key,),
        )

    def close(self) -> None:
        """Let the processes go. They are started again if need be; an executor that was given stays its owner's."""
        own, self._own = self._own, None
        if own is not None:
            own.shutdown(cancel_futures=True)


def reference(route: Route) -> tuple[ImportPath, tuple[ImportPath, ...], str]:
    """Say in names what another process has to run."""
    return _whereabouts(route.function), tuple(map(_whereabouts, route.accepts)), route.name


def elsewhere(store: AsyncStore) -> dict[str, Any]:
    """Return the options with which another process opens the same store."""
    return dict(getattr(getattr(store, "blocking", store), "needed_elsewhere", {}))


def compute(
    address: str,
    space: str,
    settings: tuple[tuple[str, Any], ...],
    function: ImportPath,
    accepts: tuple[ImportPath, ...],
    name: str,
    thread_id: str,
    index: int,
    attempt: int,
) -> Computed:
    """Run one function on one stored message. This is what the other process does."""
    try:
        return _computed(address, space, settings, function, accepts, name, thread_id, index, attempt)
    except BaseException as problem:
        if type(problem) is KeyboardInterrupt:
            raise  # a person's
        return words_of(problem)


def _computed(
    address: str,
    space: str,
    settings: tuple[tuple[str, Any], ...],
    function: ImportPath,
    accepts: tuple[ImportPath, ...],
    name: str,
    thread_id: str,
    index: int,
    attempt: int,
) -> list[Answer]:
    ctx = _context(address, space, settings)
    for place in accepts:
        cls = _find(*place)
        if cls not in PLAIN:
            ctx.threads.register(cls)
    thread = ctx.threads.get(thread_id)
    slot = thread[index]
    told = call(slot, name=name, attempt=attempt, thread=thread)
    return [_pack(item) for item in ran(_find(*function), slot.payload, told)]


def answers(packed: Computed) -> list[Outgoing]:
    """Read what another process answered, or raise what it says was raised there."""
    if isinstance(packed, str):
        raise FailedElsewhere(packed)
    found: list[Outgoing] = []
    for to, name, raw in packed:
        payload = Inert(name, Json(raw))
        found.append(Respond(payload) if to is None else Send(to, payload))
    return found


def call(slot: Slot, *, name: str, attempt: int, thread: Any) -> Call:
    """Make what a function is told about a message."""
    return Call(
        own_name=name,
        thread_id=slot.thread_id,
        from_id=slot.from_id,
        to_id=slot.to_id,
        slot_index=slot.index,
        at=slot.at,
        payload_type=slot.type,
        chain=slot.chain,
        metadata=slot.metadata,
        attempt=attempt,
        thread=thread,
    )


def _pack(item: Outgoing) -> Answer:
    to = None
    if isinstance(item, Send):
        if not isinstance(item.to, str):
            raise InvalidInput(f"to_id must be text, not {shown(item.to)}; nothing changed")
        to = str.__str__(item.to)  # of a class of its own, it would be an object
    return to, type_name(item.payload), bytes(unseal(seal(item.payload)).payload)


_key: Secret | None = None  # of the store that this process was started for


def _remember(key: Secret | None) -> None:
    global _key
    _key = key


@lru_cache(maxsize=8)
def _context(address: str, space: str, settings: tuple[tuple[str, Any], ...]) -> Context:
    options = dict(settings) if _key is None else {**dict(settings), "key": _key}
    return Context(AsyncContext(open_scope(address, space, options)))


def _whereabouts(thing: Any) -> ImportPath:
    return thing.__module__, thing.__qualname__


def _find(module: str, path: str) -> Any:
    # The names come from the program's own functions in the process that asked, never from what is stored.
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
