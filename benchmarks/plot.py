"""One picture of a run: each figure as a multiple of what was wanted."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measuring import Result


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """Draw a bar for each figure; right of the line means that the goal was met."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = margins(results)
    figure, axes = pyplot.subplots(figsize=(10, 0.35 * len(rows) + 1.5))
    colours = ["#2a9d8f" if value >= 1 else "#e76f51" for _, value in rows]
    axes.barh([name for name, _ in rows], [value for _, value in rows], color=colours)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("times better than wanted")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def margins(results: dict[str, list[Result]]) -> list[tuple[str, float]]:
    """Return a name and a margin for each figure that has a goal: of one that is only told nothing was wanted."""
    return [
        (f"{part}: {each.name}", margin(each)) for part, found in results.items() for each in found if each.wanted > 0
    ]


def margin(result: Result) -> float:
    """Return how many times better than wanted a figure is."""
    if result.at_most:
        return result.wanted / max(result.ratio, 1e-9)
    return result.ratio / result.wanted
