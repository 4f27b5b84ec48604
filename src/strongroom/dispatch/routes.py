"""Routes: which function handles the messages to which name, and what a function may answer with."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from datetime import datetime
from typing import Any

from msgspec import Struct

from strongroom.errors import InvalidInput, said_by
from strongroom.services.threads.deliveries import DeliveryFailed, Retry

Function = Callable[[Any, Any], Any]


class Call(Struct, frozen=True, kw_only=True):
    """What a function is told besides the payload.

    `own_name` is the function's, `metadata` what the sender gave along, `thread` a handle on the message's own thread
    and no other.
    """

    own_name: str
    thread_id: str
    from_id: str
    to_id: str
    slot_index: int
    at: datetime
    payload_type: str
    chain: tuple[str, ...]
    metadata: dict[str, Any]
    attempt: int = 1
    thread: Any = None


class Respond(Struct, frozen=True):
    """A message for whoever called."""

    payload: Any


class Send(Struct, frozen=True):
    """A message for somebody else, in a thread of their own."""

    to: str
    payload: Any


Outgoing = Respond | Send


def respond(payload: Any) -> Respond:
    """Answer the caller, on the thread they called from."""
    return Respond(payload)


def send(to: str, payload: Any) -> Send:
    """Call somebody else. What they respond comes back to this function, on this thread."""
    return Send(to, payload)


def outgoing(result: Any) -> list[Outgoing]:
    """Read what a function returned: nothing, a payload for the caller, or a list of payloads, responses and sends."""
    if result is None:
        return []
    items = result if type(result) is list else [result]
    return [item if isinstance(item, Outgoing) else Respond(item) for item in items]


class Unusual(Exception):
    """What a function raised that tasks and futures do not pass on as its failure: `SystemExit`, or `StopIteration`."""

    @property
    def problem(self) -> BaseException:
        problem: BaseException = self.args[0]
        return problem


class ExecutorGone(BrokenExecutor):
    """The executor that was given takes no more messages. It is its owner who has to hear of it: no message failed."""


class FailedElsewhere(Exception):
    """What a function raised in another process, in words: the object stays there, for it may not survive the way."""


def words_of(problem: BaseException) -> str:
    """Return what a function raised, its type and its words, wherever it ran."""
    if isinstance(problem, FailedElsewhere):
        return str(problem)
    return said_by(problem.problem if isinstance(problem, Unusual) else problem)


class Failures:
    """Around a function: whatever it raises is its failure, and ends nothing but its attempt.

    What cancels its task is for those who run it to look at. Ctrl-C comes to the main thread, and is a person's.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is None or isinstance(problem, asyncio.CancelledError):
            return
        if isinstance(problem, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            return
        if isinstance(problem, StopIteration) or not isinstance(problem, Exception):
            raise Unusual(problem) from problem


def ran(function: Function, payload: Any, told: Call) -> list[Outgoing]:
    """Run a plain function on a message and return its answers."""
    with Failures():
        return outgoing(function(payload, told))


class Route(Struct, frozen=True, eq=False):
    """A name, the function behind it, and how to run it."""

    name: str
    function: Function
    accepts: tuple[type, ...] = ()
    cpu_bound: bool = False
    retry: Retry = Retry()
    max_concurrent: int | None = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def takes(self, payload: Any) -> bool:
        """Say whether the function wants this payload. News of a failure goes only to those who ask for it."""
        if not self.accepts:
            return not isinstance(payload, DeliveryFailed)
        return isinstance(payload, self.accepts)


class Routes:
    """The functions of a dispatcher, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Route] = {}

    def add(self, route: Route) -> None:
        if route.name in self.by_name:
            raise InvalidInput(f"two functions cannot both handle {route.name!r}")
        if route.cpu_bound and ("<" in route.function.__qualname__ or route.is_async):
            raise InvalidInput(
                f"{route.name!r}: a cpu_bound function runs in another process, so it must be a plain function at the "
                "top of a module, not an async, local or nested one"
            )
        self.by_name[route.name] = route
