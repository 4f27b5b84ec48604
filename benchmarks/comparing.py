"""Is a change slower? The hot operations of this tree and of another commit, in turn, each in a process of its own."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from benchmarks.measuring import SECONDS, Result, compare
from benchmarks.processes import ROOT, Program
from benchmarks.report import line, table
from benchmarks.workload import NOT_DURABLE, SYNCED

OPERATIONS = {
    "session.append": SYNCED,
    "session.window": "a read",
    "session.search": "a read",
    "run.update": SYNCED,
    "run.record": SYNCED,
    "memories.propose + commit": SYNCED,
    "a slot in process": NOT_DURABLE,
    "a commit of the store": SYNCED,
}


def compare_with(base: str, out: Path) -> int:
    """Measure both, and write bench-results/comparison.md: how fast this tree is, in multiples of the base."""
    results = []
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "base"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), base], cwd=ROOT, check=True)
        try:
            for operation, durability in OPERATIONS.items():
                results.append(_measured(operation, durability, Path(name), tree))
                print(line(results[-1]), flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    (out / "comparison.md").write_text(f"This tree against {base}.\n\n{table(results)}\n", encoding="utf-8")
    return 0


def _measured(operation: str, durability: str, folder: Path, tree: Path) -> Result:
    file = operation.replace(" ", "-")
    with (
        Program("hot:operations", source=ROOT, path=str(folder / f"{file}-ours.db")) as ours,
        Program("hot:operations", source=tree, path=str(folder / f"{file}-base.db")) as base,
    ):
        pair = compare(ours.timed(operation), base.timed(operation), 2 * SECONDS, timed=True)
    return pair.row("comparing", operation, durability=durability)
