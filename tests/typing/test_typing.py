"""The blocking API is typed as tightly as the async one it is made from."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IGNORE = re.compile(r"  # type: ignore\[([a-z-]+)\]")


def mypy(*files: Path) -> str:
    config = str(ROOT / "pyproject.toml")
    out, problems, _ = api.run(["--strict", "--config-file", config, "--no-error-summary", *map(str, files)])
    assert not problems
    return out


def test_right_calls_pass_and_wrong_calls_do_not(tmp_path: Path) -> None:
    """One run for both, because most of its time is starting up."""
    wrong = (HERE / "refuses.py").read_text()
    expected = {
        (number, found[1])
        for number, line in enumerate(wrong.splitlines(), 1)
        if (found := IGNORE.search(line)) is not None
    }
    stripped = tmp_path / "stripped.py"
    stripped.write_text(IGNORE.sub("", wrong))

    report = mypy(HERE / "accepts.py", HERE / "refuses.py", stripped)

    errors = re.findall(r"^(.*?):(\d+): error: .*\[([a-z-]+)\]$", report, re.MULTILINE)
    assert [name for name, _, _ in errors if not name.endswith("stripped.py")] == [], report
    assert {(int(number), code) for _, number, code in errors} == expected, report
    assert len(expected) >= 10
