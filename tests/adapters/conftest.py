"""Addresses for adapters: the stores that people use, and the others where it is cheap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from tests.server.serving import served

MAIN = ["sqlite", "postgres"]


@pytest.fixture(params=MAIN)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store. Tests of a promise that is the store's ask for two; `every_address` has all."""
    return _address(request, request.param, tmp_path)


@pytest.fixture(params=["memory", *MAIN, "redis"])
def every_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _address(request, request.param, tmp_path)


@pytest.fixture(params=["memory", *MAIN, "redis", "http"])
def every_context(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[strongroom.Context]:
    """An empty store, also one behind a server that is asked with a writer's key."""
    if request.param == "http":
        with (
            served(str(tmp_path / "agent.db")) as server,
            strongroom.connect(server.url, key=server.key(role="writer")) as ctx,
        ):
            yield ctx
        return
    with strongroom.open(_address(request, request.param, tmp_path)) as ctx:
        yield ctx


def _address(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    if kind in ("memory", "sqlite"):
        return "memory://" if kind == "memory" else str(folder / "agent.db")
    started: str = request.getfixturevalue(kind)
    return started
