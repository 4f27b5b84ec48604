"""What is kept when two processes work on one thread: `python -m tests.adapters.kept`, for a table of docs/adapters.md.

Each environment has the frameworks that it has: the rows of others stay. `make kept` runs it in all of them, with 100
turns a process. Ours is also asserted, by the tests of each adapter.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable

from msgspec import Struct

from tests.adapters.frameworks import has
from tests.adapters.our_stores import ADAPTERS, Ours
from tests.adapters.own_stores import STORES
from tests.adapters.processes import ROOT, TURNS, lines_of, started
from tests.servers.postgres import PostgresServer

PAGE = ROOT / "docs" / "adapters.md"
BEGIN, END = "<!-- kept: made by `make kept` -->", "<!-- /kept -->"
HEADINGS = (
    "adapter",
    "ours, SQLite",
    "ours, Postgres",
    "the framework's own store",
    "it acknowledged",
    "it kept",
    "its processes",
)


class Outcome(Struct, frozen=True):
    """How many turns were acknowledged, how many of all are there afterwards, how many of two processes failed."""

    acknowledged: int
    kept: int
    failed: int

    @property
    def ended(self) -> str:
        return ("to their ends", "one failed", "both failed")[self.failed]


def worked(program: str, address: str, kept: Callable[[str], Iterable[str]]) -> Outcome:
    """Let two processes work on a store."""
    running = [started(program, address, name, TURNS, quiet=True) for name in ("one", "two")]
    acknowledged = sum(len(process.communicate(timeout=1_200)[0].split()) for process in running)
    failed = sum(process.returncode != 0 for process in running)
    return Outcome(acknowledged, len(set(kept(address)) & lines_of()), failed)


def row(ours: Ours, server: PostgresServer) -> tuple[str, ...]:
    """Return the cells of a framework, with what it was told in its own store too."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cells = [ours.framework]
        for address in (f"{folder}/ours.db", server.new_database()):
            ours.prepare(address)
            cells.append(told(worked(ours.program, address, ours.kept)))
        own = STORES.get(ours.framework)
        if own is None:
            return (*cells, "in memory, for one process", "", "", "")
        address = f"{folder}/theirs"
        own.prepare(address)
        theirs = worked(own.program, address, own.kept)
        return (*cells, own.name, str(theirs.acknowledged), str(theirs.kept), theirs.ended)


def told(outcome: Outcome) -> str:
    """Return how many turns ours has kept; something else than all of them says why."""
    if outcome.failed or outcome.acknowledged != outcome.kept:
        return f"{outcome.kept}; {outcome.acknowledged} acknowledged, {outcome.ended}"
    return str(outcome.kept)


def table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows_of(page: str) -> dict[str, tuple[str, ...]]:
    """Return the rows that a page has, by their frameworks."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {line[0]: line for line in cells}


def replaced(page: str, new: dict[str, tuple[str, ...]]) -> str:
    """Return the page with new rows, in the order of the adapters."""
    rows = rows_of(page) | new
    whole = table(rows[one.framework] for one in ADAPTERS if one.framework in rows)
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{whole}\n{END}", page, flags=re.DOTALL)


def main() -> None:
    server = PostgresServer("fsync=off")
    try:
        for ours in ADAPTERS:
            if has(ours.needs):
                found = row(ours, server)
                print(" | ".join(found), flush=True)
                PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), {found[0]: found}), encoding="utf-8")
    finally:
        server.close()


if __name__ == "__main__":
    main()
