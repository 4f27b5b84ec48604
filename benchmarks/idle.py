"""What does doing nothing cost? A server that many follow without news, a worker among many threads without work."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.load import server
from benchmarks.measuring import Result, figure, median, pick
from strongroom.dispatch import AsyncDispatcher

FOLLOWERS = pick(1_000, 100)
SESSIONS = 50
FEW, MANY = 10, pick(100_000, 2_000)
IDLE_SECONDS = pick(4.0, 1.0)
ROUNDS = pick(5, 2)
WORKER_ROUNDS = pick(3, 2)
FILL_SECONDS = pick(40.0, 5.0)


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield following(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield working(Path(folder))


def following(folder: Path) -> Result:
    with strongroom.open(folder / "agent.db") as ctx:
        for number in range(SESSIONS):
            ctx.sessions.open(f"s{number}").append({"role": "user", "content": "hello"})
    with server("ours", folder) as ours:
        lines = [_follow(ours.port, number % SESSIONS) for number in range(FOLLOWERS)]
        time.sleep(2)
        taken = []
        for _ in range(ROUNDS):
            before, start = ours.cpu_seconds(), time.monotonic()
            time.sleep(IDLE_SECONDS)
            taken.append(100 * (ours.cpu_seconds() - before) / (time.monotonic() - start))
        for line in lines:
            line.close()
    told = f"{median(taken):.2f} %"
    name = "a server with 1,000 followers and no news, % of a core"
    return figure("idle", name, taken, ours=told, durability="nothing is written", note=f"{FOLLOWERS:,} followers here")


def _follow(port: int, number: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=60)
    line.sendall(f"GET /sessions/s{number}/follow HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = line.recv(4096)
    if b"200" not in head.partition(b"\r\n")[0]:
        raise RuntimeError(head.decode(errors="replace"))
    return line


def working(folder: Path) -> Result:
    """The processor time of a worker that has nothing to do, among few live threads and among many."""
    made: list[int] = []
    paths = []
    for count in (FEW, MANY):
        paths.append(folder / f"{count}.db")
        made.append(_fill(paths[-1], count))
    for path in paths:
        _idle_seconds(path, 0.5)
    pairs = [
        (_idle_seconds(paths[1], IDLE_SECONDS), _idle_seconds(paths[0], IDLE_SECONDS)) for _ in range(WORKER_ROUNDS)
    ]
    many, few = (median(list(times)) / IDLE_SECONDS for times in zip(*pairs, strict=True))
    return figure(
        "idle",
        "a worker among 100,000 threads / among 10",
        [one / max(other, 1e-4) for one, other in pairs],
        ours=f"{many:.2%} of a core",
        peer=f"{few:.2%} of a core",
        durability="nothing is written",
        note=f"{made[1]:,} threads here",
    )


def _fill(path: Path, count: int) -> int:
    """Make live threads; somebody else has the last word in each. Return how many there was time for."""
    end = time.monotonic() + FILL_SECONDS
    with strongroom.open(path, durability="relaxed") as ctx:
        for number in range(count):
            ctx.threads.append(f"t{number}", "hello", from_id="echo", to_id="user")
            if time.monotonic() > end:
                return number + 1
    return count


def _idle_seconds(path: Path, seconds: float) -> float:
    """Return the processor time that a worker takes, in a process that does nothing else."""
    start = multiprocessing.get_context("spawn")
    taken = start.Queue()
    worker = start.Process(target=_idle, args=(str(path), seconds, taken))
    worker.start()
    used: float = taken.get()
    worker.join()
    return used


def _idle(path: str, seconds: float, taken: Any) -> None:
    async def serve() -> float:
        async with strongroom.aopen(path) as ctx:
            dispatcher = AsyncDispatcher(ctx)
            dispatcher.handler("echo")(lambda payload, call: None)
            serving = asyncio.create_task(dispatcher.run())
            await asyncio.sleep(0.3)
            before = time.process_time()
            await asyncio.sleep(seconds)
            used = time.process_time() - before
            dispatcher.stop()
            await serving
            return used

    taken.put(asyncio.run(serve()))
