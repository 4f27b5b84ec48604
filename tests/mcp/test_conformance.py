"""The conformance tool of the protocol, against our real application with its fixtures, in both families."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.mcp import node

HERE = Path(__file__).parent / "conformance"
EXPECTED = HERE / "expected-failures.yml"
# How many checks pass in each family, so that none can go missing unseen.
PASSED = {"2025-11-25": 81, "2026-07-28": 162}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp.conformance.serve"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=node.ROOT,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    yield server.stdout.readline().strip()
    server.stdin.close()
    server.wait(60)
    server.stdout.close()


@pytest.mark.parametrize("family", PASSED)
def test_every_scenario_passes_or_is_a_known_limit_of_the_sdk(
    request: pytest.FixtureRequest, tmp_path: Path, family: str
) -> None:
    node.run("conformance", "--version")
    url = request.getfixturevalue("url")
    chosen = ["--requirements", family, "--expected-failures", str(EXPECTED), "-o", str(tmp_path)]
    done = node.run("conformance", "server", "--url", url, *chosen)
    told = done.stdout.partition("=== SUMMARY ===")[2]
    assert done.returncode == 0, told
    assert int((re.search(r"Total: (\d+) passed", told) or ["", "0"])[1]) >= PASSED[family]


def test_what_is_expected_to_fail_is_a_limit_of_the_sdk() -> None:
    known = yaml.safe_load(EXPECTED.read_text())["server"]
    assert all(name.startswith("tasks-") for name in known)
