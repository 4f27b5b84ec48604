"""All rows: every operation of every service that writes."""

from __future__ import annotations

from tests.repeats import files_rows, memories_rows, runs_rows, sessions_rows, threads_rows, turns_rows
from tests.repeats.rows import Row

ROWS: tuple[Row, ...] = (
    *runs_rows.ROWS,
    *sessions_rows.ROWS,
    *memories_rows.ROWS,
    *threads_rows.ROWS,
    *files_rows.ROWS,
    *turns_rows.ROWS,
)
