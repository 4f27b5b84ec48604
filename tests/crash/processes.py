"""Running things in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a fresh interpreter and return its result or raise its error.

    What forks, kills itself, or lowers its own limits must not do so in the process that runs the tests. A pipe and not
    a pool, because a pool keeps semaphores in /dev/shm, which stay there when a test run is killed. Forked from a
    server that has imported everything and opened nothing: starting an interpreter took longer than most tests.
    """
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["pytest", "strongroom", "tests.faults.kill9", "tests.faults.power"])
    ours, theirs = fresh.Pipe(duplex=False)
    child = fresh.Process(target=_answer, args=(theirs, function, args, kwargs))
    child.start()
    theirs.close()
    try:
        succeeded, result = ours.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"{function.__name__} ended with {child.exitcode} and without an answer") from None
    finally:
        ours.close()
    child.join()
    if not succeeded:
        raise result
    answer: T = result
    return answer


def _answer(pipe: Connection, function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        answer = (True, function(*args, **kwargs))
    except Exception as error:
        traceback.print_exc()
        answer = (False, error)
    pipe.send(answer)


def forked(function: Callable[..., object], *args: Any) -> int:
    """Start a function in a child and return its pid. The child exits with 0, or with 1 after printing its error."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*args)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def ended_well(pid: int) -> bool:
    """Wait for a child and tell whether it returned without an error."""
    return os.waitpid(pid, 0)[1] == 0
