"""A patch applied to a run, and what became of it, in the words of this API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strongroom.blocking.runs import Run
from strongroom.bridge import run as drive
from strongroom.compat.aos_context._exports import export_working_set
from strongroom.compat.aos_context.config import ContextConfig
from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.compat.aos_context.validation import validate_instance
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, StrongroomError
from strongroom.services.runs import brief, updates
from strongroom.services.runs.working_set import IMMUTABLE
from strongroom.values import RunConfig


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


def patched(run: Run, patch: dict[str, Any], ws_path: Path) -> ApplyPatchResult:
    """Apply a patch to a run and bring its file up to date."""
    error = _problem(patch)
    if error is not None:
        drive(updates.reject(run._async._ref, error, updates.By("agent", None)))
        return ApplyPatchResult(False, None, error)
    # A patch that sets nothing counts here too. An honest caller has seen no newer run than this one.
    fields = patch["set"] or {"status": run.working_set.status}
    try:
        changed = run.update(expected_seq=patch["expected_seq"], **fields)
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
