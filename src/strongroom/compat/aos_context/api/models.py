"""What the endpoints take and give."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


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
