"""Functions in other processes: CPU-bound ones, and whole workers that are killed at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import strongroom
from strongroom.dispatch import Dispatcher, Retry
from strongroom.dispatch.pool import compute, elsewhere
from strongroom.dispatch.worker import load, work
from strongroom.errors import InvalidInput
from tests.dispatch import program
from tests.dispatch.program import Number

SECONDS = float(os.environ.get("STRONGROOM_SECONDS", "2"))
ROOT = Path(__file__).parents[2]
SHARED = ["sqlite", "postgres", "redis"]


class Recording(Executor):
    """Somebody else's executor: runs in threads, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []
        self._pool = ThreadPoolExecutor(1)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert fn is compute
        self.given.append(args)
        return self._pool.submit(fn, *args, **kwargs)


def heavy(ctx: Any, address: str, **options: Any) -> Dispatcher:
    dispatcher = Dispatcher(ctx, address=address, poll_seconds=0.01, **options)
    for name in ("triangle", "spin", "fatal"):
        route = program.heavy._async._routes.by_name[name]
        dispatcher.handler(name, accepts=route.accepts, cpu_bound=True, retry=Retry(attempts=2, first_seconds=0.01))(
            route.function
        )
    return dispatcher


def test_a_cpu_bound_function_that_raises_stop_iteration_is_not_waited_for(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx, Dispatcher(ctx, address=address, executor=Recording()) as dispatcher:
        dispatcher.handler("first", cpu_bound=True, retry=Retry(attempts=1))(program.first)
        dispatcher.send("t", [], from_id="user", to_id="first")
        dispatcher.drain()
        [letter] = dispatcher.dead_letters()
        assert letter.error == "StopIteration: "


@pytest.mark.parametrize("address", SHARED, indirect=True)
def test_a_cpu_bound_function_runs_in_another_process_and_its_answer_is_committed_here(address: str) -> None:
    with strongroom.open(address) as ctx, heavy(ctx, address, max_workers=1) as dispatcher:
        for n in (10, 20):
            dispatcher.send("t", Number(n), from_id="user", to_id="triangle")
        dispatcher.drain()
        ctx.threads.register(Number)
        assert [slot.payload for slot in ctx.threads.get("t").sent_by("triangle")] == [Number(55), Number(210)]


@pytest.mark.parametrize("key", ["a passphrase", b"k" * 32, lambda: "a passphrase"], ids=["text", "bytes", "function"])
def test_a_cpu_bound_function_reads_an_encrypted_store(tmp_path: Path, key: Any) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address, key=key) as ctx, heavy(ctx, address, max_workers=1) as dispatcher:
        dispatcher.send("t", Number(10), from_id="user", to_id="triangle")
        dispatcher.drain()
        ctx.threads.register(Number)
        assert [slot.payload for slot in ctx.threads.get("t").sent_by("triangle")] == [Number(55)]


def test_a_key_is_in_no_command_line_and_no_environment_of_a_process(tmp_path: Path) -> None:
    address, key = str(tmp_path / "agent.db"), b"\x6b" * 32
    with strongroom.open(address, key=key) as ctx, Dispatcher(ctx, max_workers=1) as dispatcher:
        dispatcher.handler("shown", cpu_bound=True, retry=Retry(attempts=1))(program.shown)
        dispatcher.send("t", "x", from_id="user", to_id="shown")
        dispatcher.drain()
        [answer] = ctx.threads.get("t").sent_by("shown")
        assert "multiprocessing" in answer.payload
        assert key.hex() not in answer.payload and key.decode() not in answer.payload


def test_a_key_is_not_given_to_an_executor_and_what_to_do_is_said(tmp_path: Path) -> None:
    address, executor = str(tmp_path / "agent.db"), Recording()
    with strongroom.open(address, key="a passphrase") as ctx:
        dispatcher = heavy(ctx, address, executor=executor)
        dispatcher.send("t", Number(10), from_id="user", to_id="triangle")
        dispatcher.drain()
        [letter] = dispatcher.dead_letters()
    assert "name its key by STRONGROOM_KEY" in letter.error
    assert executor.given[0][2] == (("timeout_seconds", 30.0),)


@pytest.mark.parametrize("address", ["redis"], indirect=True)
def test_a_cpu_bound_function_reads_under_the_prefix_that_the_store_was_opened_with(address: str) -> None:
    with strongroom.open(address, prefix="elsewhere") as ctx, heavy(ctx, address, max_workers=1) as dispatcher:
        thread = f"t-{uuid4()}"
        dispatcher.send(thread, Number(10), from_id="user", to_id="triangle")
        dispatcher.drain()
        ctx.threads.register(Number)
        assert [slot.payload for slot in ctx.threads.get(thread).sent_by("triangle")] == [Number(55)]
        ctx.threads.delete(thread)


@pytest.mark.parametrize("address", SHARED, indirect=True)
async def test_another_process_waits_for_a_store_as_long_as_this_one(address: str) -> None:
    with strongroom.open(address, timeout_seconds=7) as ctx:
        assert elsewhere(ctx.awaitable.store)["timeout_seconds"] == 7
    async with strongroom.aopen(address, timeout_seconds=7) as actx:
        assert elsewhere(actx.store)["timeout_seconds"] == 7


def test_only_names_and_numbers_are_sent_to_an_executor(tmp_path: Path) -> None:
    address, executor = str(tmp_path / "agent.db"), Recording()
    with strongroom.open(address) as ctx:
        dispatcher = heavy(ctx, address, executor=executor)
        dispatcher.send("t", Number(10), from_id="user", to_id="triangle")
        dispatcher.drain()
    module = "tests.dispatch.program"
    accepts, settings = ((module, "Number"),), (("timeout_seconds", 30.0),)
    assert executor.given == [(address, "default", settings, (module, "triangle"), accepts, "triangle", "t", 0, 1)]


def test_a_message_that_kills_its_process_becomes_a_dead_letter_and_others_go_on(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx, heavy(ctx, address, max_workers=1) as dispatcher:
        dispatcher.send("bad", "x", from_id="user", to_id="fatal")
        dispatcher.drain()
        dispatcher.send("good", Number(4), from_id="user", to_id="triangle")
        dispatcher.drain()
        [letter] = dispatcher.dead_letters()
        assert (letter.handler, letter.attempts, "BrokenProcessPool" in letter.error) == ("fatal", 2, True)
        assert len(ctx.threads.get("good").sent_by("triangle")) == 1


def test_memory_cannot_be_shared_with_another_process_and_that_is_said() -> None:
    with strongroom.open("memory://") as ctx:
        dispatcher = Dispatcher(ctx)
        dispatcher.handler("spin", cpu_bound=True, retry=Retry(attempts=1))(program.spinning)
        dispatcher.send("t", 1, from_id="user", to_id="spin")
        dispatcher.drain()
        [letter] = dispatcher.dead_letters()
        assert "other processes cannot open" in letter.error


@pytest.mark.parametrize("target", ["nothing", ":x", "no.such.module:x", "tests.dispatch.program:none", "os:path"])
def test_a_target_that_is_no_dispatcher_is_refused(target: str) -> None:
    with pytest.raises(InvalidInput):
        load(target)


def test_a_worker_serves_the_functions_of_a_program(tmp_path: Path) -> None:
    address = str(tmp_path / "agent.db")
    with strongroom.open(address) as ctx:
        Dispatcher(ctx).send("t", Number(1), from_id="user", to_id="step")
    work("tests.dispatch.program:dispatcher", url=address, drain=True)
    with strongroom.open(address) as ctx:
        assert len(ctx.threads.get("t").sent_by("step")) == 1


def start_worker(address: str) -> subprocess.Popen[bytes]:
    code = f"from strongroom.dispatch import work; work('tests.dispatch.program:dispatcher', url={address!r})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


@pytest.fixture
def workers(address: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    strongroom.open(address).close()
    started = [start_worker(address) for _ in range(2)]
    yield started
    for worker in started:
        worker.kill()
        worker.wait()


def answered(ctx: Any) -> int:
    return int(ctx.threads.stats().total_slots)


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_worker_that_is_told_to_stop_ends_well(address: str, workers: list[subprocess.Popen[bytes]]) -> None:
    with strongroom.open(address) as ctx:
        Dispatcher(ctx).send("t", Number(0), from_id="user", to_id="step")
        for slot in ctx.threads.follow("t"):
            if slot.from_id == "step":
                break
        serving = [worker for worker in workers if _has_signal_handler(worker.pid)]
        assert serving
        for worker in serving:
            worker.terminate()
        assert [worker.wait(60) for worker in serving] == [0] * len(serving)


@pytest.mark.parametrize("address", SHARED, indirect=True)
def test_killing_workers_loses_nothing_doubles_nothing_and_keeps_the_order(
    address: str, workers: list[subprocess.Popen[bytes]]
) -> None:
    rng = random.Random(7)
    sent = {f"t{n}": 0 for n in range(6)}
    kills, seen = 0, 0
    with strongroom.open(address) as ctx:
        sender = Dispatcher(ctx)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or kills < 3:
            for _ in range(rng.randrange(1, 20)):
                thread_id = rng.choice(list(sent))
                sender.send(thread_id, Number(sent[thread_id]), from_id="user", to_id="step")
                sent[thread_id] += 1
            total = sum(sent.values())
            if answered(ctx) > seen + total:  # workers are at work: strike at a random instant
                time.sleep(rng.uniform(0, 0.05))
                victim = rng.randrange(len(workers))
                workers[victim].kill()
                workers[victim].wait()
                workers[victim] = start_worker(address)
                kills += 1
                seen = answered(ctx) - total
    for worker in workers:
        worker.kill()
        worker.wait()
    print(f"{kills} workers killed, {sum(sent.values())} messages sent")
    work("tests.dispatch.program:dispatcher", url=address, drain=True)
    with strongroom.open(address) as ctx:
        assert not Dispatcher(ctx).dead_letters()
        ctx.threads.register(Number)
        for thread_id, count in sent.items():
            answers = [slot.payload.n for slot in ctx.threads.get(thread_id).sent_by("step")]
            assert answers == list(range(count))
            effects = [slot.payload.n for log in _children(ctx, thread_id) for slot in ctx.threads.get(log)]
            assert effects == list(range(count))


def _has_signal_handler(pid: int) -> bool:
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))


def _children(ctx: Any, thread_id: str) -> list[str]:
    found = [info.thread_id for info in ctx.threads.list(limit=1000)]
    return [child for child in found if _parent(ctx, child) == thread_id]


def _parent(ctx: Any, thread_id: str) -> str | None:
    try:
        parent: str | None = ctx.registry.lookup(thread_id).parent
        return parent
    except LookupError:
        return None
