"""Files of other systems, opened to be imported from."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from strongroom.errors import InvalidInput


def opened(path: str | Path, tables: set[str], what: str) -> sqlite3.Connection:
    """Open an SQLite file that must not change, and that must have these tables."""
    try:
        source = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as problem:
        raise _unreadable(path, problem) from None
    try:
        found = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables <= found:
            raise InvalidInput(f"{str(path)!r:.80} holds no {what}; nothing changed")
    except sqlite3.Error as problem:
        source.close()
        raise _unreadable(path, problem) from None
    except InvalidInput:
        source.close()
        raise
    return source


def _unreadable(path: str | Path, problem: sqlite3.Error) -> InvalidInput:
    return InvalidInput(f"{str(path)!r:.80} cannot be read as SQLite: {problem}; nothing changed")
