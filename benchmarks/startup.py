"""How long does it take to begin? New processes, ours and the peer's in turn; and opening a file that is large."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Pair, Result, compare, figure, median, pick
from benchmarks.workload import SYNCED
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, new_id

SECONDS = pick(12.0, 2.5)
MEGABYTES = pick(1024, 64)


def measure() -> Iterator[Result]:
    alike = _processes("import strongroom", "import sqlite3, json, asyncio")
    yield alike.row("startup", "import strongroom / import sqlite3, json, asyncio", note="whole processes")
    # The command as it is installed: a script that imports `main` and calls it.
    script = "import sys; from strongroom.cli import main; sys.argv[1:] = ['--help']; main()"
    yield _processes(script, "pass").row("startup", "strongroom --help / an empty program", note="whole processes")
    with tempfile.TemporaryDirectory() as folder:
        yield _opening(Path(folder) / "large.db")


def _processes(ours: str, peer: str) -> Pair:
    return compare(lambda: _run(ours), lambda: _run(peer), SECONDS)


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def _opening(path: Path) -> Result:
    """Open, commit one record and close a file full of records of half a megabyte."""
    key, small = Key("bench", "stream", "one"), encode("small")
    with SqliteStore(path, durability="relaxed") as store:
        for number in range(2 * MEGABYTES):
            body = encode({"n": number, "text": os.urandom(196_608).hex()[: 512 * 1024 - 64]})
            store.commit(Commit(new_id(), (), (Append(key, (Entry("note", body),)),)))
    taken = []
    for _ in range(pick(9, 5)):
        start = time.perf_counter()
        with SqliteStore(path) as store:
            taken.append(time.perf_counter() - start)
            store.commit(Commit(new_id(), (), (Append(key, (Entry("note", small),)),)))
    size = path.stat().st_size / 2**30
    told = f"{median(taken) * 1e3:.1f} ms"
    note = f"{size:.2f} GB"
    return figure(
        "startup",
        "open a large file, milliseconds",
        [one * 1e3 for one in taken],
        ours=told,
        durability=SYNCED,
        note=note,
    )
