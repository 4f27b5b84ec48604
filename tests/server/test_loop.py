"""What takes long for large texts is computed beside the event loop, and answers stay within their bound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from strongroom import retrieval
from strongroom.server.bounded import MIB
from strongroom.services.files import search as file_search
from strongroom.services.memories import requests as memory_requests
from tests.server.conftest import client
from tests.server.serving import Served, served

LARGE = "x y " * 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with client(server.url, server.key()) as made:
        yield made


def noting(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[str]:
    """Note the threads in which a function is called."""
    made: Callable[..., Any] = getattr(where, name)
    seen: list[str] = []

    def called(*args: Any, **kwargs: Any) -> Any:
        seen.append(threading.current_thread().name)
        return made(*args, **kwargs)

    monkeypatch.setattr(where, name, called)
    return seen


def test_large_files_are_ranked_beside_the_loop(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noting(monkeypatch, file_search, "_ranked")
    http.put("/files", json={"path": "/large.txt", "text": LARGE})
    [hit] = http.get("/files/search", params={"q": "y"}).json()["hits"]
    assert hit["path"] == "/large.txt"
    assert seen and "server" not in seen


def test_large_messages_are_ranked_beside_the_loop(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noting(monkeypatch, retrieval, "rank")
    http.post("/sessions", json={"session_id": "s"})
    http.post("/sessions/s/messages", json={"messages": [{"role": "user", "content": LARGE}]})
    assert len(http.get("/sessions/s/search", params={"q": "y"}).json()["hits"]) == 1
    assert seen and "server" not in seen


def test_many_proposals_are_screened_beside_the_loop(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noting(monkeypatch, memory_requests, "_flags")
    common = {"_schema_version": "2.1", "op": "add", "type": "fact", "scope": "global", "rationale": "r"}
    wanted = [{**common, "content": f"{LARGE[:7000]} {n}", "confidence": 0.9, "source_refs": []} for n in range(20)]
    assert http.post("/memories/propose", json={"requests": wanted}).status_code == 200
    assert seen and "server" not in seen


def test_small_ones_are_not_worth_a_thread(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = noting(monkeypatch, file_search, "_ranked")
    http.put("/files", json={"path": "/small.txt", "text": "a word"})
    http.get("/files/search", params={"q": "word"})
    assert seen == ["server"]


def test_sources_that_do_not_fit_into_one_answer_come_without_their_messages(http: httpx.Client) -> None:
    http.post("/sessions", json={"session_id": "big"})
    for _ in range(5):
        http.post("/sessions/big/messages", json={"messages": [{"role": "user", "content": "a" * 900_000}]})
    answer = http.get("/memories/sources", params={"ref": ["big#2"] * 20})
    assert len(answer.content) <= 8 * MIB
    shown = [bool(one["messages"]) for one in answer.json()["sources"]]
    assert shown[0] and len(shown) == 20
    assert [one["left_out"] for one in answer.json()["sources"]] == [not one for one in shown]
