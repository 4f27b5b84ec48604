"""How many bytes does a byte of text take? Files after closing, each turn of two messages in a commit of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import strongroom
from benchmarks.measuring import Curve, Result, figure, pick
from benchmarks.processes import MissingPeerError, Program
from benchmarks.workload import SYNCED, messages, on_disk, text_bytes

TURNS = pick((30, 300, 3_000, 30_000), (30, 300))
SQUARE_TURNS = tuple(turns for turns in TURNS if turns <= 300)  # theirs grows with the square of its turns


def measure() -> Iterator[Result | Curve]:
    ours: list[tuple[float, float]] = []
    searchable: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turns in TURNS:
            path = folder / f"ours-{turns}.db"
            history = messages(0, 2 * turns)
            text = float(text_bytes(history))
            with strongroom.open(path, durability="relaxed") as ctx:
                session = ctx.sessions.open("s")
                for place in range(0, len(history), 2):
                    session.append(history[place : place + 2])
            ours.append((text, float(on_disk(path))))
            with strongroom.open(path) as ctx:
                ctx.sessions.open("s").search("the lake", k=10)
            searchable.append((text, float(on_disk(path))))
        yield Curve("disk", "ours", ours)
        yield Curve("disk", "ours, searchable", searchable)
        note = f"{TURNS[-1]:,} turns"
        for told, points in (("", ours), (", searchable", searchable)):
            share = points[-1][1] / points[-1][0]
            name = f"bytes on disk per byte of text{told}"
            yield figure("disk", name, share, ours=f"{share:.2f}", durability=SYNCED, note=note)
        yield from beside(folder, dict(ours))


def beside(folder: Path, ours: dict[float, float]) -> Iterator[Result | Curve]:
    rivals = (
        ("SQLiteSession", "agents:turn_by_turn", TURNS[:3], "SQLiteSession's bytes / ours"),
        ("SqliteSaver", "langgraph:turn_by_turn", SQUARE_TURNS, "SqliteSaver's bytes after 300 turns / ours"),
    )
    for peer, program, sizes, name in rivals:
        points = []
        try:
            for turns in sizes:
                path = folder / f"{peer}-{turns}.db"
                Program(program, peer=True, path=str(path), turns=turns).close()
                points.append((float(text_bytes(messages(0, 2 * turns))), float(on_disk(path))))
        except MissingPeerError as missing:
            print(missing)
            continue
        yield Curve("disk", peer, points)
        text, size = points[-1]
        told = {"ours": f"{ours[text] / text:.2f}", "peer": f"{size / text:.2f}"}
        yield figure("disk", name, size / ours[text], durability=SYNCED, note=f"{sizes[-1]:,} turns", **told)
