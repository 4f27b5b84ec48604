"""Requests that every endpoint understands."""

from __future__ import annotations

import re
from typing import Any

import httpx

from strongroom.codec import encode
from strongroom.operations import Operation
from strongroom.protocol import wire
from strongroom.server.router import Endpoint
from strongroom.services.memories.values import MemoryRequest
from strongroom.store import Commit, Find, Get, Key, Put, new_id

MCR: MemoryRequest = {
    "_schema_version": "2.1",
    "op": "add",
    "type": "fact",
    "scope": "global",
    "content": "AI was first proposed in 1956",
    "confidence": 0.9,
    "rationale": "Historical fact",
    "source_refs": [],
}

BODIES: dict[str, Any] = {
    "POST /runs": {"objective": "Look around"},
    "POST /runs/boot": {"objective": "Look around"},
    "PATCH /runs/{run_id}": {"patch": {"status": "BUSY"}, "expected_seq": 0},
    "POST /runs/{run_id}/events": {"type": "TOOL_CALL", "payload": {"tool_name": "t", "arguments": {}}},
    "POST /runs/{run_id}/rollback": {"seq": 0, "expected_seq": 0},
    "POST /runs/{run_id}/erase": {"reason": "asked to"},
    "POST /runs/{run_id}/step/update": {"patch": {"_schema_version": "2.1", "expected_seq": 0, "set": {}}},
    "POST /runs/resume/load": {"pack_path": "a.zip"},
    "POST /runs/{run_id}/memory/propose": {"mcrs": [MCR]},
    "POST /runs/{run_id}/memory/commit": {"batch_id": "batch_1"},
    "POST /memories": {"content": "likes tea"},
    "PATCH /memories/{memory_id}": {"content": "likes milk"},
    "POST /memories/erase": {"user_id": "nobody"},
    "POST /people/erase": {"user_id": "nobody"},
    "POST /memories/propose": {"requests": [MCR], "proposer": "agent-7"},
    "POST /memories/batches/{batch_id}/reject": {"reason": "no"},
    "POST /memories/revoke": {"source_ref": "nowhere"},
    "POST /sessions": {"title": "A talk"},
    "POST /sessions/{session_id}/messages": {"messages": [{"role": "user", "content": "Hello"}]},
    "PUT /sessions/{session_id}/messages": {"messages": [{"role": "user", "content": "Hello"}]},
    "POST /sessions/{session_id}/truncate": {"message_id": "m1"},
    "POST /sessions/{session_id}/erase": {"message_ids": ["m1"]},
    "POST /keys": {"role": "reader", "label": "somebody"},
    "POST /threads/{thread_id}/slots": {"payload": {"text": "hi"}, "from_id": "a", "to_id": "b"},
    "POST /threads/{thread_id}/erase": {"start": 0},
    "POST /prompt": {"max_tokens": 1000},
    "PUT /files": {"path": "/notes/a.md", "text": "hi"},
    "POST /files/restore": {"path": "/notes/nothing.md", "version": 1},
    "POST /files/rename": {"path": "/notes/nothing.md", "to": "/notes/b.md"},
    "POST /files/delete": {"path": "/notes/nothing.md"},
    "POST /files/erase": {"path": "/notes/nothing.md"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "GET /runs/{run_id}/at": {"seq": 0},
    "GET /runs/{run_id}/diff": {"from_seq": 0, "to_seq": 0},
    "GET /memories/search": {"q": "anything"},
    "GET /memories/revoke/preview": {"source_ref": "anything"},
    "GET /memories/sources": {"ref": "anything"},
    "GET /search": {"q": "anything"},
    "GET /figures/runs": {"id": "anything"},
    "GET /figures/sessions": {"id": "anything"},
    "GET /runs/{run_id}/memory/search": {"q": "anything"},
    "GET /sessions/search": {"q": "anything"},
    "GET /sessions/{session_id}/search": {"q": "anything"},
    "GET /sessions/{session_id}/window": {"max_tokens": 1000},
    "GET /files/text": {"path": "/notes/nothing.md"},
    "GET /files/history": {"path": "/notes/nothing.md"},
    "GET /files/search": {"q": "anything"},
}


def packed(endpoint: Endpoint, space: str) -> bytes:
    """The body of an endpoint of the port."""
    key, thread = Key(space, "langgraph_run", "a"), Key(space, "thread", "a")  # which writers may write
    said = encode({"entries": [["str", ["hi"], "a", None]]})
    asked = wire.dump_operation(Operation("threads.append", thread, said, f"~{new_id()}"))
    attached = wire.dump_operation(Operation("run.attach", Key(space, "run", "a"), encode({}), f"~{new_id()}"))
    return {
        "/store/read": wire.dump_questions([Get(thread)]),
        "/store/perform": asked,
        "/store/upload": len(attached).to_bytes(wire.HEAD_BYTES, "big") + attached + b"content",
        "/store/commit": wire.dump_commit(Commit(new_id(), (), (Put(key, encode({"a": 1})),))),
        "/store/search": wire.dump(Find(space, "message", ("anything",))),
        "/store/wait": wire.dump(wire.Waiting(thread, 0, 0.0)),
        "/runs/restore": b"not a pack",
    }[endpoint.path]


def request(
    http: httpx.Client,
    endpoint: Endpoint,
    *,
    ids: dict[str, str] | None = None,
    query: dict[str, Any] | None = None,
    space: str = "default",
) -> tuple[int, bytes]:
    """Call an endpoint and return its status and what it says at first; streams are left after that."""
    name = f"{endpoint.method} {endpoint.path}"
    path = re.sub(r"{(\w+)}", lambda match: (ids or {}).get(match.group(1), "nothing-here"), endpoint.path)
    params = {**QUERIES.get(name, {}), **(query or {})} if name in QUERIES else {}
    content: Any = {}
    if endpoint.accepts != "application/json":
        content = {"content": packed(endpoint, space), "headers": {"Content-Type": endpoint.accepts}}
    elif endpoint.body is not None:
        content = {"json": BODIES.get(name, {})}
    with http.stream(endpoint.method, path, params=params, **content) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, next(answer.iter_bytes(), b"")
        return answer.status_code, answer.read()
