"""The guide's agent: killed in the middle, it goes on; run again in the same folder, it does the same."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import strongroom

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


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program as a module, in a folder of its own, with a ticket whose first question is answered."""
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("support_agent", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with strongroom.open("support.db") as ctx:
        ctx.runs.create(run_id="t", objective="o")
        assert module.answer(ctx, "t", 1, "Where is my order 4711?") == "It is lost in transit."
    return module


def test_workers_who_answer_one_question_at_once_pay_once_and_say_the_same(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, think = threading.Barrier(3), agent.model

    def at_once(messages: list[dict[str, Any]]) -> dict[str, Any]:
        with suppress(threading.BrokenBarrierError):  # who lost a race asks alone
            together.wait(0.2)
        return think(messages)  # type: ignore[no-any-return]

    monkeypatch.setattr(agent, "model", at_once)
    with strongroom.open("support.db") as ctx, ThreadPoolExecutor(3) as workers:
        said = list(workers.map(lambda _: agent.answer(ctx, "t", 2, "Please refund it."), range(3)))
        assert said == ["I have refunded 30 EUR."] * 3
        assert Path("payments.txt").read_text() == "t:2:0\n"
        assert ctx.runs.get("t").verify().ok


def test_a_question_that_comes_once_more_after_others_gets_the_answer_it_got(agent: Any) -> None:
    with strongroom.open("support.db") as ctx:
        agent.answer(ctx, "t", 2, "Please refund it.")
        assert agent.answer(ctx, "t", 1, "Where is my order 4711?") == "It is lost in transit."


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
