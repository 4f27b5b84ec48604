"""What examples need: a folder of their own, places west and east of Greenwich to be tried in, and a server of AoS."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from starlette.testclient import TestClient


@pytest.fixture(params=["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Be in a time zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The HTTP API of AoS, over an empty folder. It is imported by those who ask for it."""
    from tests.compat import aos_server

    monkeypatch.setattr(aos_server.main, "RUNS_ROOT", tmp_path / "runs")
    monkeypatch.delenv("AOS_TEST_MODE", raising=False)
    with aos_server.TestClient(aos_server.main.app) as client:
        yield client


@pytest.fixture
def run_id(client: TestClient) -> str:
    booted = client.post("/runs/boot", json={"objective": "Research AI", "constraints": ["Be kind"]})
    assert booted.status_code == 200
    found: str = booted.json()["run_id"]
    return found
