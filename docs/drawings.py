"""The drawings of docs/concepts.md: boxes, arrows and words as SVG, that read well in light and dark.

`make docs` writes them; a test compares.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "drawn"
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2933; }
  .small { font-size: 12px; fill: #52606d; }
  .strong { font-weight: 600; }
  .box { fill: #f5f7fa; stroke: #9aa5b1; rx: 6; }
  .key { fill: #c6f7e2; stroke: #147d64; rx: 6; }
  .end { fill: #ffe3e3; stroke: #ab091e; rx: 6; }
  .line { stroke: #616e7c; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  @media (prefers-color-scheme: dark) {
    svg { background: #1f2933; }
    text { fill: #f5f7fa; } .small { fill: #cbd2d9; }
    .box { fill: #323f4b; stroke: #9aa5b1; } .key { fill: #014d40; stroke: #65d6ad; }
    .end { fill: #610316; stroke: #ff9b9b; } .line { stroke: #cbd2d9; }
  }
"""


class Drawing:
    """Collects shapes. A box is placed by its middle."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._title, self._width, self._height = title, width, height
        self._parts: list[str] = []

    def box(self, x: int, y: int, text: str, *, width: int = 150, look: str = "box", small: str = "") -> None:
        height = 52 if small else 36
        self._parts.append(
            f'<rect class="{look}" x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}"/>'
        )
        self.text(x, y - 4 if small else y + 5, text, look="strong")
        if small:
            self.text(x, y + 15, small, look="small")

    def text(self, x: int, y: int, text: str, *, look: str = "") -> None:
        self._parts.append(f'<text class="{look}" x="{x}" y="{y}" text-anchor="middle">{escape(text)}</text>')

    def arrow(self, x1: int, y1: int, x2: int, y2: int, text: str = "") -> None:
        self._parts.append(f'<path class="line" d="M{x1} {y1} L{x2} {y2}"/>')
        if text:
            self.text((x1 + x2) // 2, (y1 + y2) // 2 - 6, text, look="small")

    def svg(self) -> str:
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#616e7c"/></marker>'
        )
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        lines = "\n".join(f"  {part}" for part in self._parts)
        title = f"<title>{escape(self._title)}</title>"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n  {title}\n  <style>{STYLE}</style>\n'
            f"  <defs>{head}</defs>\n{lines}\n</svg>\n"
        )


def waist() -> Drawing:
    drawing = Drawing("Doors and services above, two verbs in the middle, four stores below", 760, 330)
    for place, name in enumerate(("command line", "server", "assistants", "frameworks", "your code")):
        drawing.box(80 + place * 150, 30, name, width=130)
        drawing.arrow(80 + place * 150, 48, 80 + place * 150, 82)
    drawing.box(
        380, 110, "runs · sessions · memories · threads · files", width=700, small="written once, blocking and async"
    )
    drawing.arrow(380, 136, 380, 168)
    drawing.box(380, 196, "read · commit", width=260, look="key", small="one moment, all or nothing")
    for place, name in enumerate(("memory", "SQLite", "Postgres", "Redis")):
        drawing.arrow(380, 222, 155 + place * 150, 268)
        drawing.box(155 + place * 150, 290, name, width=130)
    return drawing


def commit() -> Drawing:
    drawing = Drawing("A commit is checked, written, made durable and answered, or refused, or unknown", 760, 240)
    drawing.box(85, 60, "commit", small="id, expects, writes")
    drawing.arrow(160, 60, 205, 60)
    drawing.box(280, 60, "as expected?")
    drawing.arrow(355, 60, 400, 60, "yes")
    drawing.box(475, 60, "write all", small="and a receipt")
    drawing.arrow(550, 60, 595, 60)
    drawing.box(675, 60, "on disk", look="key", small="done")
    drawing.arrow(280, 78, 280, 160, "")
    drawing.text(300, 125, "no", look="small")
    drawing.box(280, 185, "refused", look="end", small="nothing changed")
    drawing.arrow(675, 86, 675, 160)
    drawing.text(625, 128, "answer lost", look="small")
    drawing.box(655, 185, "unknown", look="end", small="repeat with the same id", width=190)
    drawing.arrow(560, 185, 475, 90)
    return drawing


def turn() -> Drawing:
    drawing = Drawing("The calls of a turn become one commit", 760, 250)
    calls = ("append a message", "update the run", "record a tool result", "send to an agent", "propose a memory")
    for place, name in enumerate(calls):
        drawing.box(110, 30 + place * 47, name, width=190)
        drawing.arrow(205, 30 + place * 47, 300, 124)
    drawing.box(375, 124, "turn", small="collects")
    drawing.arrow(450, 124, 510, 124, "end")
    drawing.box(625, 124, "one commit", look="key", width=220, small="all of it is there, or nothing")
    return drawing


def memory() -> Drawing:
    drawing = Drawing(
        "A memory is proposed, decided, active, and ends superseded, retired, revoked or erased", 760, 280
    )
    drawing.box(85, 120, "proposed", small="found by nobody")
    drawing.arrow(160, 105, 250, 60, "reject")
    drawing.box(325, 50, "rejected", look="end", small="with a reason")
    drawing.arrow(160, 125, 250, 160)
    drawing.text(190, 165, "commit", look="small")
    drawing.box(325, 170, "active", look="key", small="found by search")
    for place, (name, why) in enumerate(
        (("superseded", "by a newer one"), ("retired", "its time is over"), ("revoked", "with its source"))
    ):
        drawing.arrow(400, 170, 520, 50 + place * 75)
        drawing.box(600, 50 + place * 75, name, small=why)
    drawing.arrow(325, 196, 325, 240)
    drawing.box(325, 258, "erased", look="end", width=150)
    return drawing


DRAWINGS = {"waist": waist, "commit": commit, "turn": turn, "memory": memory}


def drawn() -> dict[Path, str]:
    """Return each file as it should be."""
    return {FOLDER / f"{name}.svg": make().svg() for name, make in DRAWINGS.items()}
