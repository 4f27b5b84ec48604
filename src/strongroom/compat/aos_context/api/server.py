"""The endpoints of the documented server, `server.py`, beside those of the package: the same runs, other paths.

| path | beside |
|---|---|
| `POST /runs` | `POST /runs/boot` |
| `GET /runs/{run_id}` | `GET /runs/{run_id}/ws` |
| `PATCH /runs/{run_id}` | `POST /runs/{run_id}/step/update` |
| `POST /runs/{run_id}/snapshot` | `POST /runs/{run_id}/resume/snapshot` |

The two servers commit memories by the same path, one freely and one within a milestone. Here it is as in the one that
made the run.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException

from strongroom.blocking.runs import Run
from strongroom.compat.aos_context import _locations
from strongroom.compat.aos_context._patches import patched, run_config
from strongroom.compat.aos_context.api.models import (
    CONFLICT,
    SnapshotResponse,
    StartRequest,
    StartResponse,
    UpdateRequest,
    UpdateResponse,
)
from strongroom.compat.aos_context.api.root import Root
from strongroom.compat.aos_context.config import DEFAULT_CONFIG
from strongroom.compat.aos_context.environment import snapshots_in
from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from strongroom.compat.importing_aos import SERVICE

__all__ = ["SERVICE", "commits_freely", "routes"]


def commits_freely(run: Run) -> bool:
    """Tell whether a run was started by `POST /runs`, here or by `server.py`: its memories need no milestone."""
    first = run.events(limit=1)
    return bool(first) and first[0].actor == SERVICE


def routes(root: Root) -> APIRouter:
    """Return the endpoints over the runs of a root."""
    router = APIRouter()

    @router.post("/runs")
    def start(req: StartRequest) -> StartResponse:
        if req.run_id is not None and not _locations.SAFE_ID.fullmatch(req.run_id):
            raise HTTPException(400, "a run id is letters, digits, '.', '_' and '-'; nothing changed")
        with _locations.using(root.location) as ctx:
            run = ctx.runs.create(**req.model_dump(), config=run_config(DEFAULT_CONFIG), actor=SERVICE)
            root.copy(run)
            return StartResponse(run_id=run.id, status=run.working_set.status)

    @router.get("/runs/{run_id}")
    def get_run(run_id: str) -> dict[str, Any]:
        with root.run(run_id) as run:
            return run.working_set.to_dict()

    @router.patch("/runs/{run_id}")
    def update(run_id: str, req: UpdateRequest) -> UpdateResponse:
        patch = {"_schema_version": "2.1", "expected_seq": req.expected_seq, "set": req.patch}
        with root.run(run_id) as run:
            result = patched(run, patch, root.working_set(run_id))
        if (result.error or "").startswith("LOCK_ERROR"):
            raise HTTPException(409, CONFLICT)
        return UpdateResponse(ok=result.ok, ws=result.new_ws, error=result.error)

    @router.post("/runs/{run_id}/snapshot")
    def snapshot(run_id: str) -> SnapshotResponse:
        with root.run(run_id):
            manager = WorkingSetManager(root.working_set(run_id))
            made = manager.create_resume_pack(snapshots_in(root.path))
            # As documented here, and not with the prefix that ids of tasks begin with already.
            told = made.replace(made.with_name(made.name.replace("task_task_", "task_", 1)))
            return SnapshotResponse(ok=True, pack_path=str(told))

    return router
