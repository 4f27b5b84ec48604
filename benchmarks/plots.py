"""The plots of a run, as SVG written by hand, each for a light page and for a dark one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from msgspec import Struct

from benchmarks.measuring import Curve
from benchmarks.report import Run

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 236, 44, 56  # room for labels; the names of the lines are at the right
LEAST_GAP = 15


class Plot(Struct, frozen=True):
    title: str
    x: str
    y: str
    unit: str = ""
    log_y: bool = True


class Colours(Struct, frozen=True):
    text: str
    faint: str
    grid: str
    lines: tuple[str, ...]


PLOTS = {
    "history": Plot("Latency against history", "records, sessions or spaces there are", "seconds a call", "s"),
    "clients": Plot("Throughput against clients", "clients at once", "commits a second"),
    "disk": Plot("Bytes on disk against text", "bytes of text", "bytes on disk", "B"),
    "recall": Plot("Recall against k", "hits that are looked at (k)", "share of the evidence", log_y=False),
}
THEMES = {
    "light": Colours(
        "#1f2328", "#59636e", "#d8dee4",
        ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#0550ae", "#57606a", "#116329"),
    ),
    "dark": Colours(
        "#e6edf3", "#9198a1", "#30363d",
        ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#f778ba", "#d29922", "#79c0ff", "#8b949e", "#7ee787"),
    ),
}  # fmt: skip


def draw(run: Run, folder: Path) -> list[Path]:
    """Write each plot that the run has lines for, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in PLOTS.items():
        curves = [one for answer in run.answers.values() for one in answer.curves if one.plot == name and one.points]
        if not curves:
            continue
        for theme, colours in THEMES.items():
            path = folder / f"{name}-{theme}.svg"
            path.write_text(svg(plot, curves, colours), encoding="utf-8")
            written.append(path)
    return written


class Axis(Struct, frozen=True):
    """Where a number is between two ends, by its logarithm or as it is."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, number: float) -> float:
        low, high, value = (math.log10(n) if self.log else n for n in (self.low, self.high, number))
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1)

    def ticks(self) -> list[float]:
        if not self.log:
            return [self.low + (self.high - self.low) * part / 5 for part in range(6)]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [tick for tick in found if self.low * 0.999 <= tick <= self.high * 1.001]


def axis(values: Sequence[float], log: bool, start: float, end: float, least_span: float = 100) -> Axis:
    if not log:
        return Axis(0.0, max(1.0, *values), False, start, end)
    low, high = min(values), max(values)
    if high / low < least_span:  # else a wobble would look like a cliff
        low, high = low / 3, high * 3
    return Axis(low / 1.15, high * 1.15, True, start, end)


def svg(plot: Plot, curves: Sequence[Curve], colours: Colours) -> str:
    """Return a plot of these lines."""
    points = [point for curve in curves for point in curve.points]
    across = axis([x for x, _ in points], True, LEFT, WIDTH - RIGHT, least_span=2)
    up = axis([y for _, y in points], plot.log_y, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{colours.text}">',
        f"<title>{escape(plot.title)}</title>",
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(plot.title)}</text>',
    ]
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{colours.grid}"/>')
        parts.append(_text(LEFT - 8, y + 4, _number(tick, plot.unit), colours.faint, "end"))
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{colours.grid}"/>')
        parts.append(_text(x, HEIGHT - BOTTOM + 18, _number(tick), colours.faint, "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, plot.x, colours.faint, "middle"))
    parts.append(_text(LEFT, TOP - 6, plot.y, colours.faint, "start"))
    ends = _apart([up.at(curve.points[-1][1]) for curve in curves])
    for number, (curve, label) in enumerate(zip(curves, ends, strict=True)):
        colour = colours.lines[number % len(colours.lines)]
        places = [(across.at(x), up.at(y)) for x, y in curve.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        edge = WIDTH - RIGHT + 14
        parts.append(f'<path d="M{x + 4:.1f} {y:.1f}L{edge - 4} {label:.1f}" stroke="{colour}" stroke-opacity="0.4"/>')
        parts.append(_text(edge, label + 4, curve.series, colour, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, colour: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def _apart(places: Sequence[float]) -> list[float]:
    """Move labels as far apart as they need, keeping their order, inside of the plot."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    above = float(TOP - LEAST_GAP)
    for number in order:
        moved[number] = above = max(places[number], above + LEAST_GAP)
    below = float(HEIGHT - BOTTOM + LEAST_GAP)
    for number in reversed(order):
        moved[number] = below = min(moved[number], below - LEAST_GAP)
    return moved


def _number(value: float, unit: str = "") -> str:
    if unit == "s":
        return f"{value * 1e6:g} us" if value < 1e-3 else f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}{unit}" if unit else f"{value / size:g}{letter}"
    return f"{value:g} {unit}".strip() if unit else f"{round(value, 3):g}"
