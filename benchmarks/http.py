"""How many requests does the server answer? Over real sockets: beside the server it replaces, re-enacted, beside a
route that does nothing, and against itself with more clients and more workers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

import strongroom
from benchmarks.apps import STATE
from benchmarks.load import Line, Server, get, patch, seconds, server
from benchmarks.measuring import SECONDS, Curve, Pair, Result, Timed, in_turn, median, pick
from benchmarks.workload import SYNCED

CROWD = 64
FEW = 4
CROWDS = pick((1, 2, 4, 8, 16, 32, 64), (1, 4, 64))
FILES = f"ours: {SYNCED}; theirs: fsync of the file and its folder"


def measure() -> Iterator[Result | Curve]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = booted(folder)
        with server("ours", folder) as ours, server("files", folder) as files:
            unused = iter(runs)  # a run's updates are numbered, so each crowd has runs of its own
            for told, count in (("one client", 1), (f"{FEW} clients", FEW), (f"{CROWD} clients", CROWD)):
                paths = list(islice(unused, count))
                pair = rivals(lines(ours, paths), lines(files, paths))
                name = f"PATCH, {told}, against the older server"
                yield pair.row("http", name, durability=FILES, show="rate", note="each client its own run")
        with server("ours", folder) as ours, server("bare", folder) as bare:
            pair = rivals([Line(ours, get(runs[0]))], [Line(bare, get(runs[0]))])
            note = "against a bare Starlette route that returns the same bytes"
            yield pair.row("http", "GET, against a bare ASGI route", durability="a read", show="rate", note=note)
    with tempfile.TemporaryDirectory() as name:
        runs = booted(Path(name))
        with server("ours", Path(name)) as ours:
            yield crowd(ours, runs, "64 clients / one")
            yield Curve("clients", "PATCH over HTTP", curve(ours, runs[-CROWD:]))
    with tempfile.TemporaryDirectory() as name:
        runs = booted(Path(name))
        with server("slow", Path(name)) as slow:
            yield crowd(slow, runs, "64 clients / one, each fsync 2 ms longer")
    for told, workers in (("two", 2), ("four", 4)):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as more:
            ones, others = booted(Path(one)), booted(Path(more))
            with server("ours", Path(one)) as alone, server("ours", Path(more), workers=workers) as crew:
                pair = rivals(lines(crew, others[:CROWD]), lines(alone, ones[:CROWD]))
                note = "the client shares their cores"
                yield pair.row("http", f"64 clients, {told} workers / one", durability=SYNCED, show="rate", note=note)


def booted(folder: Path) -> list[str]:
    """Start enough runs for everybody, and return their paths."""
    with strongroom.open(folder / "agent.db") as ctx:
        runs = [ctx.runs.create(objective="measure", constraints=["be fair"]) for _ in range(3 * CROWD)]
        (folder / STATE).write_bytes(msgspec.json.encode(runs[0].working_set))
    return [f"/runs/{run.id}" for run in runs]


def lines(server: Server, paths: list[str]) -> list[Line]:
    return [Line(server, patch(path)) for path in paths]


def crowd(server: Server, paths: list[str], name: str) -> Result:
    many, one = lines(server, paths[1 : CROWD + 1]), lines(server, paths[:1])
    return rivals(many, one).row("http", name, durability=SYNCED, show="rate")


def rivals(ours: list[Line], peer: list[Line]) -> Pair:
    """Compare what two crowds get answered, in seconds an answer."""
    mine, theirs = in_turn([timed(ours), timed(peer)], 1.5 * SECONDS)
    return Pair(median(mine), median(theirs), [one / other for one, other in zip(mine, theirs, strict=True)])


def timed(lines: list[Line]) -> Timed:
    """Return what times so many answers, of all lines together; each line asks at least once."""

    def timed(times: int) -> float:
        asked = max(times, len(lines))
        return seconds(lines, asked) * times / asked

    return timed


def curve(server: Server, paths: list[str]) -> list[tuple[float, float]]:
    everybody = lines(server, paths[: max(CROWDS)])
    taken = in_turn([timed(everybody[:count]) for count in CROWDS], 1.5 * SECONDS)
    return [(count, 1 / median(times)) for count, times in zip(CROWDS, taken, strict=True)]
