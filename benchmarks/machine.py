"""On what a run was made: figures mean little without it."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import apsw
from msgspec import Struct


class Machine(Struct, frozen=True):
    date: str
    commit: str
    python: str
    sqlite: str
    system: str
    processor: str
    cores: int
    memory_gb: float
    file_system: str
    fsync_microseconds: float
    load: float
    packages: dict[str, str]

    def line(self) -> str:
        return (
            f"{self.date}, commit {self.commit}: {self.cores} cores ({self.processor}), {self.memory_gb:.0f} GB, "
            f"{self.system}, {self.file_system}, an fsync takes {self.fsync_microseconds:.0f} us; "
            f"Python {self.python}, SQLite {self.sqlite}; load at the start {self.load:.1f}"
        )


def machine() -> Machine:
    """Look at this machine."""
    with tempfile.TemporaryDirectory() as folder:
        return Machine(
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            commit=_commit(),
            python=platform.python_version(),
            sqlite=apsw.sqlite_lib_version(),
            system=f"{platform.system()} {platform.release()}",
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
            file_system=_file_system(folder),
            fsync_microseconds=round(_fsync(Path(folder) / "file") * 1e6, 1),
            load=round(os.getloadavg()[0], 2),
            packages={name: version(name) for name in ("msgspec", "numpy", "psycopg", "redis", "uvicorn")},
        )


def _fsync(path: Path, times: int = 41) -> float:
    """Return the median seconds of writing a page and syncing it."""
    taken = []
    with path.open("wb") as file:
        for _ in range(times):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return sorted(taken)[times // 2]


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _file_system(folder: str) -> str:
    """Return the type of the file system that a folder is on: that of the longest mount point above it."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown file system"
    above = [(point, type) for point, type in mounts if folder == point or folder.startswith(point.rstrip("/") + "/")]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown file system"))[1]
