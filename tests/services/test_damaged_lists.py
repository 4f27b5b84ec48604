"""Lists of a damaged store: whatever row is damaged, the others are listed, and what cannot be read is named."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.dispatch import Dispatcher, Retry

LISTS: dict[str, Callable[[strongroom.Context], Any]] = {
    "sessions": lambda ctx: ctx.sessions.list(),
    "runs": lambda ctx: ctx.runs.list(),
    "memories": lambda ctx: ctx.memories.list(),
    "batches": lambda ctx: ctx.memories.pending(),
    "files": lambda ctx: ctx.files.list(),
    "threads": lambda ctx: ctx.threads.list(),
    "dead letters": lambda ctx: Dispatcher(ctx).dead_letters(),
}
HEADS = "SELECT kind, id, 'UPDATE head SET sum = sum + 1 WHERE ref = ' || ref FROM head"
NEWEST = """
SELECT kind, id, 'UPDATE record SET sum = sum + 1 WHERE pos = ' || max(pos)
FROM head JOIN record ON ref = pos >> 32 GROUP BY ref"""

# What one flipped bit makes of a letter: text that is none.
TEXTS = """
SELECT kind, id, 'UPDATE head SET text = cast(x''74ff'' AS TEXT) WHERE ref = ' || ref FROM head WHERE stream = 0"""


def fail(payload: Any, call: Any) -> None:
    raise ValueError("no")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "agent.db"
    with strongroom.open(path) as ctx:
        worker = Dispatcher(ctx)
        worker.handler("h", retry=Retry(attempts=1))(fail)
        for n in range(3):
            ctx.sessions.open(f"s{n}").append({"role": "user", "content": f"tea {n}"})
            ctx.runs.create(objective="o", run_id=f"r{n}").record("TOOL_CALL", {"tool_name": "x"})
            ctx.memories.add(f"likes tea {n}")
            ctx.memories.add(f"likes coffee {n}", proposer=f"agent-{n}")
            ctx.files.write(f"/f{n}", "tea")
            worker.send(f"t{n}", {"n": n}, from_id="a", to_id="h")
        worker.drain()
        ctx.runs.get("r1").export(path.with_name("r1.zip"))
        ctx.runs.restore(path.with_name("r1.zip"), run_id="restored")  # its ledger has another name
    return path


def counts(path: Path) -> dict[str, int]:
    with strongroom.open(path) as ctx:
        return {name: len(ask(ctx)) for name, ask in LISTS.items()}


@pytest.mark.parametrize("rows", [HEADS, NEWEST, TEXTS], ids=["head", "newest record", "text"])
def test_whatever_row_is_damaged_every_list_shows_the_others(whole: Path, rows: str) -> None:
    before, path = counts(whole), whole.with_name("spoilt.db")
    with closing(sqlite3.connect(whole)) as file:
        spoilt = file.execute(rows).fetchall()
    for kind, id, spoil in spoilt:
        shutil.copy(whole, path)
        with closing(sqlite3.connect(path)) as file:
            assert file.execute(spoil).rowcount == 1
            file.commit()
        with strongroom.open(path) as ctx:
            for name, ask in LISTS.items():
                shown = ask(ctx)
                assert len(shown) >= before[name] - 1, (name, kind, id)
                if len(shown) < before[name]:
                    told = shown.damaged if hasattr(shown, "damaged") else shown.degraded
                    assert told, (name, kind, id)


def test_a_session_whose_messages_are_damaged_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        for n in range(3):
            ctx.sessions.open(f"s{n}").append({"role": "user", "content": "tea"})
    with closing(sqlite3.connect(tmp_path / "agent.db")) as file:
        file.execute("UPDATE head SET sum = sum + 1 WHERE kind = 'message' AND id = 's1'")
        file.commit()
    with strongroom.open(tmp_path / "agent.db") as ctx:
        shown = ctx.sessions.list()
        assert ([one.id for one in shown], shown.damaged) == (["s0", "s2"], ("s1",))
