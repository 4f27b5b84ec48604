"""What the tests of the AoS names share: small valid documents, and the events and ids they need."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from strongroom.compat.aos_context.config import DEFAULT_CONFIG, ContextConfig
from strongroom.compat.aos_context.ws_manager import WorkingSetManager

USUAL = Path("state/working_set.v2.1.json")


def started(folder: Path, *, config: ContextConfig = DEFAULT_CONFIG, **fields: Any) -> WorkingSetManager:
    manager = WorkingSetManager(folder / USUAL, config)
    manager.create_initial(**{**INITIAL, **fields})
    return manager


def patch(expected_seq: int, **fields: Any) -> dict[str, Any]:
    return {"_schema_version": "2.1", "expected_seq": expected_seq, "set": fields}


def sliding(id: str, content: str = "words", *, priority: int = 1, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"id": id, "content": content, "timestamp": at, "priority": priority}


def mcr(content: str = "The sky is blue", **fields: Any) -> dict[str, Any]:
    made = {
        "_schema_version": "2.1",
        "op": "add",
        "type": "fact",
        "scope": "global",
        "content": content,
        "rationale": "seen",
        "confidence": 0.9,
        "source_refs": [],
    }
    return {**made, **fields}


def event(event_id: str = "e1", **fields: Any) -> dict[str, Any]:
    made = {
        "_schema_version": "2.1",
        "event_id": event_id,
        "parent_event_id": None,
        "sequence_id": None,
        "event_type": "TOOL_CALL",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "writer_id": "agent",
        "task_id": "task_1",
        "thread_id": "thread_1",
        "run_id": "run_1",
        "payload": {"tool_name": "fetch"},
    }
    return {**made, **fields}


def item(memory_id: str = "mem_one", **fields: Any) -> dict[str, Any]:
    made = {
        "_schema_version": "2.1",
        "memory_id": memory_id,
        "type": "fact",
        "scope": "global",
        "content": "The sky is blue",
        "confidence": 0.9,
        "status": "active",
        "source_refs": [],
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    return {**made, **fields}


INITIAL: dict[str, Any] = {
    "task_id": "task_1",
    "thread_id": "thread_1",
    "run_id": "run_1",
    "objective": "Build a scraper",
    "acceptance_criteria": ["Saves to JSON"],
    "constraints": ["No rate limiting violations"],
}


def working_set(**fields: Any) -> dict[str, Any]:
    made = {
        "_schema_version": "2.1",
        "_update_seq": 0,
        **INITIAL,
        "status": "BOOT",
        "current_stage": "BOOT",
        "blockers": [],
        "next_action": "",
        "last_action_summary": "",
        "artifact_refs": [],
        "pinned_context": [],
        "sliding_context": [],
    }
    return {**made, **fields}


def old_folder(folder: Path, *, seq: int = 41, lines: tuple[str, ...] = (), run_id: str = "run_1") -> Path:
    """Make a run folder as the old system left it."""
    (folder / "state").mkdir(parents=True)
    (folder / USUAL).write_text(json.dumps(working_set(_update_seq=seq, run_id=run_id)))
    if lines:
        (folder / "ledger").mkdir()
        (folder / "ledger" / "run.v2.1.jsonl").write_text("".join(lines))
    return folder


def old_pack_folder(folder: Path) -> Path:
    """Make the folder of a pack as the old system laid it out, with an episode and the manifest under its old name."""
    state = working_set(_update_seq=7)
    files: dict[str, object] = {
        "state/working_set.v2.1.json": state,
        "ledger/run.v2.1.jsonl": event("old", sequence_id=1),
        "episodes/ep_0a.v2.1.json": episode("ep_0a", state),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content) + "\n")
    manifest = {
        "_schema_version": "2.1",
        "pack_id": "pack_ab",
        "created_at": "2026-01-01T00:00:00Z",
        "compatible_engine_versions": ["aos-context/2.1.0"],
        "files": {name: sha256((folder / name).read_bytes()).hexdigest() for name in files},
        "pointers": {},
    }
    (folder / "manifest.v2.1.json").write_text(json.dumps(manifest))
    return folder


def episode(episode_id: str, state: dict[str, object]) -> dict[str, object]:
    return {
        "_schema_version": "2.1",
        "episode_id": episode_id,
        "created_at": "2026-01-01T00:00:00Z",
        "summary": "as it was",
        "ws_before": state,
        "ws_after": state,
        "memory_commits": [],
        "next_entry_point": "",
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
