"""What type checkers make of the API: nothing wrong with right code, and every line of the mistakes an error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IGNORE = re.compile(r"  # type: ignore\[([a-z, -]+)\]")


def mypy(*files: Path) -> str:
    config = str(ROOT / "pyproject.toml")
    out, problems, _ = api.run(["--strict", "--config-file", config, "--no-error-summary", *map(str, files)])
    assert not problems
    return out


def pyright(*files: Path) -> list[tuple[str, int]]:
    """Return the name and the line of every error that pyright finds."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(ROOT)]
    quiet = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # no word about newer versions among the JSON
    done = subprocess.run([*command, *map(str, files)], env=quiet, capture_output=True, text=True, timeout=600)
    told = json.loads(done.stdout)["generalDiagnostics"]
    return [(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in told if one["severity"] == "error"]


def marked(name: str) -> set[tuple[int, str]]:
    """Return the lines that must be refused, and mypy's word for why."""
    lines = (HERE / name).read_text().splitlines()
    found = {number: IGNORE.search(line) for number, line in enumerate(lines, 1)}
    return {(number, code) for number, said in found.items() if said is not None for code in said[1].split(", ")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mistakes, without the comments that let them pass."""
    made = tmp_path_factory.mktemp("stripped")
    for name in ("refuses.py", "twins_refused.py"):
        (made / name).write_text(IGNORE.sub("", (HERE / name).read_text()))
    return made


def test_mypy_accepts_right_code_and_refuses_every_mistake(folder: Path) -> None:
    """One run for both, because most of its time is starting up."""
    for right, wrong in (("accepts.py", "refuses.py"), ("twins.py", "twins_refused.py")):
        report = mypy(HERE / right, HERE / wrong, folder / wrong)
        errors = re.findall(r"^(.*?):(\d+): error: .*\[([a-z-]+)\]$", report, re.MULTILINE)
        assert [name for name, _, _ in errors if not name.startswith(str(folder)) and "stripped" not in name] == [], (
            report
        )
        assert {(int(number), code) for _, number, code in errors} == marked(wrong), report
        assert len(marked(wrong)) >= 10


def test_pyright_accepts_right_code_and_refuses_every_mistake(folder: Path) -> None:
    found = pyright(HERE / "accepts.py", folder / "refuses.py")
    assert [(name, line) for name, line in found if name == "accepts.py"] == []
    assert {line for name, line in found if name == "refuses.py"} == {line for line, _ in marked("refuses.py")}
