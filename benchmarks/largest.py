"""Does a cost still not grow at the largest? A million sessions in one store, ten million messages in one of them.

As `neighbours` and `growth` ask it of smaller ones. It fills for a quarter of an hour, so it is asked alone
(`make bench-largest`), and its answer is published with a date of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import strongroom
from benchmarks import growth, neighbours
from benchmarks.growing import Rows
from benchmarks.measuring import pick

SESSIONS = pick((1, 1_000, 1_000_000), (1, 100, 1_000))
MESSAGES = pick((100, 10_000, 10_000_000), (100, 1_000, 10_000))
FILL_SECONDS = pick(1_500.0, 5.0)  # for each


def measure() -> Rows:
    with tempfile.TemporaryDirectory() as name:
        yield from neighbours.sessions("largest", Path(name), SESSIONS, FILL_SECONDS)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "long.db"
        sizes = growth.long_sessions(path, MESSAGES, FILL_SECONDS)
        with strongroom.open(path) as ctx:
            yield from growth.of_sessions("largest", {size: ctx.sessions.open(f"s{size}") for size in sizes})
