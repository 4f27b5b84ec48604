"""Run the benchmarks: `python -m benchmarks [name ...]`. Writes bench-results/results.json and results.png."""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.measuring import Result

OUT = Path("bench-results")


def main(wanted: list[str]) -> int:
    console = Console()
    results: dict[str, list[Result]] = {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name in ("__main__", "measuring", "plot") or (wanted and module.name not in wanted):
            continue
        part = importlib.import_module(f"benchmarks.{module.name}")
        if not hasattr(part, "measure"):
            continue
        table = Table("figure", "ratio", "wanted", "ours", "peer", "", title=module.name, title_justify="left")
        results[module.name] = []
        for result in part.measure():
            results[module.name].append(result)
            sign = "<=" if result.at_most else ">="
            mark = "[green]met[/]" if result.met else "[red]MISSED[/]"
            table.add_row(
                result.name, f"{result.ratio:.2f}", f"{sign} {result.wanted:g}", result.ours, result.peer, mark
            )
            console.print(f"  {module.name}: {result.name}: {result.ratio:.2f}", style="dim")
        console.print(table)
    OUT.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    (OUT / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode({"on": machine, "results": results})))
    from benchmarks.plot import draw

    draw(results, OUT / "results.png")
    console.print(f"written: {OUT / 'results.json'}, {OUT / 'results.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
