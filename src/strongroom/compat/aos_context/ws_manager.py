"""WorkingSetManager: a run behind the path of its working-set file.

The store beside the file is the truth; the file is a readable copy, brought up to date after each change. A file that
is there before its store is taken in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.bridge import run as drive
from strongroom.compat.aos_context import _legacy, _places
from strongroom.compat.aos_context._exports import export_ledger, export_working_set
from strongroom.compat.aos_context.config import DEFAULT_CONFIG, ContextConfig
from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.compat.aos_context.validation import ValidationError, validate_instance
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, StrongroomError
from strongroom.services.runs import brief, updates
from strongroom.services.runs.working_set import IMMUTABLE, MUTABLE
from strongroom.values import RunConfig


class WSLockError(RuntimeError):
    """Somebody else has changed the run, or it is already there."""


class WSExistsError(WSLockError, FileExistsError):
    """There is a run at this path already, and a run is never reset."""


class WSSizeError(RuntimeError):
    """What never leaves a working set takes more tokens than the whole may."""


@dataclass
class ApplyPatchResult:
    """`evicted` are the ids of sliding items that had to leave for this patch, the first to go first."""

    ok: bool
    new_ws: dict[str, Any] | None = None
    error: str | None = None
    evicted: tuple[str, ...] = ()


def run_config(config: ContextConfig) -> RunConfig:
    """Return the limits as a run keeps them. There the headings of the brief count too, so they come on top."""
    return RunConfig(
        ws_max_tokens=config.ws_max_tokens + brief.frame_tokens(estimate_tokens),
        pinned_context_max_items=min(config.pinned_context_max_items, 10),
    )


class WorkingSetManager:
    """The working set of one run. Any number of managers, threads and processes may share a path."""

    def __init__(self, ws_path: Path, config: ContextConfig = DEFAULT_CONFIG) -> None:
        self.ws_path = Path(ws_path)
        self.config = config

    def exists(self) -> bool:
        """Tell whether there is a run. Looking creates nothing."""
        place = _places.of_working_set(self.ws_path)
        if place.made:
            with _places.using(place) as ctx:
                if place.run(ctx) is not None:
                    return True
        return self.ws_path.exists()

    def load(self) -> dict[str, Any]:
        """Return the working set as it is now."""
        with self._run() as run:
            return run.working_set.to_dict()

    def save(self, ws: dict[str, Any]) -> None:
        """Store a whole working set: as a new run, or as the next state of the one it was loaded from.

        Raise `WSLockError` if the run has been updated since, or is another one.
        """
        result = validate_instance("working_set", ws)
        if not result.ok:
            raise ValidationError(result.error or "")
        place = _places.of_working_set(self.ws_path)
        with _places.using(place) as ctx:
            run = place.run(ctx) or (self._adopt(ctx, place) if self.ws_path.exists() else None)
            if run is None:
                with _legacy.packed(ws, config=run_config(self.config)) as pack:
                    run = ctx.runs.restore(pack)
            elif run.working_set.to_dict() != ws:
                self._replace(run, ws)
            export_working_set(run, self.ws_path)

    def create_initial(
        self,
        *,
        task_id: str,
        thread_id: str,
        run_id: str,
        objective: str,
        acceptance_criteria: list[str],
        constraints: list[str],
        current_stage: str = "BOOT",
    ) -> dict[str, Any]:
        """Start the run. Raise `WSExistsError` if there is one: it is never reset."""
        if self.exists():
            raise _taken(self.ws_path)
        place = _places.of_working_set(self.ws_path)
        with _places.using(place) as ctx:
            try:
                run = ctx.runs.create(
                    task_id=task_id,
                    thread_id=thread_id,
                    run_id=run_id,
                    objective=objective,
                    acceptance_criteria=acceptance_criteria,
                    constraints=constraints,
                    current_stage=current_stage,
                    config=run_config(self.config),
                )
            except BudgetExceeded as problem:
                raise WSSizeError(f"WS_SIZE_ERROR: {problem}") from None
            except Conflict:
                raise _taken(self.ws_path) from None
            except InvalidInput as problem:
                raise ValidationError(str(problem)) from None
            first = place.run(ctx)
            if first is not None and first.id != run.id:
                # Somebody started another run here in the same moment, and was first.
                raise _taken(self.ws_path)
            export_working_set(run, self.ws_path)
            return run.working_set.to_dict()

    def apply_patch(self, patch: dict[str, Any]) -> ApplyPatchResult:
        """Replace fields, if the run is still at the patch's `expected_seq`. Every refusal is in the run's ledger."""
        with self._run() as run:
            return patched(run, patch, self.ws_path)

    def create_resume_pack(self, output_dir: Path) -> Path:
        """Write everything of the run to a zip of its own name in a folder, and return its path."""
        with self._run() as run:
            task = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in run.working_set.task_id)
            stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
            path = Path(output_dir) / f"task_{task[:80]}_resume_{stamp}_{os.urandom(4).hex()}.zip"
            path.parent.mkdir(parents=True, exist_ok=True)
            run.export(path)
            return path

    @classmethod
    def restore_from_pack(cls, zip_path: Path, target_dir: Path) -> WorkingSetManager:
        """Bring a run back into a folder that holds none: all of it, or, if the pack is refused, nothing."""
        manager = cls(Path(target_dir) / "working_set.json")
        try:
            with _legacy.restorable(Path(zip_path)) as pack:
                manager.restore(pack)
        except InvalidInput as problem:
            raise ValueError(f"Invalid working set schema: {problem}") from None
        return manager

    def restore(self, pack: Path, run_id: str | None = None, ledger: Path | None = None) -> dict[str, Any]:
        """Bring a run back from a checked pack to this path, with its ledger's copy beside it."""
        if self.exists():
            raise _taken(self.ws_path)
        with _places.using(_places.of_working_set(self.ws_path)) as ctx:
            run = ctx.runs.restore(pack, run_id=run_id)
            export_working_set(run, self.ws_path)
            export_ledger(run, ledger or self.ws_path.with_name("run.jsonl"))
            return run.working_set.to_dict()

    # ---- the run behind the path ------------------------------------------------------------------------------------

    @contextmanager
    def _run(self) -> Iterator[Run]:
        place = _places.of_working_set(self.ws_path)
        if not place.made and not self.ws_path.exists():
            raise FileNotFoundError(f"there is no working set at {self.ws_path}")
        with _places.using(place) as ctx:
            yield place.run(ctx) or self._adopt(ctx, place)

    def _adopt(self, ctx: Context, place: _places.Place) -> Run:
        """Take in a file that was there before its store."""
        try:
            state = _legacy.working_set(self.ws_path.read_bytes())
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no working set at {self.ws_path}") from None
        try:
            with _legacy.packed(state, config=run_config(self.config)) as pack:
                return ctx.runs.restore(pack)
        except Conflict:
            found = place.run(ctx)
            assert found is not None
            return found

    def _replace(self, run: Run, ws: dict[str, Any]) -> None:
        now = run.working_set.to_dict()
        if any(now[name] != ws[name] for name in IMMUTABLE if name != "_update_seq"):
            raise _taken(self.ws_path)
        if ws["_update_seq"] not in (run.seq, run.seq + 1):
            raise WSLockError(lock_error(ws["_update_seq"], run.seq))
        try:
            run.update(expected_seq=run.seq, **{name: ws[name] for name in MUTABLE})
        except Conflict as lost:
            raise WSLockError(lock_error(lost.expected, lost.actual)) from None
        except BudgetExceeded as problem:
            raise WSSizeError(f"WS_SIZE_ERROR: {problem}") from None


def patched(run: Run, patch: dict[str, Any], ws_path: Path) -> ApplyPatchResult:
    """Apply a patch to a run and bring its file up to date."""
    error = _problem(patch)
    if error is not None:
        drive(updates.reject(run._async._ref, error, updates.By("agent", None)))
        return ApplyPatchResult(False, None, error)
    try:
        changed = run.update(expected_seq=patch["expected_seq"], **patch["set"])
    except Conflict as lost:
        return ApplyPatchResult(False, None, lock_error(lost.expected, lost.actual))
    except BudgetExceeded as problem:
        return ApplyPatchResult(False, None, f"WS_SIZE_ERROR: {problem}")
    except InvalidInput as problem:
        return ApplyPatchResult(False, None, f"patch schema: {problem}")
    except StrongroomError as problem:
        return ApplyPatchResult(False, None, f"save: {problem}")
    evicted = tuple(item.id for item in run.eviction.evicted) if run.eviction else ()
    export_working_set(run, ws_path)
    return ApplyPatchResult(True, changed.to_dict(), None, evicted)


def lock_error(expected: int, current: int) -> str:
    return f"LOCK_ERROR expected_seq={expected} current_seq={current}"


def _problem(patch: Any) -> str | None:
    """Say what is wrong with a patch whatever the run is."""
    fields = patch.get("set") if isinstance(patch, dict) else None
    fixed = [name for name in IMMUTABLE if isinstance(fields, dict) and name in fields]
    if fixed:
        return f"immutable field in patch: {fixed[0]}"
    result = validate_instance("ws_patch", patch)
    return None if result.ok else f"patch schema: {result.error}"


def _taken(path: Path) -> WSExistsError:
    return WSExistsError(f"there is a run at {path} already, and a run is never reset; nothing changed")
