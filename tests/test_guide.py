"""The guide's agent: killed in the middle, it goes on; run again in the same folder, it does the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "examples" / "support_agent.py"
GUIDE = (ROOT / "docs" / "guide.md").read_text()


def run(folder: Path) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_agent_lives_through_kill_9_and_says_what_the_guide_says_twice(tmp_path: Path) -> None:
    [told] = re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert run(tmp_path) == told
    assert run(tmp_path) == told


def test_the_readme_leads_to_the_guide() -> None:
    assert "](docs/guide.md)" in (ROOT / "README.md").read_text()


def test_nothing_of_the_customer_is_left_in_any_file_of_the_store(tmp_path: Path) -> None:
    run(tmp_path)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("support.db*"))
    assert [words for words in (b"please refund it", b"never vouchers", b"voucher?") if words in files] == []


def test_the_guide_shows_the_functions_of_the_program_as_they_are() -> None:
    program = PROGRAM.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    shown = [part.strip() for block in blocks for part in re.split(r"\n\n\n", block) if part.startswith("def ")]
    assert len(shown) >= 7
    assert [part.splitlines()[0] for part in shown if part not in program] == []
