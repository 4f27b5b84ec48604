"""The server over real sockets, one worker: beside the one it replaces, and beside a route that does nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

import strongroom
from benchmarks.apps import STATE
from benchmarks.load import Line, Server, get, patch, seconds, server
from benchmarks.measuring import ROUNDS, Result, rate

CLIENTS = 64
FEW = 4


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = booted(folder)
        with server("ours", folder) as ours, server("files", folder) as files:
            yield patching(ours, files, runs[-1 - FEW :])  # those that were started last, as agents do
        with server("ours", folder) as ours, server("bare", folder) as bare:
            yield getting(ours, bare, runs[CLIENTS + 1])
            yield many(ours, runs[: CLIENTS + 1], 40, "", 1.5)
    with tempfile.TemporaryDirectory() as name:
        runs = booted(Path(name))
        with server("slow", Path(name)) as slow:
            yield many(slow, runs[: CLIENTS + 1], 30, ", each fsync slowed to 2 ms", 10)


def booted(folder: Path) -> list[str]:
    """Start enough runs for everybody, and return their paths."""
    with strongroom.open(folder / "agent.db") as ctx:
        runs = [ctx.runs.create(objective="measure", constraints=["be fair"]) for _ in range(CLIENTS + 2 + FEW + 1)]
        (folder / STATE).write_bytes(msgspec.json.encode(runs[0].working_set))
    return [f"/runs/{run.id}" for run in runs]


def patching(ours: Server, files: Server, paths: list[str]) -> Result:
    """A few clients, so that it is the server's rate and not how long one client takes to ask again; and one alone."""
    lines = [[Line(server, patch(path)) for path in paths] for server in (ours, files)]
    one, their_one = rates(lines[0][-1:], lines[1][-1:], 300)
    us, them = rates(lines[0][:FEW], lines[1][:FEW], 300)
    note = (
        f"{FEW} clients, each its own run; theirs validates by JSON Schema and replaces a file, with fsync. "
        f"One client alone: {one / their_one:.2f} ({rate(one)} to {rate(their_one)})"
    )
    return Result("PATCH, durable", us / them, 3, ours=rate(us), peer=rate(them), note=note)


def getting(ours: Server, bare: Server, path: str) -> Result:
    us, them = rates([Line(ours, get(path))], [Line(bare, get(path))], 2000)
    note = "against a bare Starlette route that returns the same bytes"
    return Result("GET", us / them, 0.4, ours=rate(us), peer=rate(them), note=note)


def many(ours: Server, paths: list[str], each: int, where: str, wanted: float) -> Result:
    crowd = [Line(ours, patch(path)) for path in paths[1:]]
    all, one = rates(crowd, [Line(ours, patch(paths[0]))], CLIENTS * each, CLIENTS * each // 4)
    return Result(f"{CLIENTS} clients PATCH against one{where}", all / one, wanted, ours=rate(all), peer=rate(one))


def rates(ours: list[Line], peer: list[Line], times: int, peer_times: int | None = None) -> tuple[float, float]:
    """Return answers a second of both, taken in turn: the pair whose ratio is the median."""
    peer_times = peer_times or times
    pairs = [(times / seconds(ours, times), peer_times / seconds(peer, peer_times)) for _ in range(ROUNDS + 1)]
    return sorted(pairs[1:], key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]
