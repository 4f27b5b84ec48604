"""Where an assistant's memory is if nobody says: a file of the user's own, the same for every assistant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from strongroom.errors import InvalidInput

FOLDER, FILE = "strongroom", "agent.db"


def default_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own file: ~/.local/share/strongroom/agent.db, or under XDG_DATA_HOME if that is set."""
    data = environment.get("XDG_DATA_HOME", "")
    folder = Path(data) if data.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".local" / "share"
    return folder / FOLDER / FILE


def made_ready(file: Path) -> Path:
    """Make the folder of a file that may not be there yet, for nobody else to look into."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise InvalidInput(f"cannot make the folder {str(file.parent)!r}: {problem.strerror}") from None
    return file
