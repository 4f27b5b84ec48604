"""The variables by which the AoS Context Module is told where things are. Whoever asks, they mean the same store.

`AOS_RUNS_ROOT` is a folder: runs, and the memories they share, are in the store `strongroom.db` in it, snapshots beside
it. `QDRANT_URL` and `QDRANT_COLLECTION` say where vectors of memories are kept. This module is small and imports
nothing of Strongroom, because the command line asks it before it knows whether anything else is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STORE = "strongroom.db"
COLLECTION = "agent_memories"
_ROOT = "AOS_RUNS_ROOT"


def runs_root(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that is named, if one is."""
    named = environment.get(_ROOT)
    return Path(named) if named else None


def store_in(root: Path | None) -> str | None:
    """Return the address of the store in a folder of runs; None if there is no such folder to speak of."""
    return None if root is None else str(root / STORE)


def snapshots_in(root: Path) -> Path:
    """Return where the packs of a folder of runs are written."""
    return root / "snapshots"


def test_mode(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether memories may be committed outside of a milestone."""
    return environment.get("AOS_TEST_MODE", "").lower() in ("1", "true", "yes", "on")


def qdrant(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return where Qdrant is and the collection to use, if it is named."""
    url = environment.get("QDRANT_URL")
    return (url, environment.get("QDRANT_COLLECTION") or COLLECTION) if url else None
