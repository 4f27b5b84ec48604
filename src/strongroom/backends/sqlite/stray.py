"""A log beside a file that is not its own: commits that nobody would see again, or that would be written over others.

* The file is missing or empty. SQLite would begin a new one and delete the log.
* The file was written whole, as a backup is, or a file under another key, and put where another one was. SQLite would
  copy the other's log over its pages.

What is written whole says so: the bytes 18 and 19 of its header are 1 (a rollback journal), in the clear also where it
is encrypted, until it is opened to be written for the first time, which makes them 2. Both orders are SQLite's: the
header is on disk before there is a log, and the log is removed before a header says that there is none.
"""

from __future__ import annotations

import time
from pathlib import Path

from strongroom.backends.sqlite.encryption import header_of, kind_of
from strongroom.backends.sqlite.files import COARSE_NS, facts_of
from strongroom.backends.sqlite.log import HEADER_BYTES, MAGIC
from strongroom.errors import Damaged

_PAUSE_SECONDS = COARSE_NS / 1e9
_LOOKS = 20

_WHOLE = b"\1\1"


def refuse_stray_log(path: Path) -> None:
    """Raise `Damaged` if the log beside a file cannot be its own, before SQLite looks at either.

    No lock is needed, which who may only read could not have: what is looked at first, the log, comes last when a store
    is made. Only somebody who exchanges both meanwhile could be taken for damage, so it has to last.
    """
    log = Path(f"{path}-wal")
    wrong = None
    for _ in range(_LOOKS):
        looked = facts_of(log) if _holds_frames(log) else None
        wrong = None if looked is None else _wrong_with(path)  # in this order, see above
        if wrong is None:
            return
        time.sleep(_PAUSE_SECONDS)
        if _wrong_with(path) == wrong and facts_of(log) == looked:
            break
    raise Damaged(f"{wrong} (nothing was opened)", reason="replaced")


def is_whole(path: Path) -> bool:
    """Tell whether a file was written whole, and has not been opened to be written since."""
    header = header_of(path)
    return kind_of(header) in ("plain", "encrypted") and header[18:20] == _WHOLE


def _holds_frames(log: Path) -> bool:
    """Tell whether anything was written to a log. SQLite holds no locks on it, so it may be opened and closed."""
    try:
        with log.open("rb") as file:
            begins = file.read(HEADER_BYTES + 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it is not known, and matters only beside a file that has no log
    return len(begins) > HEADER_BYTES and begins.startswith(MAGIC)


def _wrong_with(path: Path) -> str | None:
    """Return why a log beside this file is not its own; None if it may be."""
    log = f"{path.name}-wal"
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    except OSError:
        return None  # whoever opens it is told
    if size <= 1:  # SQLite takes a file of one byte for an empty one
        return (
            f"{path} is {'empty' if path.exists() else 'missing'}, and {log} holds commits that were acknowledged: put "
            f"that file back, and it opens with them. If it cannot be had, or is not wanted, remove {log}"
        )
    if is_whole(path):
        return (
            f"{log} is of another file than {path}, which was written as a whole (a backup is) and has no log yet: "
            f"remove {log} and {path.name}-shm, or put the file back that they are of"
        )
    return None
