"""The service tests of tests/services, run unchanged through the HTTP client, blocking and async."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from tests.awaitable import Awaitable
from tests.server.serving import Served, served

# STRONGROOM_CLIENTS=http,http-async runs all of them; otherwise the main ones run, blocking.
CLIENTS = os.environ.get("STRONGROOM_CLIENTS", "").split(",")
MAIN = {"test_runs", "test_run_updates", "test_memories", "test_consolidation", "test_dispatch", "test_session_lives"}


@pytest.fixture(params=["sqlite"])
def address(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


@pytest.fixture(scope="session")
def running() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def server(running: Served, address: str) -> Iterator[Served]:
    """One server for all tests, with an empty store for each."""
    running.reset(address)
    yield running
    running.reset("memory://")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what comes along with the imports and does not go through a context."""
    here = Path(__file__).parent
    items[:] = [item for item in items if here not in item.path.parents or _goes_through(item)]


def _goes_through(item: pytest.Item) -> bool:
    return "make_ctx" in getattr(item, "fixturenames", ()) and (CLIENTS != [""] or item.path.stem in MAIN)


@pytest.fixture(params=[client for client in CLIENTS if client] or ["http"])
def make_ctx(request: pytest.FixtureRequest, server: Served, runner: asyncio.Runner) -> Iterator[Callable[..., Any]]:
    """Connect to one server, each time with a key of the space that is asked for."""
    opened: list[Any] = []

    def make(*, space: str = "default") -> Any:
        key = server.key(space)
        if request.param == "http":
            context = strongroom.connect(server.url, key=key)
            opened.append(context)
            return Awaitable(context)
        async_context = runner.run(strongroom.aconnect(server.url, key=key))
        opened.append(async_context)
        return async_context

    yield make
    for context in opened:
        closing = context.close()
        if inspect.isawaitable(closing):
            runner.run(_await(closing))


async def _await(thing: Any) -> Any:
    return await thing
