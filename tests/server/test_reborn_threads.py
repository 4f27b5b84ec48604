"""A thread that ended and came back goes on counting where it ended; it is read like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.conftest import Caller
from tests.server.serving import Served


@pytest.fixture(scope="module")
def http(shared: Served) -> Iterator[httpx.Client]:
    """A client, for a thread that had 60 messages, was deleted, and has two more."""
    caller = Caller(shared)
    for n in range(60):
        caller.http.post("/threads/t/slots", json={"payload": n, "from_id": "a"}).raise_for_status()
    caller.http.delete("/threads/t").raise_for_status()
    for word in ("back", "again"):
        caller.http.post("/threads/t/slots", json={"payload": word, "from_id": "a"}).raise_for_status()
    yield caller.http
    caller.close()


@pytest.mark.parametrize(
    ("query", "payloads", "following"),
    [
        ({}, ["back", "again"], None),
        ({"start": 60}, ["back", "again"], None),
        ({"start": 61}, ["again"], None),
        ({"limit": 1}, ["back"], "61"),
        ({"after": "61"}, ["again"], None),
        ({"stop": 61}, ["back"], None),
        ({"stop": 2}, [], None),
    ],
    ids=str,
)
def test_a_thread_that_came_back_is_read(
    http: httpx.Client, query: dict[str, Any], payloads: list[str], following: str | None
) -> None:
    told = http.get("/threads/t/slots", params=query).json()
    assert ([slot["payload"] for slot in told["slots"]], told["next"], told["length"]) == (payloads, following, 2)
