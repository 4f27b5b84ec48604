"""Run the benchmarks: `python -m benchmarks [NAME ...]`, `--base COMMIT`, `--publish`; QUICK=1 for a quick look.

Writes bench-results/: results.json and results.md after each question, so that a run that is ended keeps what it has,
and the plots. A question that is asked alone because it takes long has files of its own name. Ends with 0 unless
something crashed: a missed goal is told, not punished.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks import comparing, publishing
from benchmarks.machine import machine
from benchmarks.measuring import QUICK
from benchmarks.plots import draw
from benchmarks.questions import ALONE, MOST_QUICK_SECONDS, MOST_SECONDS, QUESTIONS
from benchmarks.report import Run, line, markdown, remarks, save
from benchmarks.running import ask

OUT = Path("bench-results")


def main(arguments: list[str]) -> int:
    known = {**QUESTIONS, **ALONE}
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--base", metavar="COMMIT", help="measure the hot operations of two commits in turn")
    parser.add_argument("--patience", type=float, default=1.0, help="times the usual time, for a slow machine")
    parser.add_argument("--publish", action="store_true", help="put the run in bench-results/ into README and docs")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(known):
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    OUT.mkdir(exist_ok=True)
    if asked.publish:
        return publishing.publish(OUT)
    if asked.base:
        return comparing.compare_with(asked.base, OUT)
    return run(asked.names or list(QUESTIONS), asked.patience)


def run(names: list[str], times: float) -> int:
    done = Run(machine(), QUICK)
    file = names[0] if len(names) == 1 and names[0] in ALONE else "results"
    print(done.machine.line(), flush=True)
    end = time.monotonic() + times * (MOST_QUICK_SECONDS if QUICK else MOST_SECONDS)
    for name in names:
        question = QUESTIONS.get(name) or ALONE[name]
        patience = times * (question.quick_seconds if QUICK else question.seconds)
        if name in QUESTIONS and len(names) > 1:
            patience = min(patience, max(end - time.monotonic(), 1.0))
        print(f"\n{name}: {question.asks}", flush=True)
        answer = ask(name, question.asks, patience, lambda result: print(line(result), flush=True))
        done.answers[name] = answer
        for said in remarks(name, answer):
            print(said, flush=True)
        save(done, OUT / f"{file}.json")
        (OUT / f"{file}.md").write_text(markdown(done), encoding="utf-8")
    plots = draw(done, OUT) if file == "results" else []
    figures = [result for answer in done.answers.values() for result in answer.results]
    missed = sum(not result.met for result in figures)
    print(f"\n{len(figures)} figures, {missed} missed; {OUT}/{file}.json, {file}.md and {len(plots)} plots")
    if done.crashed:
        print(f"crashed: {', '.join(done.crashed)}")
    return 1 if done.crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
