"""What the two archives of a release must hold, and must not."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

IN_WHEEL = (
    "strongroom/__init__.py",
    "strongroom/py.typed",
    "strongroom/schemas/working_set.json",
    "strongroom/backends/postgres/schema.sql",
    "strongroom/backends/redis/commit.lua",
    "strongroom/console/static/index.html",
    "strongroom/testing/conformance/__init__.py",
)
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "Makefile", "constraints.txt")
FOLDERS_OF_SDIST = ("src", "tests", "docs", "examples", "benchmarks", "release")
NEVER = re.compile(
    r"(^|/)(\.venv|\.git|\.ci|\.browser|\.mcp|\.adapters|__pycache__|site|dist|bench-results)(/|$)"
    r"|\.(db|db-wal|db-shm|db-queue|pyc|log)$"
)


def of_wheel(path: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    with ZipFile(path) as opened:
        names = opened.namelist()
    strange = [name for name in names if not re.match(r"strongroom(-[^/]+\.dist-info)?/", name)]
    return [*_missing(names, IN_WHEEL), *_forbidden(names), *(f"{name} is not of the package" for name in strange)]


def of_sdist(path: Path) -> list[str]:
    """Return what is wrong with a source distribution."""
    with tarfile.open(path) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    folders = {name.split("/")[0] for name in names}
    absent = [f"the folder {name} is missing" for name in FOLDERS_OF_SDIST if name not in folders]
    # Stores of older formats, which tests open, are part of the source.
    data = [name for name in names if not name.startswith("tests/data/")]
    return [*_missing(names, IN_SDIST), *absent, *_forbidden(data)]


def _missing(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    there = set(names)
    return [f"{name} is missing" for name in wanted if name not in there]


def _forbidden(names: Iterable[str]) -> list[str]:
    return [f"{name} must not be in it" for name in names if NEVER.search(name)]
