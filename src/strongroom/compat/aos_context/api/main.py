"""The ASGI app, by the names its users know. Where the runs are kept is in `root`."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Query
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from strongroom.compat.aos_context import _legacy, _locations, environment
from strongroom.compat.aos_context._episodes import export_episodes, write_episode
from strongroom.compat.aos_context._patches import patched, run_config
from strongroom.compat.aos_context.api import server
from strongroom.compat.aos_context.api.models import (
    HANDLERS,
    BootRequest,
    BootResponse,
    MemoryCommitRequest,
    MemoryCommitResponse,
    MemoryProposeRequest,
    MemoryProposeResponse,
    MemorySearchResponse,
    MilestoneRequest,
    MilestoneResponse,
    PatchRequest,
    PatchResponse,
    ResumeLoadRequest,
    ResumeLoadResponse,
    ResumeSnapshotRequest,
    ResumeSnapshotResponse,
    global_exception_handler,
)
from strongroom.compat.aos_context.api.root import Root, Tokens
from strongroom.compat.aos_context.config import DEFAULT_CONFIG
from strongroom.compat.aos_context.context_brief import render_context_brief
from strongroom.compat.aos_context.ledger import FileLedger
from strongroom.compat.aos_context.memory_qdrant import memory_of_server
from strongroom.compat.aos_context.resume_pack import new_run, snapshot_resume_pack
from strongroom.compat.aos_context.ws_manager import WorkingSetManager

__all__ = ["MEMORY", "MILESTONE_TOKENS", "RUNS_ROOT", "TOKEN_TTL_SECONDS", "app", "global_exception_handler"]

RUNS_ROOT = environment.runs_root() or Path("./runs")
TOKEN_TTL_SECONDS = 300
MAX_QUERY = 2_000


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """A server does not start with a Qdrant that it cannot use."""
    await run_in_threadpool(MEMORY.start)
    yield


app = FastAPI(title="AoS Context API over Strongroom", version="2.1.0", exception_handlers=HANDLERS, lifespan=lifespan)


ROOT = Root(lambda: RUNS_ROOT)
MEMORY = memory_of_server(lambda: _locations.using(ROOT.location))
MILESTONE_TOKENS = Tokens(ROOT.store)


app.include_router(server.routes(ROOT))

# ---- where things are -----------------------------------------------------------------------------------------------


def _run_dir(run_id: str) -> Path:
    return ROOT.folder(run_id)


def _wsm(run_id: str) -> WorkingSetManager:
    return WorkingSetManager(ROOT.working_set(run_id))


def _ledger(run_id: str) -> FileLedger:
    return FileLedger(ROOT.ledger(run_id))


# ---- milestone tokens -----------------------------------------------------------------------------------------------


def _generate_milestone_token(run_id: str) -> str:
    token = f"milestone_{os.urandom(8).hex()}"
    MILESTONE_TOKENS[run_id] = (token, time.time() + TOKEN_TTL_SECONDS)
    return token


def _validate_milestone_token(run_id: str, token: str | None) -> bool:
    known, ends = MILESTONE_TOKENS.get(run_id, ("", 0.0))
    if known and time.time() >= ends:
        _clear_milestone_token(run_id)
        return False
    return bool(token) and token == known


def _clear_milestone_token(run_id: str) -> None:
    MILESTONE_TOKENS.pop(run_id, None)


# ---- endpoints ------------------------------------------------------------------------------------------------------


@app.get("/", include_in_schema=False)
async def root() -> RedirectResponse:
    return RedirectResponse("/docs")


@app.get("/health")
def health() -> dict[str, str]:
    return {"status": "ok", "version": "2.1.0", "service": server.SERVICE}


@app.post("/runs/boot")
def boot(req: BootRequest) -> BootResponse:
    with _locations.using(ROOT.location) as ctx:
        run = ctx.runs.create(**req.model_dump(), config=run_config(DEFAULT_CONFIG))
        ROOT.copy(run)
        return BootResponse(run_id=run.id, ws=run.working_set.to_dict())


@app.get("/runs/{run_id}/ws")
def get_ws(run_id: str) -> dict[str, Any]:
    with ROOT.run(run_id) as run:
        return run.working_set.to_dict()


@app.post("/runs/{run_id}/step/update")
def step_update(run_id: str, req: PatchRequest) -> PatchResponse:
    with ROOT.run(run_id) as run:
        # Asked before anything changes: what a run is about stays, and a search that fails must not hide an update.
        known = MEMORY.search(run.working_set.objective[:MAX_QUERY], top_k=8)
        result = patched(run, req.patch, ROOT.working_set(run_id))
    if result.new_ws is None:
        error = result.error or ""
        raise HTTPException(409 if error.startswith("LOCK_ERROR") else 400, error)
    return PatchResponse(ws=result.new_ws, context_brief=render_context_brief(result.new_ws, ltm_results=known))


@app.post("/runs/{run_id}/milestone")
def milestone(run_id: str, req: MilestoneRequest) -> MilestoneResponse:
    """Make an episode. A batch given here is committed with it; without one, a token lets one be committed soon."""
    with ROOT.run(run_id) as run:
        # Who commits a batch is not said in this API: it is whoever calls it, as it always was.
        episode = run.milestone(
            req.reason,
            memory_batch_id=req.memory_batch_id,
            next_entry_point=req.next_entry_point,
            reviewer="agent" if req.memory_batch_id is not None else None,
        )
    path = write_episode(_run_dir(run_id) / "episodes", episode.to_dict())
    committed: list[str] = []
    if req.memory_batch_id is not None:
        _clear_milestone_token(run_id)
        # It is committed: asked again, the answer is the first one, which names what was known already too.
        committed = MEMORY.commit(req.memory_batch_id, run_id=run_id).committed_ids or list(episode.memory_commits)
    return MilestoneResponse(
        episode_id=episode.episode_id,
        episode_path=str(path),
        committed_memory_ids=committed,
        milestone_token=_generate_milestone_token(run_id) if req.memory_batch_id is None else None,
    )


@app.post("/runs/{run_id}/memory/propose")
def memory_propose(run_id: str, req: MemoryProposeRequest) -> MemoryProposeResponse:
    with ROOT.run(run_id):
        result = MEMORY.propose(req.mcrs, scope_filters=req.scope_filters, run_id=run_id)
        if result.batch_id is None:
            return MemoryProposeResponse(ok=False, staged_count=0, error=result.error)
    return MemoryProposeResponse(ok=True, batch_id=result.batch_id, staged_count=len(req.mcrs))


@app.post("/runs/{run_id}/memory/commit")
def memory_commit(run_id: str, req: MemoryCommitRequest) -> MemoryCommitResponse:
    """Commit a batch of this run, once: within the time of a milestone's token, or freely if `POST /runs` made it."""
    with ROOT.run(run_id) as run:
        outside = server.commits_freely(run) or (req.allow_outside_milestone and environment.test_mode())
        if not outside and not _validate_milestone_token(run_id, req.milestone_token):
            why = "needs a valid milestone_token of this run, which POST /runs/{run_id}/milestone gives"
            if req.allow_outside_milestone:
                why += "; allow_outside_milestone counts only under AOS_TEST_MODE"
            return MemoryCommitResponse(ok=False, error=why)
        result = MEMORY.commit(req.batch_id, run_id=run_id)
        if result.committed_ids is None:
            return MemoryCommitResponse(ok=False, error=result.error)
        _clear_milestone_token(run_id)
    return MemoryCommitResponse(ok=True, committed_ids=result.committed_ids)


@app.get("/runs/{run_id}/memory/search")
def memory_search(
    run_id: str, q: str = "", top_k: int = Query(8, ge=1), scope: str | None = None, status: str = "active"
) -> MemorySearchResponse:
    with ROOT.run(run_id):
        items = MEMORY.search(q, filters={"scope": scope, "status": status}, top_k=top_k)
    return MemorySearchResponse(ok=True, items=items, count=len(items))


@app.post("/runs/{run_id}/resume/snapshot")
def resume_snapshot(run_id: str, req: ResumeSnapshotRequest) -> ResumeSnapshotResponse:
    folder = _run_dir(run_id)
    with ROOT.run(run_id):
        made = snapshot_resume_pack(
            run_dir=folder, output_dir=folder / "resume", pointers=req.pointers, zip_pack=req.zip_pack
        )
    paths = {name: str(path) for name in ("pack_dir", "pack_zip", "manifest_path") if (path := getattr(made, name))}
    return ResumeSnapshotResponse(ok=made.ok, pack_id=made.pack_id, error=made.error, **paths)


@app.post("/runs/resume/load")
def resume_load(req: ResumeLoadRequest) -> ResumeLoadResponse:
    """Bring a run back from a pack under the root, as a new run. One that is there stays as it is."""
    path = Path(req.pack_path).resolve()
    if not path.is_relative_to(RUNS_ROOT.resolve()):
        raise HTTPException(400, "pack_path must be a pack under the runs root; nothing changed")
    try:
        with _legacy.restorable(path) as pack, _locations.using(ROOT.location) as ctx:
            run_id = new_run() if req.new_run_id is None else req.new_run_id
            if not _locations.SAFE_ID.fullmatch(run_id):
                raise HTTPException(400, "a run id is letters, digits, '.', '_' and '-'; nothing changed")
            if _run_dir(run_id).exists():
                raise HTTPException(409, f"there is a run {run_id!r} already; nothing changed")
            run = ctx.runs.restore(pack, run_id=run_id)
            ROOT.copy(run)
            export_episodes(run, _run_dir(run.id) / "episodes")
    except FileNotFoundError:
        raise HTTPException(404, "there is no such pack; nothing changed") from None
    return ResumeLoadResponse(ok=True, run_id=run.id, ws=run.working_set.to_dict())
