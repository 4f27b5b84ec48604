"""How long it takes to begin: new processes, ours and the peer's in turn, the fastest of each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measuring import Result, seconds

TIMES = 40


def measure() -> Iterator[Result]:
    yield _duel(
        "import strongroom, against sqlite3, json, asyncio", 1.3, "import strongroom", "import sqlite3, json, asyncio"
    )
    # The command as it is installed: a script that imports `main` and calls it.
    script = "import sys; from strongroom.cli import main; sys.argv[1:] = ['--help']; main()"
    yield _duel("strongroom --help, against an empty program", 3, script, "pass")


def _duel(name: str, wanted: float, ours: str, peer: str) -> Result:
    pairs = [(seconds(lambda: _run(ours), 1), seconds(lambda: _run(peer), 1)) for _ in range(TIMES)]
    fastest, rival = (min(times) for times in zip(*pairs, strict=True))
    return Result(name, fastest / rival, wanted, True, f"{fastest * 1e3:.1f} ms", f"{rival * 1e3:.1f} ms")


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
