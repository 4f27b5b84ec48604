"""Asking the questions: each in a process and a folder of its own, with an end to its patience.

`python -m benchmarks.running NAME` is the other side: it measures, and tells each figure as soon as it has it.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from benchmarks.measuring import Curve, Result

FAREWELL_SECONDS = 8.0  # between a polite end and a hard one
KEPT_LINES = 30


class Answer(Struct):
    """What a question has told."""

    asks: str
    results: list[Result] = []
    curves: list[Curve] = []
    ended: Literal["done", "out of time", "crashed"] = "done"
    seconds: float = 0.0
    said: list[str] = []


class Told(Struct):
    result: Result | None = None
    curve: Curve | None = None


def ask(name: str, asks: str, seconds: float, tell: Callable[[Result], None]) -> Answer:
    """Ask one question for so many seconds at most; call `tell` with each figure."""
    answer = Answer(asks)
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"strongroom-bench-{name}-"))
    folder.chmod(0o711)  # a Postgres that does not run as root has to pass
    late = threading.Event()
    command = [sys.executable, "-m", "benchmarks.running", name]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONHASHSEED": "0"}
    with (folder / "said.txt").open("w+") as said:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, env=environment, start_new_session=True
        ) as process:
            timers = [
                threading.Timer(seconds, late.set),
                threading.Timer(seconds, _interrupt, [process]),
                threading.Timer(seconds + FAREWELL_SECONDS, _end_all, [process]),
            ]
            for timer in timers:
                timer.daemon = True
                timer.start()
            try:
                _listen(process, answer, tell)
            finally:
                for timer in timers:
                    timer.cancel()
                _end_all(process)
        said.seek(0)
        answer.said = said.read().splitlines()[-KEPT_LINES:]
    shutil.rmtree(folder, ignore_errors=True)
    answer.seconds = round(time.monotonic() - started, 1)
    if process.returncode != 0:
        answer.ended = "out of time" if late.is_set() else "crashed"
    return answer


def _listen(process: subprocess.Popen[bytes], answer: Answer, tell: Callable[[Result], None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        told = msgspec.json.decode(line, type=Told)
        if told.result is not None:
            answer.results.append(told.result)
            tell(told.result)
        if told.curve is not None:
            answer.curves.append(told.curve)
    process.wait()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)  # does nothing to one that has ended


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the group that the process leads, servers among it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


# ---- the other side --------------------------------------------------------------------------------------------------


def measured(name: str) -> Iterator[Result | Curve]:
    """Measure what a question of ours asks, or a module of another name."""
    module = importlib.import_module(name if "." in name else f"benchmarks.{name}")
    found: Iterator[Result | Curve] = module.measure()
    return found


def main(name: str) -> None:
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a package prints must not come between
    for one in measured(name):
        told = Told(curve=one) if isinstance(one, Curve) else Told(result=one)
        lines.write(msgspec.json.encode(told) + b"\n")
        lines.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
