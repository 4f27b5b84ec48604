"""What a machine does not have is told: loudly on a laptop, as an error in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDS = """
import pytest
from tests.missing import NotHad, had_or_skip

def start():
    raise NotHad("Postgres", "nothing of that name")

@pytest.fixture(scope="session")
def server():
    return had_or_skip(start)

def test_one(server): ...
def test_two(server): ...
def test_three(): ...
def test_four(): pytest.skip("this store has no such thing")
def test_five(): pytest.importorskip("no_such_package")
"""


def run(folder: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    (folder / "test_needs.py").write_text(NEEDS)
    environment = {**os.environ, "CI": ci, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_a_laptop_is_told_at_the_end_what_was_not_run_and_why(tmp_path: Path) -> None:
    done = run(tmp_path, ci="")
    assert done.returncode == 0, done.stdout
    end = done.stdout[done.stdout.index("NOT RUN") :]
    assert "2 not run: Postgres could not be had: nothing of that name" in end
    assert "1 not run: could not import 'no_such_package'" in end
    assert "no such thing" not in end  # that a store has no such thing is no lack of this machine's


def test_in_ci_it_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, ci="true")
    assert done.returncode == 1
    assert "1 passed, 2 skipped, 2 errors" in done.stdout
