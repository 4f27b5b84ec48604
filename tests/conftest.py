"""Fixtures: every store, blocking and async."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import strongroom
from strongroom.opening import open_store
from strongroom.store import Store
from tests import scratch
from tests.awaitable import Awaitable
from tests.missing import summary
from tests.servers.postgres import (  # noqa: F401 - fixtures
    foreign_postgres,
    postgres,
    postgres_server,
    postgres_url,
    recycled_postgres,
)
from tests.servers.valkey import redis_store, redis_url, valkey_server  # noqa: F401 - fixtures

gc.disable()  # until all tests are found, of which none is garbage: to look for it took a third of that time
scratch.choose()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # As a shell leaves it to what it runs in the background. Whatever tests start would inherit that, and be deaf.
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("ci", deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
settings.load_profile("ci")

STORES = ["memory", "sqlite", "postgres", "redis"]
LONGEST = (
    "tests/repeats/",
    "tests/browser/",
    "tests/crash/",
    "tests/interleavings/",
    "tests/typing/",
    "tests/server/test_memory.py",
    "tests/adapters/test_processes.py",
    "tests/vectors/",
)
MODES = ["blocking", "async"]


@pytest.fixture(autouse=True)
def settings_are_left_alone() -> Iterator[None]:
    """No test may leave a setting behind in the environment: others would run, or start servers, with it."""
    before = _settings()
    yield
    assert _settings() == before


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("STRONGROOM_", "AOS_", "QDRANT_"))}


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each kind."""
    if request.param in ("memory", "sqlite"):
        return "memory://" if request.param == "memory" else str(tmp_path / "agent.db")
    started: str = request.getfixturevalue(request.param)
    return started


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = open_store(address)
    yield opened
    opened.close()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=MODES)
def make_ctx(request: pytest.FixtureRequest, address: str, runner: asyncio.Runner) -> Iterator[Callable[..., Any]]:
    """Open contexts on the same address, blocking and async. Tests await every call, not knowing which they have."""
    opened: list[Any] = []

    def make(**options: Any) -> Any:
        if request.param == "blocking":
            context = strongroom.open(address, **options)
            opened.append(context)
            return Awaitable(context)
        async_context = runner.run(strongroom.aopen(address, **options))
        opened.append(async_context)
        return async_context

    yield make
    for context in opened:
        closing = context.close()
        if inspect.isawaitable(closing):
            runner.run(_await(closing))


@pytest.fixture
def ctx(make_ctx: Callable[..., Any]) -> Any:
    return make_ctx()


async def _await(thing: Any) -> Any:
    return await thing


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on the test's own runner, the one its fixtures used."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    shared = pyfuncitem.funcargs.get("runner")
    if isinstance(shared, asyncio.Runner):
        shared.run(pyfuncitem.obj(**wanted))
    else:
        asyncio.run(pyfuncitem.obj(**wanted))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: files are dealt out whole, so that what a file needs is made once, and no worker
    may be left with a long one at the end."""

    def turn(item: pytest.Item) -> int:
        return next((n for n, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST))

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Never look for garbage among all tests and what they import: each look took half a second."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what could not be run here, so that "passed" is not taken for more than it is."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    lines = summary(reason[2] for reason in skipped if isinstance(reason, tuple))
    if lines:
        terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line, red=True)
