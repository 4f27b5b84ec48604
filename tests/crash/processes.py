"""Running things in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a fresh interpreter and return its result or raise its error.

    What forks, kills itself, or lowers its own limits must not do so in the process that runs the tests.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


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
