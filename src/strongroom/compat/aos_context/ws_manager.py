"""WorkingSetManager: a run behind the path of its working-set file.

The store beside the file is the truth; the file is a readable copy, brought up to date after each change. A file that
is there before its store is taken in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.compat.aos_context import _legacy, _locations
from strongroom.compat.aos_context._episodes import episodes_beside, export_episodes, take_in
from strongroom.compat.aos_context._errors import WSExistsError, WSLockError, WSSizeError, refusals, taken
from strongroom.compat.aos_context._exports import export_ledger, export_working_set
from strongroom.compat.aos_context._patches import ApplyPatchResult, lock_error, patched, run_config
from strongroom.compat.aos_context.config import DEFAULT_CONFIG, ContextConfig
from strongroom.compat.aos_context.validation import ValidationError, validate_instance
from strongroom.compat.importing_aos import import_run
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.services.runs.working_set import IMMUTABLE, MUTABLE
from strongroom.values import UpdateFields

__all__ = ["ApplyPatchResult", "WSExistsError", "WSLockError", "WSSizeError", "WorkingSetManager"]

IDENTITY = ("task_id", "thread_id", "run_id", "objective")
# What of a run that starts is not given by its caller.
START: dict[str, Any] = {
    "status": "BOOT",
    "next_action": "",
    "last_action_summary": "",
    "blockers": [],
    "artifact_refs": [],
    "pinned_context": [],
    "sliding_context": [],
}


class WorkingSetManager:
    """The working set of one run. Any number of managers, threads and processes may share a path."""

    def __init__(self, ws_path: Path, config: ContextConfig = DEFAULT_CONFIG) -> None:
        self.ws_path = Path(ws_path)
        self.config = config

    def exists(self) -> bool:
        """Tell whether there is a run. Looking creates nothing."""
        location = _locations.of_working_set(self.ws_path)
        if location.made:
            with _locations.using(location) as ctx:
                if location.run(ctx) is not None:
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
        location = _locations.of_working_set(self.ws_path)
        with _locations.using(location) as ctx:
            run = location.run(ctx) or (self._adopt(ctx, location) if self.ws_path.exists() else None)
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
        """Start a run. One of that id that is here already starts over: as an update, so its history stays.

        Raise `WSExistsError` if it has another objective, task or thread, which are fixed.
        """
        ids: dict[str, Any] = {"task_id": task_id, "thread_id": thread_id, "run_id": run_id}
        given: dict[str, Any] = {
            "acceptance_criteria": acceptance_criteria,
            "constraints": constraints,
            "current_stage": current_stage,
        }
        location = _locations.of_working_set(self.ws_path)
        with _locations.using(location) as ctx, refusals(self.ws_path):
            run = location.run(ctx) or (self._adopt(ctx, location) if self.ws_path.exists() else None)
            if run is not None and run.id != run_id and not location.rooted:
                run = _found(ctx, run_id)  # one that this file has shown before
            if run is not None and run.id == run_id:
                self._overwrite(run, {**ids, "objective": objective}, {**START, **given})
            else:
                run = ctx.runs.create(objective=objective, config=run_config(self.config), **ids, **given)
            return self._shown(ctx, location, run)

    def apply_patch(self, patch: dict[str, Any]) -> ApplyPatchResult:
        """Replace fields, if the run is still at the patch's `expected_seq`. Every refusal is in the run's ledger."""
        with self._run() as run:
            return patched(run, patch, self.ws_path)

    def create_resume_pack(self, output_dir: Path) -> Path:
        """Write everything of the run to `task_<task_id>_resume_<time>_<random>.zip` in a folder; return its path."""
        with self._run() as run:
            if self.ws_path.absolute().parent.name == "state":
                take_in(run, episodes_beside(self.ws_path))
            task = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in run.working_set.task_id)
            stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
            name = f"task_{task[:80]}_resume_{stamp}_{os.urandom(4).hex()}.zip"
            path = Path(output_dir) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            run.export(path)
            return path

    @classmethod
    def restore_from_pack(cls, zip_path: Path, target_dir: Path) -> WorkingSetManager:
        """Bring a run back into a folder: all of it, or, if the pack is refused, nothing."""
        manager = cls(Path(target_dir) / "working_set.json")
        try:
            with _legacy.restorable(Path(zip_path)) as pack:
                manager.restore(pack)
        except InvalidInput as problem:
            raise ValueError(f"Invalid working set schema: {problem}") from None
        return manager

    def restore(self, pack: Path, run_id: str | None = None, ledger: Path | None = None) -> dict[str, Any]:
        """Bring a run back from a checked pack to this path, with its ledger's copy beside it.

        One of that id that is here goes back to what the pack holds: as an update, so its history stays.
        """
        location = _locations.of_working_set(self.ws_path)
        with _locations.using(location) as ctx, refusals(self.ws_path):
            state = _legacy.packed_state(pack) | ({"run_id": run_id} if run_id else {})
            run = _found(ctx, state["run_id"])
            if run is None:
                run = ctx.runs.restore(pack, run_id=run_id)
            else:
                self._overwrite(run, {name: state[name] for name in IDENTITY}, {name: state[name] for name in MUTABLE})
            export_ledger(run, ledger or self.ws_path.with_name("run.jsonl"))
            if ledger is not None:  # a run folder, in which episodes have their place too
                export_episodes(run, episodes_beside(self.ws_path))
            return self._shown(ctx, location, run)

    # ---- the run behind the path ------------------------------------------------------------------------------------

    @contextmanager
    def _run(self) -> Iterator[Run]:
        location = _locations.of_working_set(self.ws_path)
        if not location.made and not self.ws_path.exists():
            raise FileNotFoundError(f"there is no working set at {self.ws_path}")
        with _locations.using(location) as ctx:
            yield location.run(ctx) or self._adopt(ctx, location)

    def _adopt(self, ctx: Context, location: _locations.Location) -> Run:
        """Take in what was there before its store: a file, and below a root the whole run folder."""
        if location.rooted:
            told = import_run(self.ws_path.absolute().parents[1], ctx, config=self.config)
            if told.outcome == "refused":
                raise ValidationError(told.notes[-1])
            location.choose(ctx, run := ctx.runs.get(told.run_id))
            return run
        try:
            state = _legacy.working_set(self.ws_path.read_bytes())
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no working set at {self.ws_path}") from None
        try:
            with _legacy.packed(state, config=run_config(self.config)) as pack:
                return ctx.runs.restore(pack)
        except Conflict:
            found = location.run(ctx)
            assert found is not None
            return found

    def _replace(self, run: Run, ws: dict[str, Any]) -> None:
        now = run.working_set.to_dict()
        if any(now[name] != ws[name] for name in IMMUTABLE if name != "_update_seq"):
            raise taken(self.ws_path)
        if ws["_update_seq"] not in (run.seq, run.seq + 1):
            raise WSLockError(lock_error(ws["_update_seq"], run.seq))
        with refusals(self.ws_path):
            try:
                run.update(expected_seq=run.seq, **{name: ws[name] for name in MUTABLE})
            except Conflict as lost:
                raise WSLockError(lock_error(lost.expected, lost.actual)) from None

    def _overwrite(self, run: Run, identity: dict[str, Any], state: dict[str, Any]) -> None:
        """Make this the next state of a run, whatever it was. The last one to say so wins; its history has them all."""
        now = run.working_set.to_dict()
        if any(now[name] != told for name, told in identity.items()):
            raise taken(self.ws_path)
        if any(now[name] != told for name, told in state.items()):
            run.update_with(lambda _: cast("UpdateFields", state))

    def _shown(self, ctx: Context, location: _locations.Location, run: Run) -> dict[str, Any]:
        location.choose(ctx, run)
        export_working_set(run, self.ws_path)
        return run.working_set.to_dict()


def _found(ctx: Context, run_id: str) -> Run | None:
    try:
        return ctx.runs.get(run_id)
    except NotFound:
        return None
