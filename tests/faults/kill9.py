"""kill -9, at any moment: nothing acknowledged is lost, nothing is half there, and a repeat is applied once.

Two ways to choose the moment. `campaign` kills at random instants, thousands of times, one of any number of writers;
`sweep` kills just before and just after every single operation on the disk. Writers are forked before they open the
store, by a parent that never has it open meanwhile, so a cycle takes milliseconds. What a writer was told lives in
memory it shares with the parent, which a kill does not lose.

Call these in a process of their own, or run `python -m tests.faults.kill9 --kills 5000`.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from msgspec import Struct, json

from strongroom.backends.sqlite import SqliteStore
from strongroom.errors import StrongroomError
from tests.faults.checks import Broken, Checkpointing, check, check_file, compare, glance, repeat, step
from tests.faults.disk import Disk

Make = Callable[[Path], SqliteStore]
PATIENCE_SECONDS = 120.0


class Report(Struct, frozen=True):
    """What a campaign did. `longest_wait_seconds` is the longest any writer was without progress after a kill."""

    kills: int
    commits: int
    longest_wait_seconds: float = 0.0


def campaign(
    path: str | Path,
    *,
    kills: int,
    writers: int = 1,
    seed: int = 0,
    make: Make = Checkpointing,
    longest_life: float = 0.02,
) -> Report:
    """Kill one of the writers at a random instant, again and again; raise `Broken` if a promise is."""
    rng = random.Random(seed)
    crew = _Crew(Path(path), writers, make)
    waited = 0.0
    try:
        for writer in range(writers):
            crew.start(writer)
        for _ in range(kills):
            victim = rng.randrange(writers)
            if rng.random() < 0.5:
                crew.wait_for({victim})  # else, on a busy machine, all of them might die while they open the store
            time.sleep(rng.uniform(0, longest_life))
            crew.kill(victim)
            waited = max(waited, crew.wait_for(set(range(writers)) - {victim}))
            crew.start(victim)
    finally:
        crew.stop()
    acknowledged = list(crew.acknowledged)
    with make(Path(path)) as store:
        for writer, number in enumerate(check(store, acknowledged)):
            if number:
                repeat(store, writer, number)
            repeat(store, writer, number + 1)
        check(store, [number + 1 for number in acknowledged])
    check_file(path, getattr(make, "key", None))
    return Report(kills, sum(acknowledged), waited)


def sweep(folder: str | Path, *, commits: int = 4, make: Make = Checkpointing) -> Report:
    """Kill a writer before and after each operation of creating and using a store; raise `Broken` if a promise is."""
    kills = acked = 0
    for after in (False, True):
        nth, ended = 0, False
        while not ended:
            nth += 1
            path = Path(folder) / f"{'after' if after else 'before'}-{nth}.db"
            acknowledged = memoryview(mmap.mmap(-1, 8)).cast("Q")
            child = os.fork()
            if child == 0:
                _die_at(path, nth, after, commits, make, acknowledged)
            _, status = os.waitpid(child, 0)
            ended = os.WIFEXITED(status)
            if ended and os.WEXITSTATUS(status):
                raise Broken(f"the writer to be killed at operation {nth} failed by itself; see its error above")
            with make(path) as store:
                check(store, [acknowledged[0]])
                for number in range(1, commits + 1):
                    repeat(store, 0, number)
                check(store, [commits], in_flight=0)
            check_file(path, getattr(make, "key", None))
            kills += not ended
            acked += acknowledged[0]
    return Report(kills, acked)


class _Crew:
    """Writers in processes of their own, and what each of them was told."""

    def __init__(self, path: Path, writers: int, make: Make) -> None:
        self.acknowledged = memoryview(mmap.mmap(-1, 8 * writers)).cast("Q")
        self._path, self._make = path, make
        self._pids: dict[int, int] = {}
        self._complaints = mmap.mmap(-1, 4096)

    def start(self, writer: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._write_for_ever(writer)
        self._pids[writer] = pid

    def kill(self, writer: int) -> None:
        pid = self._pids.pop(writer)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            self._complain(writer)

    def wait_for(self, waiting: set[int]) -> float:
        """Return when each of these writers has been told of another commit: how long that took."""
        began = time.monotonic()
        before = list(self.acknowledged)
        while waiting := {writer for writer in waiting if self.acknowledged[writer] == before[writer]}:
            for writer in waiting:
                if os.waitpid(self._pids[writer], os.WNOHANG)[0]:
                    del self._pids[writer]
                    self._complain(writer)
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise Broken(f"writers {sorted(waiting)} got nowhere for {PATIENCE_SECONDS:.0f} seconds")
            time.sleep(0.0005)
        return time.monotonic() - began

    def stop(self) -> None:
        for pid in self._pids.values():  # all of them first: one that ended by itself must not save the others
            os.kill(pid, signal.SIGKILL)
        for writer in list(self._pids):
            self.kill(writer)

    def _complain(self, writer: int) -> NoReturn:
        said = self._complaints[:].rstrip(b"\0").decode(errors="replace")
        raise Broken(f"writer {writer} ended by itself: {said}")

    def _write_for_ever(self, writer: int) -> NoReturn:
        try:
            store = self._make(self._path)
            number = self.acknowledged[writer]
            compare(writer, number, glance(store, len(self.acknowledged))[writer])
            while True:
                # The first one may have landed just before the kill: its id makes that harmless.
                number += 1
                repeat(store, writer, number)
                self.acknowledged[writer] = number
        except BaseException:
            text = traceback.format_exc()[-4000:].encode()
            self._complaints[: len(text)] = text
        finally:
            os._exit(1)


def _die_at(path: Path, nth: int, after: bool, commits: int, make: Make, acknowledged: memoryview[int]) -> NoReturn:
    try:
        with Disk(path) as disk:
            disk.kill("open", "write", "truncate", "sync", "delete", nth=nth, after=after)
            store = make(path)
            for number in range(1, commits + 1):
                store.commit(step(0, number))
                acknowledged[0] = number
            store.close()
        os._exit(0)
    except StrongroomError:
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill9", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strongroom kill9 ") as folder:
        report = campaign(Path(folder) / "agent.db", kills=wanted.kills, writers=wanted.writers, seed=wanted.seed)
    print(json.encode(report).decode())


if __name__ == "__main__":
    main()
