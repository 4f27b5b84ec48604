"""The readable copies beside a store: written from the store after each change, never read as the truth.

Whoever writes a copy holds its folder's lock and asks the store what is true then, so the last one to write has
written the newest state, whichever process it is.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from strongroom.blocking.runs import Run
from strongroom.errors import StrongroomError
from strongroom.files import writing

PAGE = 500
# In the detail of an event: what its caller called it, and the time the caller gave it.
GIVEN = "given"


def export_working_set(run: Run, path: Path) -> None:
    """Write a run's working set as it is now."""
    with _folder(path):
        # Not synced: the next change mends what a power cut leaves of a copy, and a sync costs more than a commit.
        fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.partial")
        try:
            fresh.write_bytes(_pretty(run.refresh().to_dict()))
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


def export_ledger(run: Run, path: Path, *, anew: bool = False) -> None:
    """Add to a ledger file the events of a run that are not in it yet; `anew` writes all of them."""
    extend(path, lambda after: (as_given(told.to_dict(), told.detail) for told in _events(run, after)), anew=anew)


def as_given(event: dict[str, Any], detail: dict[str, Any] | None) -> dict[str, Any]:
    """Return an event's JSON with the type and the time that its caller gave it."""
    given: Any = (detail or {}).get(GIVEN)
    names = ("event_type", "timestamp") if isinstance(given, dict) else ()
    return {**event, **{name: str(given[name]) for name in names if name in given}}


def write_json(path: Path, value: Any) -> None:
    """Write a document that is no copy: complete and on disk, or not there."""
    with writing(path) as file:
        file.write(_pretty(value))


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def extend(path: Path, after: Callable[[int], Iterable[dict[str, Any]]], *, anew: bool = False) -> None:
    """Append the events that follow the last whole line. A torn line goes: the store has its event.

    `anew` writes all of them again.
    """
    with _folder(path), path.open("ab+") as file:
        size, last = (
            (0, 0)
            if anew
            else _last_line(file.seek(0, os.SEEK_END), lambda at, count: os.pread(file.fileno(), count, at))
        )
        file.truncate(size)
        file.writelines(msgspec.json.encode(event) + b"\n" for event in after(last))


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Hold the folder's lock. A copy that cannot be written is a warning: what it copies is safe in the store."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
    except (OSError, StrongroomError) as problem:
        warnings.warn(f"{path} could not be brought up to date ({problem}); the store is", RuntimeWarning, stacklevel=4)


def _last_line(end: int, read: Callable[[int, int], bytes]) -> tuple[int, int]:
    """Return where the last whole line ends, and its sequence id (0, 0: there is none, write all of it)."""
    tail, start = b"", end
    while start and tail.count(b"\n") < 2:
        step = min(1 << 16, start)
        start -= step
        tail = read(start, step) + tail
    whole = tail[: tail.rfind(b"\n") + 1]
    try:
        return start + len(whole), int(msgspec.json.decode(whole.splitlines()[-1])["sequence_id"])
    except (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError):
        return 0, 0


def _events(run: Run, after: int) -> Iterator[Any]:
    while True:
        page = run.events(after=after, limit=PAGE)
        yield from page
        if page.next is None:
            return
        after = int(page.next)
