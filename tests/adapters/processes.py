"""Two processes at once through an adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TURNS = int(os.environ.get("STRONGROOM_TURNS", "10"))
ROOT = Path(__file__).parents[2]
os.environ["MEM0_TELEMETRY"] = "False"  # tests tell nobody anything


def started(program: str, address: str, name: str, turns: int, *, quiet: bool = False) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    errors = subprocess.DEVNULL if quiet else None
    command = [sys.executable, "-m", "tests.adapters.programs", program, address, name, str(turns)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)


def both(program: str, address: str) -> None:
    """Let two processes work at once, to their ends."""
    running = [started(program, address, name, TURNS) for name in ("one", "two")]
    told = [process.communicate(timeout=600)[0].split() for process in running]
    assert [process.returncode for process in running] == [0, 0] and [len(lines) for lines in told] == [TURNS, TURNS]


def lines_of(names: tuple[str, ...] = ("one", "two")) -> set[str]:
    return {f"{name} {number}" for name in names for number in range(TURNS)}
