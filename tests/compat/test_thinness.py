"""The drop-in modules are names over the services: short, and nearer to no store than their users are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom.compat as package

FOLDER = Path(str(package.__file__)).parent
MODULES = sorted(FOLDER.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 250


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_module_sees_no_backend(path: Path) -> None:
    assert not [name for name in imported(path) if name.startswith("strongroom.backends")]
