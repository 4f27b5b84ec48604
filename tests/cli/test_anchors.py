"""`strongroom anchor`: all that were named, or all there are; whatever cannot be sealed is said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import strongroom


def test_a_run_that_is_not_there_leaves_no_anchor_of_the_others(type_in: Any, here: Path) -> None:
    assert type_in("anchor", "anchors.txt", "scraper", "nosuch").code == 1
    assert not Path("anchors.txt").exists()


def test_a_damaged_run_is_named_and_the_others_are_anchored(type_in: Any, empty: Path) -> None:
    with strongroom.open("agent.db") as ctx:
        for n in range(3):
            ctx.runs.create(objective="x", run_id=f"r{n}")
    with closing(sqlite3.connect("agent.db")) as con, con:
        con.execute("UPDATE head SET sum = sum + 1 WHERE kind = 'run' AND id = 'r1'")
    shown = type_in("anchor", "anchors.txt")
    assert shown.code == 3 and "r1" in shown.err
    assert len(Path("anchors.txt").read_text().splitlines()) == 2
