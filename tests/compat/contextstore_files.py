"""Files as ContextStore writes them: one table, a row a session, the history as JSON text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw


def write_old_file(path: Path, rows: list[tuple[str, Any]]) -> bytes:
    """Make a file with these rows; a history that is text already is written as it is. Return the file's bytes."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE tb_context (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, "
        "context_json TEXT NOT NULL, created_at TEXT, updated_at TEXT)"
    )
    for session_id, history in rows:
        text = history if isinstance(history, (str, bytes)) else json.dumps(history, indent=2)
        connection.execute("INSERT INTO tb_context (session_id, context_json) VALUES (?, ?)", (session_id, text))
    connection.close()
    return path.read_bytes()


def old_message(number: int, role: str = "user") -> dict[str, Any]:
    return {
        "id": f"m{number}",
        "content": {"data": f"text {number}", "role": role},
        "timestamp": f"2024-01-01T00:00:{number:02d}+00:00",
    }
