"""What a user gets: the wheel holds the whole package and nothing else, and works without the source tree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
USE = """
import sys
sys.path.insert(0, sys.argv[1])
import strongroom, strongroom.server.app, strongroom.compat.aos_context.api.main, strongroom.compat.agentserver.memory
assert strongroom.__file__.startswith(sys.argv[1]), strongroom.__file__
with strongroom.open("memory://") as ctx:
    run = ctx.runs.create(objective="show that the schemas came along")
    assert run.verify().ok
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, timeout=300)
    [path] = folder.glob("*.whl")
    with ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_every_file_of_the_package(wheel: ZipFile) -> None:
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    written = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {name for name in wheel.namelist() if name.startswith("strongroom/")} == written


@pytest.mark.parametrize(
    "name",
    [
        "strongroom/py.typed",
        "strongroom/server/app.py",
        "strongroom/compat/contextstore/__init__.py",
        "strongroom/schemas/working_set.json",
        "strongroom/backends/postgres/schema.sql",
        "strongroom/backends/redis/commit.lua",
        "strongroom/testing/conformance/__init__.py",
    ],
)
def test_the_wheel_holds_what_is_easily_forgotten(wheel: ZipFile, name: str) -> None:
    assert name in wheel.namelist()


def test_the_wheel_holds_nothing_else(wheel: ZipFile) -> None:
    assert {name.split("/")[0].split("-")[0] for name in wheel.namelist()} == {"strongroom"}
    assert not [name for name in wheel.namelist() if "/tests/" in name or "/benchmarks/" in name]


def test_the_wheel_works_without_the_source_tree(wheel: ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    subprocess.run([sys.executable, "-c", USE, str(tmp_path)], cwd=tmp_path, check=True, timeout=300)
