"""A server with a key of every role, in two spaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.serving import PATIENCE_SECONDS, Served, served

ROLES = ("reader", "writer", "reviewer", "admin")


class Caller:
    """An HTTP client with a key, and nothing else."""

    def __init__(self, server: Served, space: str = "default", role: str = "admin") -> None:
        self.key = server.key(space, role)
        self.http = client(server.url, self.key)

    def close(self) -> None:
        self.http.close()


def client(url: str, key: str | None = None) -> httpx.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    # Nothing to verify on http://, and to load certificates takes longer than most tests.
    return httpx.Client(base_url=url, headers=headers, trust_env=False, verify=False, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests of a file that do not disturb each other."""
    folder: Path = tmp_path_factory.mktemp("server")
    with served(str(folder / "agent.db"), snapshots=str(folder / "snapshots")) as started:
        yield started


@pytest.fixture(scope="module")
def roles(shared: Served) -> Iterator[dict[str, httpx.Client]]:
    made = {role: client(shared.url, shared.key("default", role)) for role in ROLES}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def admin(roles: dict[str, httpx.Client]) -> httpx.Client:
    return roles["admin"]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[httpx.Client]:
    """A caller on this machine, of a server without keys."""
    with served(str(tmp_path / "agent.db"), snapshots=str(tmp_path / "s")) as started, client(started.url) as http:
        yield http
