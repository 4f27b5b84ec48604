"""One session of a million messages: what appending, windows, pages, search and deletion cost, and how much memory.

Run by itself: `python -m benchmarks.million [messages] [path]`. The peak of the process's memory is what counts, so
among the other benchmarks it runs in a process of its own.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result

BATCH = 1000
MOST_MEGABYTES = 200
SENTENCE = "the quick brown fox jumps over a lazy dog while seven wizards quietly judge boxes of strange vexing liquor"
WORDS = tuple(re.findall(r"\w+", SENTENCE))


def measure() -> Iterator[Result]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.million"], capture_output=True, text=True, check=True)
    print(done.stdout)
    peak = float(re.findall(r"peak memory ([0-9.]+) MB", done.stdout)[-1])
    yield Result("peak memory, a million messages", peak, MOST_MEGABYTES, True, f"{peak:.0f} MB")


def messages(count: int) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of messages of twenty words or so, no two the same."""
    for start in range(0, count, BATCH):
        yield [
            {
                "role": "assistant" if place % 2 else "user",
                "content": f"turn {place}: "
                + " ".join(WORDS[(place * 7 + step * step) % len(WORDS)] for step in range(20)),
            }
            for place in range(start, min(start + BATCH, count))
        ]


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(name: str, work: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = work()
    print(f"{name:34} {time.perf_counter() - started:10.4f} s   peak {megabytes():7.1f} MB", flush=True)
    return result


def main(count: int, folder: Path) -> None:
    with strongroom.open(folder / "million.db") as ctx:
        session = ctx.sessions.open("long")
        session.append({"role": "system", "content": "Answer in one sentence."})
        text = 0

        def append() -> None:
            nonlocal text
            for batch in messages(count):
                session.append(batch)
                text += sum(len(message["content"]) for message in batch)

        timed(f"append {count:,}", append)
        for _ in range(3):
            timed("window of 4,000 tokens", lambda: session.window(max_tokens=4000))
        timed("load the newest ten", lambda: session.load(k=10))
        timed("a page from the middle", lambda: session.page(after=str(count // 2), limit=100))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{size / text:.2f} bytes on disk for a byte of text")
        timed("first search (fills the index)", lambda: session.search(f"turn {count // 3}", k=10))
        timed("second search", lambda: session.search(f"wizards of turn {count // 2}", k=10))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{size / text:.2f} bytes on disk for a byte of text, index included")
        timed("delete", session.delete)
    print(f"peak memory {megabytes():.1f} MB")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as place:
        main(wanted, Path(place))
