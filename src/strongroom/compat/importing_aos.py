"""Taking run folders of the AoS Context Module into a store. What is there is read, never changed.

A run comes in whole or not at all, under its own id and at its own sequence number. Lines of a ledger that are no
events (the torn one at the end, after a crash) are written to `<ledger>.torn` beside it, and reported. Where a run has
a store of its own in its folder already, that is what comes in, with its history.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.compat.aos_context import _legacy, _locations
from strongroom.compat.aos_context._exports import export_ledger
from strongroom.compat.aos_context._locations import LEDGER, WORKING_SET
from strongroom.compat.aos_context._patches import run_config
from strongroom.compat.aos_context.config import DEFAULT_CONFIG, ContextConfig
from strongroom.compat.aos_context.validation import ValidationError
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.services.runs.state import ACTOR

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
    folders = run_folders(root)
    with _context(target, dry_run) as ctx:
        return Report(tuple(import_run(folder, ctx, dry_run=dry_run) for folder in folders), dry_run)


def run_folders(root: Path) -> list[Path]:
    """Return the folder itself if it is one of a run, else those of runs in it."""
    return [root] if _is_run(root) else [folder for folder in sorted(root.iterdir()) if _is_run(folder)]


def import_run(
    folder: Path, ctx: Context | None, *, dry_run: bool = False, config: ContextConfig = DEFAULT_CONFIG
) -> ImportedRun:
    """Import one run folder. Without a context there is nothing that could be there already."""
    own = _locations.beside(folder)
    if own.made:
        with _locations.using(own) as there:
            run = own.run(there)
            if run is not None:
                return _import_stored(folder, run, ctx, dry_run)
    return _import_files(folder, ctx, dry_run, config)


def _import_stored(folder: Path, run: Run, ctx: Context | None, dry_run: bool) -> ImportedRun:
    """Import a run that is in a store of its own."""
    known = ImportedRun(
        folder=str(folder), outcome="imported", run_id=run.id, seq=run.seq, events=run.head().length,
        notes=("it was in a store of its own, which stays as it is and is not used any more",),
    )  # fmt: skip
    try:
        if ctx is not None and _is_there(ctx, run.id):
            return _there(known)
        if dry_run or ctx is None:
            return replace(known, outcome="would be imported")
        with tempfile.TemporaryDirectory(prefix="strongroom-import-") as made:
            run.export(pack := Path(made) / "pack.zip")
            brought = ctx.runs.restore(pack)
        export_ledger(brought, folder / "ledger" / LEDGER, anew=True)  # it told of fewer events
    except Conflict:
        return _there(known)
    except StrongroomError as problem:
        return replace(known, outcome="refused", notes=(str(problem),))
    return known


def _import_files(folder: Path, ctx: Context | None, dry_run: bool, config: ContextConfig) -> ImportedRun:
    """Import a run as the older system left it."""
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
    known = ImportedRun(
        folder=str(folder), outcome="imported", run_id=state["run_id"], seq=state["_update_seq"],
        events=len(told.events), episodes=len(episodes), notes=tuple(notes),
    )  # fmt: skip
    try:
        if ctx is not None and _is_there(ctx, state["run_id"]):
            return _there(known)
        with _legacy.packed(state, told.events, episodes, run_config(config)) as pack:
            if dry_run or ctx is None:
                _legacy.check(pack)
                return replace(known, outcome="would be imported")
            ctx.runs.restore(pack, actor=ACTOR if ledger.parent.exists() else SERVICE)
    except Conflict:
        return _there(known)
    except StrongroomError as problem:
        return replace(known, outcome="refused", notes=(*notes, str(problem)))
    if told.aside:
        (torn := ledger.with_name(f"{ledger.name}.torn")).write_bytes(b"\n".join(raw for *_, raw in told.aside) + b"\n")
        return replace(known, notes=(*notes, f"what was set aside is in {torn}"))
    return known


def _there(known: ImportedRun) -> ImportedRun:
    said = "a run of this id is in the store; nothing of it was changed"
    return replace(known, outcome="already there", notes=(*known.notes, said))


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
