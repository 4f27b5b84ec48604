"""A run as a file, as lines of a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.machine import Machine
from benchmarks.measuring import Result
from benchmarks.processes import MISSING
from benchmarks.running import Answer


class Run(Struct):
    """All that was measured in one go."""

    machine: Machine
    quick: bool
    answers: dict[str, Answer] = {}

    @property
    def crashed(self) -> list[str]:
        return [name for name, answer in self.answers.items() if answer.ended == "crashed"]


def save(run: Run, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run)))


def load(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)


def line(result: Result) -> str:
    """Return a figure as a line for a terminal."""
    return f"  {verdict(result):6}  {value(result.ratio):>9}  {wanted(result):9}  {result.name}  {sides(result)}"


def remarks(name: str, answer: Answer) -> list[str]:
    """Return what a terminal is told after the figures of a question: what was left out, or why it ended early."""
    if answer.ended == "done":
        return [f"  {said}" for said in answer.said if said.startswith(MISSING)]
    return ["", *answer.said, f"  {name}: {answer.ended} after {answer.seconds} s"]


def verdict(result: Result) -> str:
    return "" if result.wanted is None else "met" if result.met else "MISSED"


def wanted(result: Result) -> str:
    if result.wanted is None:
        return ""
    return f"{'<=' if result.at_most else '>='} {result.wanted:g}"


def value(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}" if abs(number) >= 0.1 else f"{number:.3f}"


def spread(result: Result) -> str:
    if result.low is None or result.high is None or result.low == result.high:
        return ""
    return f"{value(result.low)} .. {value(result.high)}"


def sides(result: Result) -> str:
    return f"[{result.ours} / {result.peer}]" if result.peer else f"[{result.ours}]" if result.ours else ""


def markdown(run: Run) -> str:
    """Return the whole run: a table a question."""
    parts = [f"{run.machine.line()}.{' A quick run: for a look, not for a claim.' if run.quick else ''}"]
    for name, answer in run.answers.items():
        parts.append(f"## {answer.asks}\n\n`python -m benchmarks {name}`, {answer.seconds:.0f} s{_ended(answer)}")
        if answer.results:
            parts.append(table(answer.results))
    return "\n\n".join(parts) + "\n"


def table(results: Iterable[Result]) -> str:
    rows = [
        "| figure | value | quartiles | wanted | result | ours | peer | durability | note |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        cells = (
            one.name,
            value(one.ratio),
            spread(one),
            wanted(one),
            verdict(one),
            one.ours,
            one.peer,
            one.durability,
            one.note,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _ended(answer: Answer) -> str:
    return {"done": "", "out of time": "; its time was up, so there may be more to tell", "crashed": "; it crashed"}[
        answer.ended
    ]
