"""Calling a model with retries, so that a crash, a restart or a lost answer never makes anything happen twice.

Two ideas carry it. Every write has an id that comes from *what* is done, so repeating the work repeats the id, and the
server answers a repeat with what the first one did. And the run itself says how far the work has come, so a program
that starts again begins where it stopped.

    python examples/integration_with_retry.py [http://127.0.0.1:8000]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from serving import server

import strongroom

T = TypeVar("T")
QUESTIONS = ["Who proposed the name?", "Where did they meet?", "What came of it?"]


class FlakyModel:
    """Stands for any API: every other call fails."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, question: str) -> str:
        self.calls += 1
        if self.calls % 2:
            raise TimeoutError("the model did not answer")
        return f"An answer to: {question}"


def persistently(work: Callable[[], T], *, attempts: int = 5) -> T:
    """Try again after what may pass. What will not pass (`InvalidInput`, `Conflict`) is not retried."""
    for attempt in range(attempts):
        try:
            return work()
        except (TimeoutError, strongroom.Unavailable, strongroom.CommitUnknown) as trouble:
            if attempt == attempts - 1:
                raise
            print(f"  {type(trouble).__name__}: trying again")
            time.sleep(0.01 * 2**attempt)
    raise AssertionError("not reached")


def main(url: str) -> None:
    model = FlakyModel()
    with strongroom.connect(url, key=os.environ.get("STRONGROOM_API_KEY"), retry_seconds=30) as ctx:
        run = ctx.runs.create(objective="Answer three questions")
        session = ctx.sessions.open(f"answers-{run.id}")

        def ask(number: int, question: str) -> None:
            answer = model.answer(question)
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            session.append(messages, commit_id=f"{run.id}:answer:{number}")
            run.record("TOOL_RESULT", {"tool_name": "model", "ok": True}, commit_id=f"{run.id}:result:{number}")

        for number, question in enumerate(QUESTIONS):
            print(question)
            persistently(lambda number=number, question=question: ask(number, question))
            persistently(lambda number=number, question=question: ask(number, question))  # a repeat

        results = run.events(types=["TOOL_RESULT"])
        print(f"{model.calls} calls of the model, {len(session.load(100))} messages, {len(results)} results")
        assert len(session.load(100)) == 2 * len(QUESTIONS) and len(results) == len(QUESTIONS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with server() as own:
            main(own)
