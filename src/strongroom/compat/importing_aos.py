"""Taking run folders of the AoS Context Module into a store. What is there is read, never changed.

A run comes in whole or not at all, under its own id and at its own sequence number. Lines of a ledger that are no
events (the torn one at the end, after a crash) are written to `<ledger>.torn` beside it, and reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

import strongroom
from strongroom.blocking import Context
from strongroom.compat.aos_context import _legacy
from strongroom.compat.aos_context._locations import LEDGER, WORKING_SET
from strongroom.compat.aos_context._patches import run_config
from strongroom.compat.aos_context.config import DEFAULT_CONFIG
from strongroom.compat.aos_context.validation import ValidationError
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.services.runs.runs import ACTOR

# Who a run comes from whose folder has no ledger: `server.py` wrote none, and its runs commit memories freely.
SERVICE = "aos-context-server"
Outcome = Literal["imported", "would be imported", "already there", "refused"]


class ImportedRun(Struct, frozen=True, kw_only=True):
    """What became of one run folder. `notes` says what was left out and why."""

    folder: str
    outcome: Outcome
    run_id: str = ""
    seq: int = 0
    events: int = 0
    episodes: int = 0
    notes: tuple[str, ...] = ()


class Report(Struct, frozen=True):
    """What became of every run folder that was found."""

    runs: tuple[ImportedRun, ...]
    dry_run: bool

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return all(run.outcome != "refused" for run in self.runs)

    def __str__(self) -> str:
        lines = []
        for run in self.runs:
            held = f"{run.run_id} at seq {run.seq}, {run.events} events, {run.episodes} episodes" if run.run_id else ""
            lines += [f"{run.folder}: {run.outcome}{': ' if held else ''}{held}", *(f"  {note}" for note in run.notes)]
        return "\n".join(lines) or "no run folders found"


def import_runs(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | Context, *, dry_run: bool = False
) -> Report:
    """Import a run folder, or every run folder in a folder. With `dry_run`, only say what would happen."""
    root = Path(source)
    if not root.is_dir():
        raise NotFound(
            f"there is no folder {os.fspath(source)!r}; nothing changed", kind="folder", id=os.fspath(source)
        )
    folders = [root] if _is_run(root) else [folder for folder in sorted(root.iterdir()) if _is_run(folder)]
    with _context(target, dry_run) as ctx:
        return Report(tuple(import_run(folder, ctx, dry_run=dry_run) for folder in folders), dry_run)


def import_run(folder: Path, ctx: Context | None, *, dry_run: bool = False) -> ImportedRun:
    """Import one run folder. Without a context there is nothing that could be there already."""
    try:
        state = _legacy.working_set((folder / "state" / WORKING_SET).read_bytes())
    except (OSError, ValidationError) as problem:
        return ImportedRun(folder=str(folder), outcome="refused", notes=(f"its working set: {problem}",))
    ledger = folder / "ledger" / LEDGER
    told = _legacy.ledger(ledger.read_bytes() if ledger.exists() else b"")
    episodes, notes = _legacy.episodes(folder / "episodes")
    notes += [f"{LEDGER}:{number} is not an event and was set aside: {why}" for number, why, _ in told.aside]
    if any((folder / "artifacts").glob("*")):
        notes.append("artifacts/ was left where it is: attach what the run still needs with run.attach")

    def result(outcome: Outcome, *more: str) -> ImportedRun:
        return ImportedRun(
            folder=str(folder),
            outcome=outcome,
            run_id=state["run_id"],
            seq=state["_update_seq"],
            events=len(told.events),
            episodes=len(episodes),
            notes=(*notes, *more),
        )

    try:
        if ctx is not None and _is_there(ctx, state["run_id"]):
            return result("already there", "a run of this id is in the store; nothing of it was changed")
        with _legacy.packed(state, told.events, episodes, run_config(DEFAULT_CONFIG)) as pack:
            if dry_run or ctx is None:
                _legacy.check(pack)
                return result("would be imported")
            ctx.runs.restore(pack, actor=ACTOR if ledger.parent.exists() else SERVICE)
    except Conflict:
        return result("already there", "another process imported it meanwhile")
    except StrongroomError as problem:
        return result("refused", str(problem))
    if told.aside:
        (torn := ledger.with_name(f"{ledger.name}.torn")).write_bytes(b"\n".join(raw for *_, raw in told.aside) + b"\n")
        return result("imported", f"what was set aside is in {torn}")
    return result("imported")


def _is_run(folder: Path) -> bool:
    return (folder / "state" / WORKING_SET).is_file()


def _is_there(ctx: Context, run_id: str) -> bool:
    try:
        ctx.runs.get(run_id)
    except NotFound:
        return False
    except InvalidInput:
        return False  # not an id a run can have here: importing it will say so
    return True


@contextmanager
def _context(target: str | os.PathLike[str] | Context, dry_run: bool) -> Iterator[Context | None]:
    if isinstance(target, Context):
        yield target
    elif dry_run and "://" not in os.fspath(target) and not Path(target).exists():
        yield None  # a dry run makes no file
    else:
        with strongroom.open(target) as ctx:
            yield ctx
