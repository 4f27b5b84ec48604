"""Where these tests put their files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that is not there yet, in a folder with a space in its name."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return folder / "agent.db"


@pytest.fixture
def fast_folder() -> Iterator[Path]:
    """A folder in memory if there is one, for tests that write thousands of files and do not care for fsync."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="strongroom crash ", dir=memory) as folder:
        yield Path(folder)
