"""Put a run where users look: its plots and data under docs/performance/, its tables between marks in three pages.

A mark is a line `<!-- bench: NAME -->`; what is between it and the next `<!-- /bench -->` is written anew. A question
that is asked alone has a run of its own, which says when it was; what an earlier one told stays until there is another.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.measuring import Result
from benchmarks.plots import PLOTS, draw
from benchmarks.processes import ROOT
from benchmarks.questions import ALONE
from benchmarks.report import Run, load, save, spread, table, value, verdict, wanted

DATA = ROOT / "docs" / "performance"
PAGES = ("README.md", "docs/performance.md", "docs/adapters.md")
MARKED = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)

# What the front page shows, in these words.
FRONT = (
    ("sessions", "a turn after 300, SQLiteSession, as many items", "A durable turn after 300, SQLiteSession"),
    ("sessions", "a turn after 300, SqliteSaver", "the same, LangGraph's SqliteSaver"),
    ("sessions", "a turn after 300, ADK's SqliteSessionService", "the same, Google ADK"),
    ("sessions", "a turn after 300, LlamaIndex's SQLAlchemyChatStore", "the same, LlamaIndex"),
    ("sessions", "a turn after 10,000, SqliteSaver", "after 10,000 turns, SqliteSaver"),
    ("commits", "session.append, against bare apsw", "A durable append, bare SQLite"),
    ("clients", "32 tasks / one", "32 tasks at once, one"),
    ("http", "PATCH, 64 clients, against the older server", "PATCH with 64 clients, the server it replaces"),
    ("memories", "add, against mem0 on Qdrant local (infer=False)", "Remembering, mem0 on Qdrant local"),
    ("growth", "append", "Growth of an append, 100 to 1,000,000 messages (exponent)"),
    ("disk", "bytes on disk per byte of text, searchable", "Bytes on disk for a byte of text, searchable"),
)  # fmt: skip


def publish(out: Path) -> int:
    """Write the runs that are in a folder into the pages. Returns 0."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name in sorted({"results", *ALONE}):
        if not (out / f"{name}.json").exists():
            continue
        run = load(out / f"{name}.json")
        for answer in run.answers.values():
            answer.said = []  # what programs print names the folders of a machine
        save(run, DATA / f"{name}.json")
        drawn = plots(run) if name == "results" else set()
        for page in PAGES:
            path = ROOT / page
            folder = "docs/performance" if page == "README.md" else "performance"
            text = path.read_text(encoding="utf-8")
            path.write_text(replaced(text, run, folder, drawn), encoding="utf-8")
        print(f"written: {name}")
    return 0


def plots(run: Run) -> set[str]:
    """Draw the plots of a run anew, and return their names."""
    for old in DATA.glob("*.svg"):
        old.unlink()
    return {path.stem.rpartition("-")[0] for path in draw(run, DATA)}


def replaced(text: str, run: Run, folder: str, drawn: set[str]) -> str:
    """Return a page with everything between marks that a run tells of written anew."""

    def anew(found: re.Match[str]) -> str:
        name = found[2]
        if (name in ALONE) != (run.answers.keys() <= ALONE.keys()) or (name in ALONE and name not in run.answers):
            return found[0]
        return found[1] + part(run, name, folder, drawn) + found[3]

    return MARKED.sub(anew, text)


def part(run: Run, name: str, folder: str, drawn: set[str]) -> str:
    """Return what belongs to a mark: a plot, the machine, the front page's part, or the table of a question."""
    if name.startswith("plot_"):
        name = name.removeprefix("plot_")
        return plot(name, folder) + "\n" if name in drawn else "Not part of this run.\n"
    if name == "machine":
        return f"{run.machine.line()}.\n"
    if name == "front":
        return front(run, folder, drawn)
    if name not in run.answers:
        return "Not part of this run.\n"
    if name in ALONE:
        return f"{run.machine.line()}.\n\n{table(run.answers[name].results)}\n"
    return table(run.answers[name].results) + "\n"


def plot(name: str, folder: str) -> str:
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.svg">'
        f'<img alt="{PLOTS[name].title}" src="{folder}/{name}-light.svg"></picture>'
    )


def front(run: Run, folder: str, drawn: set[str]) -> str:
    """Return the front page's table, its two plots, and on what they were measured."""
    rows = ["| measured, compared with | value | quartiles | wanted | result |", "|---|---|---|---|---|"]
    for question, name, told in FRONT:
        found = _found(run, question, name)
        if found is not None:
            rows.append(f"| {told} | {value(found.ratio)} | {spread(found)} | {wanted(found)} | {verdict(found)} |")
    plots = [plot(name, folder) for name in ("history", "clients") if name in drawn]
    return "\n".join(["", *rows, "", *plots, "", f"{run.machine.line()}.", ""])


def _found(run: Run, question: str, name: str) -> Result | None:
    results = run.answers[question].results if question in run.answers else []
    return next((one for one in results if one.name == name), None)
