"""`make` with an interpreter that is named uses that one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing import NotHad, had_or_skip

ROOT = Path(__file__).parents[1]
MAKES_IT = "-m venv --clear .venv"
SPACED = "a python"


def _make() -> str:
    found = shutil.which("make")
    if found is None:
        raise NotHad("make", "it is not on the path")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone with an environment of this interpreter, in a path with a space."""
    clone = tmp_path / "a clone"
    clone.mkdir()
    shutil.copy(ROOT / "Makefile", clone)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True, timeout=120)
    (clone / ".venv" / "made").touch()
    return clone


def planned(folder: Path, *arguments: str) -> str:
    """What make would do for `.venv/made`, without doing it."""
    command = [had_or_skip(_make), "--dry-run", ".venv/made", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120).stdout


def test_an_environment_of_another_interpreter_is_made_again(folder: Path) -> None:
    other = folder / "other"
    other.write_text("#!/bin/sh\necho another version, elsewhere\n")
    other.chmod(0o755)
    assert MAKES_IT in planned(folder, "PYTHON=./other")


def test_an_environment_of_the_same_interpreter_stays(folder: Path) -> None:
    assert MAKES_IT not in planned(folder, f"PYTHON={sys.executable}")


def test_an_interpreter_in_a_path_with_a_space_can_be_named(folder: Path) -> None:
    (folder / SPACED).symlink_to(folder / ".venv" / "bin" / "python")
    assert MAKES_IT not in planned(folder, f"PYTHON=./{SPACED}")
    shutil.rmtree(folder / ".venv")
    assert f'"./{SPACED}" {MAKES_IT}' in planned(folder, f"PYTHON=./{SPACED}")


def test_an_environment_stays_when_no_interpreter_is_named(folder: Path) -> None:
    assert MAKES_IT not in planned(folder)


def test_without_an_environment_one_is_made(folder: Path) -> None:
    shutil.rmtree(folder / ".venv")
    assert MAKES_IT in planned(folder, f"PYTHON={sys.executable}")
