"""What the endpoints take and give.

Errors are told as clients know them (`detail`) and as they were promised them (`ok`, `error`): one body has both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from strongroom.errors import Conflict, NotFound, StoreError, StrongroomError


class BootRequest(BaseModel):
    task_id: str | None = None
    thread_id: str | None = None
    objective: str
    acceptance_criteria: list[str] = Field(default_factory=list)
    constraints: list[str] = Field(default_factory=list)


class BootResponse(BaseModel):
    run_id: str
    ws: dict[str, Any]


class PatchRequest(BaseModel):
    patch: dict[str, Any]


class PatchResponse(BaseModel):
    ws: dict[str, Any]
    context_brief: str


class MilestoneRequest(BaseModel):
    reason: str = "manual"
    memory_batch_id: str | None = None
    next_entry_point: str = ""


class MilestoneResponse(BaseModel):
    episode_id: str
    episode_path: str
    committed_memory_ids: list[str]
    milestone_token: str | None = None


class MemoryProposeRequest(BaseModel):
    mcrs: list[dict[str, Any]] = Field(..., min_length=1)
    scope_filters: dict[str, Any] = Field(default_factory=dict)


class MemoryProposeResponse(BaseModel):
    ok: bool
    batch_id: str | None = None
    staged_count: int
    error: str | None = None


class MemoryCommitRequest(BaseModel):
    batch_id: str
    milestone_token: str | None = None
    allow_outside_milestone: bool = False


class MemoryCommitResponse(BaseModel):
    ok: bool
    committed_ids: list[str] = Field(default_factory=list)
    error: str | None = None


class MemorySearchResponse(BaseModel):
    ok: bool
    items: list[dict[str, Any]] = Field(default_factory=list)
    count: int
    error: str | None = None


class ResumeSnapshotRequest(BaseModel):
    zip_pack: bool = True
    pointers: dict[str, Any] = Field(default_factory=dict)


class ResumeSnapshotResponse(BaseModel):
    ok: bool
    pack_id: str | None = None
    pack_dir: str | None = None
    pack_zip: str | None = None
    manifest_path: str | None = None
    error: str | None = None


class ResumeLoadRequest(BaseModel):
    pack_path: str
    new_run_id: str | None = None


class ResumeLoadResponse(BaseModel):
    ok: bool
    run_id: str | None = None
    ws: dict[str, Any] | None = None
    error: str | None = None


# ---- the endpoints of the documented server -------------------------------------------------------------------------


class StartRequest(BaseModel):
    objective: str
    task_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    acceptance_criteria: list[str] = Field(default_factory=list)
    constraints: list[str] = Field(default_factory=list)


class StartResponse(BaseModel):
    run_id: str
    status: str


class UpdateRequest(BaseModel):
    patch: dict[str, Any]
    expected_seq: int


class UpdateResponse(BaseModel):
    ok: bool
    ws: dict[str, Any] | None = None
    error: str | None = None


class SnapshotResponse(BaseModel):
    ok: bool
    pack_path: str | None = None
    error: str | None = None


# ---- errors ---------------------------------------------------------------------------------------------------------

CONFLICT = "Conflict: State has changed. Reload and retry."


def refused(status: int, detail: Any, error: str) -> JSONResponse:
    return JSONResponse({"ok": False, "error": error, "detail": detail}, status)


async def http_exception_handler(request: Request, problem: HTTPException) -> JSONResponse:
    detail = str(problem.detail)
    return refused(problem.status_code, problem.detail, CONFLICT if detail.startswith("LOCK_ERROR") else detail)


async def validation_exception_handler(request: Request, problem: RequestValidationError) -> JSONResponse:
    told = [{"loc": list(each["loc"]), "msg": each["msg"], "type": each["type"]} for each in problem.errors()]
    return refused(422, told, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in told))


async def strongroom_exception_handler(request: Request, problem: StrongroomError) -> JSONResponse:
    status = 404 if isinstance(problem, NotFound) else 409 if isinstance(problem, Conflict) else 400
    return refused(503 if isinstance(problem, StoreError) else status, str(problem), str(problem))


async def global_exception_handler(request: Request, exc: Exception) -> JSONResponse:
    """Say that something went wrong, and nothing of what: a traceback is for the log."""
    return refused(500, "internal error", "internal error")


HANDLERS: dict[int | type[Exception], Callable[..., Any]] = {
    HTTPException: http_exception_handler,
    RequestValidationError: validation_exception_handler,
    StrongroomError: strongroom_exception_handler,
    Exception: global_exception_handler,
}
