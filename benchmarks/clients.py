"""What do many gain from committing at once? Threads, tasks, processes beside one, on this disk and a slow one."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.disk import Disk

from benchmarks.commits import append
from benchmarks.measuring import SECONDS, Curve, Result, Timed, figure, in_turn, median, pick, rate
from benchmarks.workload import SYNCED
from strongroom.backends.sqlite import SqliteStore
from strongroom.bridge import Threaded
from strongroom.store import AsyncStore, Key, Store

CROWD = 32
CROWDS = pick((1, 2, 4, 8, 16, 32, 64), (1, 4, 32))
PROCESSES = pick((1, 2, 4, 8), (1, 8))
SLOW_SECONDS = 0.002
Clients = Callable[[SqliteStore, int, int], float]


def measure() -> Iterator[Result | Curve]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SqliteStore(folder / "many.db") as store:
            for told, work in (("tasks", tasks), ("threads", threads)):
                yield from against_one(store, told, work)
        with Disk(folder / "slow.db", writes=False) as disk, SqliteStore(folder / "slow.db") as store:
            disk.fsync_seconds = SLOW_SECONDS
            for told, work in (("tasks", tasks), ("threads", threads)):
                yield crowd(store, f"32 {told} / one, each fsync 2 ms longer", work)
        with SqliteStore(folder / "curve.db") as store:
            for told, work in (("tasks", tasks), ("threads", threads)):
                yield Curve("clients", f"{told}, SQLite", curve(store, work))
        yield from processes(folder / "processes.db")


def against_one(store: SqliteStore, told: str, work: Clients) -> Iterator[Result]:
    yield crowd(store, f"32 {told} / one", work)
    before = store._committer.batches
    work(store, CROWD, 40)
    fsyncs = (store._committer.batches - before) / (CROWD * 40)
    yield figure("clients", f"fsyncs a commit, 32 {told}", fsyncs, ours=f"{fsyncs:.3f}", durability=SYNCED)


def crowd(store: SqliteStore, name: str, work: Clients) -> Result:
    """One client in the same loop or thread as many have: what is shared is compared with what is not."""
    one, many = in_turn([divided(store, work, 1), divided(store, work, CROWD)], 2 * SECONDS)
    ratios = [alone / shared for alone, shared in zip(one, many, strict=True)]
    told = {"ours": rate(1 / median(many)), "peer": rate(1 / median(one))}
    return figure("clients", name, ratios, durability=SYNCED, **told)


def curve(store: SqliteStore, work: Clients) -> list[tuple[float, float]]:
    taken = in_turn([divided(store, work, size) for size in CROWDS], SECONDS)
    return [(size, 1 / median(times)) for size, times in zip(CROWDS, taken, strict=True)]


def divided(store: SqliteStore, work: Clients, clients: int) -> Timed:
    """Return what times so many commits, divided among clients; each makes one at least."""

    def timed(times: int) -> float:
        each = max(1, round(times / clients))
        return work(store, clients, each) * times / (each * clients)

    return timed


def threads(store: Store, clients: int, each: int) -> float:
    def client(number: int) -> None:
        key = Key("bench", "thread", str(number))
        for _ in range(each):
            store.commit(append(key))

    workers = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def tasks(store: SqliteStore, clients: int, each: int) -> float:
    async def client(shared: AsyncStore, number: int) -> None:
        key = Key("bench", "task", str(number))
        for _ in range(each):
            await shared.commit(append(key))

    async def all_clients() -> float:
        shared = Threaded(store)
        start = time.perf_counter()
        await asyncio.gather(*(client(shared, number) for number in range(clients)))
        return time.perf_counter() - start

    return asyncio.run(all_clients())


# ---- processes -------------------------------------------------------------------------------------------------------


def processes(path: Path) -> Iterator[Result | Curve]:
    SqliteStore(path).close()
    seconds = pick(1.5, 0.5)
    with helpers(path, max(PROCESSES)) as ask:
        rounds = [[ask(number, seconds) for number in PROCESSES] for _ in range(3)]
    rates = [median(list(found)) for found in zip(*rounds, strict=True)]
    yield Curve("clients", "processes, SQLite", list(zip(map(float, PROCESSES), rates, strict=True)))
    ratios = [found[-1] / found[0] for found in rounds]
    told = {"ours": rate(rates[-1]), "peer": rate(rates[0])}
    yield figure("clients", "8 processes / one", ratios, durability=SYNCED, note="each its own stream", **told)


@contextmanager
def helpers(path: Path, number: int) -> Iterator[Callable[[int, float], float]]:
    """Start processes that commit when told so; yield what asks some of them, and returns commits a second."""
    start = multiprocessing.get_context("spawn")
    pipes = [start.Pipe() for _ in range(number)]
    workers = [start.Process(target=_help, args=(str(path), pipe[1], place)) for place, pipe in enumerate(pipes)]
    for worker in workers:
        worker.start()

    def ask(some: int, seconds: float) -> float:
        chosen = pipes[:some]
        for mine, _ in chosen:
            mine.send(seconds)
        return float(sum(mine.recv() for mine, _ in chosen))

    try:
        for mine, _ in pipes:
            mine.recv()
        yield ask
    finally:
        for mine, _ in pipes:
            mine.send(None)
        for worker in workers:
            worker.join()


def _help(path: str, pipe: Any, place: int) -> None:
    key = Key("bench", "process", str(place))
    with SqliteStore(path) as store:
        store.commit(append(key))
        pipe.send(True)
        while (seconds := pipe.recv()) is not None:
            start = time.perf_counter()
            done = 0
            while time.perf_counter() - start < seconds:
                store.commit(append(key))
                done += 1
            pipe.send(done / (time.perf_counter() - start))
