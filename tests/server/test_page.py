"""The page about the server shows requests as they are sent: each of them, and its program, work, and work again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Client

from tests.server.conftest import client
from tests.server.serving import Served, served

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
PROGRAMS = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
REQUESTS = re.findall(r"^```http\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SAID = "http://127.0.0.1:8000"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(str(tmp_path / "agent.db")) as started:
        yield started


def send(http: Client, request: str) -> dict[str, object]:
    """Send what the page shows, and return the answer."""
    head, _, body = request.partition("\n\n")
    first, *lines = head.splitlines()
    method, path = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    answer = http.request(method, path, headers=headers, content=body or None)
    assert answer.is_success, f"{first}: {answer.text}"
    told: dict[str, object] = answer.json()
    return told


def test_every_request_of_the_page_is_answered_and_sent_again_it_changes_nothing(server: Served) -> None:
    looks = [f"GET {path}" for path in ("/runs/scraper/events", "/sessions/support-7/messages", "/threads/pages/slots")]
    with client(server.url) as http:
        seen = []
        for _ in range(2):
            for request in REQUESTS:
                send(http, request)
            seen.append([send(http, look) for look in looks])
    assert seen[0] == seen[1]
    assert len(REQUESTS) >= 10


def test_the_page_shows_a_request_for_every_kind_of_thing() -> None:
    shown = {request.split()[1].split("?")[0].split("/")[1] for request in REQUESTS}
    assert shown == {"runs", "sessions", "memories", "threads"}


def test_every_program_of_the_page_runs_and_runs_again(server: Served) -> None:
    for _ in range(2):
        for program in PROGRAMS:
            assert SAID in program
            exec(compile(program.replace(SAID, server.url), "server.md", "exec"), {})
