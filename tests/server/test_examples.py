"""The examples run as they stand, against a server of their own and against one that is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.serving import served

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_agent_loop_starts_a_server_of_its_own() -> None:
    told = run("agent_loop.py")
    assert "conflict: we saw 3, it is at 4" in told
    assert "found before the review: 0" in told and "found now: 1" in told
    assert "verified: True" in told


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("agent_loop.py", "verified: True"),
        ("integration_with_retry.py", "6 messages, 3 results"),
        ("several_workers.py", "20 findings, 20 counted"),
    ],
)
def test_an_example_runs_against_a_server_that_is_given(name: str, says: str, tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server:
        assert says in run(name, server.url, STRONGROOM_API_KEY=server.key())
