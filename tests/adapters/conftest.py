"""Addresses for adapters: the stores that people use, and the others where it is cheap."""

from __future__ import annotations

from pathlib import Path

import pytest

MAIN = ["sqlite", "postgres"]


@pytest.fixture(params=MAIN)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store. Tests of a promise that is the store's ask for two; `every_address` has all."""
    return _address(request, request.param, tmp_path)


@pytest.fixture(params=["memory", *MAIN, "redis"])
def every_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _address(request, request.param, tmp_path)


def _address(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    if kind in ("memory", "sqlite"):
        return "memory://" if kind == "memory" else str(folder / "agent.db")
    started: str = request.getfixturevalue(kind)
    return started
