"""Measured programs, each in a process of its own, so that imports, caches and peaks of memory do not mix.

A program is a context manager in `benchmarks/programs/`, which yields functions by name. `Program` starts one with an
interpreter of its own (`.bench/<name>/` for peers, made by `make`), and asks over a pipe for so many calls of one of
them. `python -m benchmarks.processes MODULE FUNCTION ARGUMENTS` is the other side.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".bench"
PROGRAMS = "benchmarks.programs"
MISSING = "not measured: no environment of"


class MissingPeerError(Exception):
    """The environment of a peer was not made."""


class Program:
    """A program that waits to be told what to do. `source` is the tree whose Strongroom it uses, if not this one, and
    `environment` where its Python is, if that is not ours either."""

    def __init__(
        self,
        program: str,
        /,
        *,
        peer: bool = False,
        source: Path | None = None,
        environment: Path | None = None,
        **arguments: Any,
    ) -> None:
        module, _, function = program.partition(":")
        home = PEERS / module if peer else environment
        python = sys.executable if home is None else str(home / "bin" / "python")
        if home is not None and not (home / "made").exists():
            raise MissingPeerError(f"{MISSING} {module}: make {home.relative_to(ROOT)}/made")
        command = [python, "-m", "benchmarks.processes", f"{PROGRAMS}.{module}", function, json.dumps(arguments)]
        paths = [str(ROOT)]
        if not peer:  # a peer's environment has no business with ours
            paths = [str((source or ROOT) / "src"), *paths, os.environ.get("PYTHONPATH", "")]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONHASHSEED": "0"}
        self._name = program
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        self._read()

    def timed(self, name: str) -> Callable[[int], float]:
        """Return what times so many calls of one of the program's functions, measured on its own side."""
        return lambda times: float(self._ask({"name": name, "times": times}))

    def call(self, name: str) -> Any:
        """Call one of the program's functions and return what it returns."""
        return self._ask({"name": name})

    def peak_megabytes(self) -> float:
        return float(self._ask({"name": "_peak"}))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"{self._name} ended") from None
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with {self._process.wait()}; what it said is above")
        return json.loads(line)


def peak_megabytes() -> float:
    """Return the peak of this very program. `ru_maxrss` would be no less than that of whoever started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Peak:
    """The peak of this very program without that of a peer which works in it, too, and gives its memory back."""

    def __init__(self) -> None:
        self._most = 0.0

    def megabytes(self) -> float:
        return max(self._most, peak_megabytes())

    @contextmanager
    def of_a_peer(self) -> Iterator[None]:
        self._most = self.megabytes()
        yield
        ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system, which glibc puts off
        Path("/proc/self/clear_refs").write_text("5")  # and the system's own count begins anew


# ---- the other side --------------------------------------------------------------------------------------------------


def serve(module: str, function: str, arguments: str) -> None:
    """Run a program: answer each line of the standard input by one of the standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints must not come between
    program: Callable[..., AbstractContextManager[dict[str, Any]]] = getattr(importlib.import_module(module), function)
    with asyncio.Runner() as runner, _entered(program(**json.loads(arguments)), runner) as functions:

        def answer(value: object) -> None:
            answers.write(json.dumps(value) + "\n")
            answers.flush()

        answer("ready")
        for line in sys.stdin:
            command = json.loads(line)
            if command["name"] == "_peak":
                answer(peak_megabytes())
                continue
            work = functions[command["name"]]
            if "times" in command:
                answer(_timed(work, command["times"], runner))
            else:
                value = work()
                answer(runner.run(value) if inspect.iscoroutine(value) else value)


@contextmanager
def _entered(program: Any, runner: asyncio.Runner) -> Iterator[dict[str, Any]]:
    """Enter a context manager of either kind."""
    if hasattr(program, "__aenter__"):
        functions = runner.run(program.__aenter__())
        try:
            yield functions
        finally:
            runner.run(program.__aexit__(None, None, None))
    else:
        with program as functions:
            yield functions


def _timed(work: Any, times: int, runner: asyncio.Runner) -> float:
    if inspect.iscoroutinefunction(work):

        async def repeat() -> float:
            start = time.perf_counter()
            for _ in range(times):
                await work()
            return time.perf_counter() - start

        return runner.run(repeat())
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start


if __name__ == "__main__":
    serve(*sys.argv[1:])
