"""The examples in the description of the HTTP API: recorded from a server that really answered.

The story goes from top to bottom, so whoever tries the requests of the page in this order gets these answers.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx

from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.server.app import create_app
from strongroom.server.settings import Settings
from strongroom.services.threads.deliveries import bury
from strongroom.store import AsyncStore, Commit, Record, new_id

EXAMPLES = Path(__file__).parents[1] / "src" / "strongroom" / "server" / "examples.json"

FACT = {
    "_schema_version": "2.1",
    "op": "add",
    "type": "fact",
    "scope": "global",
    "memory_id": "rate-limit",
    "content": "example.com allows one request a second",
    "confidence": 0.9,
    "rationale": "its robots.txt says so",
    "source_refs": ["https://example.com/robots.txt"],
}
GUESS = {**FACT, "memory_id": "guess", "content": "example.com never sleeps", "confidence": 0.3, "rationale": "a guess"}
TOLD = {**FACT, "memory_id": "format", "content": "prices are in euros", "rationale": "it says so", "source_refs": []}
HELLO = [{"id": "m1", "role": "user", "content": "My scraper gets HTTP 429."}]
REPLY = [{"id": "m2", "role": "assistant", "content": "Slow down: one request a second."}]
STEP = {"_schema_version": "2.1", "expected_seq": 0, "set": {"next_action": "look around"}}

# What is asked, and with which query or body. A value that begins with $ is what an earlier answer called that.
STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GET /health", {}),
    ("GET /ready", {}),
    ("GET /durability", {}),
    ("GET /me", {}),
    ("POST /runs", {"body": {"objective": "Build a scraper", "constraints": ["be polite"], "run_id": "scraper"}}),
    ("GET /runs", {"query": {"status": "BOOT", "limit": 10}}),
    ("GET /runs/{run_id}", {}),
    ("PATCH /runs/{run_id}", {"body": {"patch": {"status": "BUSY", "next_action": "fetch page 1"}, "expected_seq": 0}}),
    ("POST /runs/{run_id}/events", {"body": {"type": "TOOL_CALL", "payload": {
        "tool_name": "fetch", "arguments": {"url": "https://example.com/1"}}}}),
    ("GET /runs/{run_id}/events", {"query": {"after": 1, "limit": 2}}),
    ("GET /runs/{run_id}/head", {}),
    ("GET /runs/{run_id}/usage", {}),
    ("GET /runs/{run_id}/artifacts", {}),
    ("GET /runs/{run_id}/verify", {}),
    ("GET /runs/{run_id}/at", {"query": {"seq": 0}}),
    ("GET /runs/{run_id}/diff", {"query": {"from_seq": 0, "to_seq": 1}}),
    ("GET /runs/{run_id}/brief", {"query": {"max_tokens": 500}}),
    ("POST /memories/propose", {"body": {
        "requests": [FACT], "proposer": "agent-7", "run_id": "scraper", "batch_id": "batch-1"}}),
    ("GET /memories/pending", {"query": {"limit": 10}}),
    ("GET /memories/batches/{batch_id}", {}),
    ("POST /memories/batches/{batch_id}/commit", {"body": {"reviewer": "ana"}}),
    ("GET /memories/search", {"query": {"q": "requests a second", "k": 1}}),
    ("GET /memories/{memory_id}", {}),
    ("GET /memories/{memory_id}/history", {}),
    ("GET /memories", {"query": {"status": "active", "limit": 10}}),
    ("GET /memories/revoke/preview", {"query": {"source_ref": "https://example.com/robots.txt"}}),
    ("POST /memories/propose", {"body": {"requests": [GUESS], "proposer": "agent-7", "batch_id": "batch-2"}}),
    ("POST /memories/batches/{batch_id}/reject", {
        "path": {"batch_id": "batch-2"}, "body": {"reason": "only a guess", "reviewer": "ana"}}),
    ("POST /memories/revoke", {"body": {
        "source_ref": "https://example.com/robots.txt", "reason": "it has changed", "by": "ana"}}),
    ("POST /memories/sweep", {"body": {}}),
    ("POST /memories", {"body": {"content": "likes tea", "user_id": "u1", "memory_id": "tea", "tags": ["drink"]}}),
    ("PATCH /memories/{memory_id}", {"path": {"memory_id": "tea"}, "body": {"content": "likes green tea"}}),
    ("POST /memories", {"body": {"content": "likes milk", "user_id": "u1", "memory_id": "milk"}}),
    ("POST /memories/{memory_id}/delete", {"path": {"memory_id": "milk"}, "body": {"reason": "she said so"}}),
    ("POST /memories/erase", {"body": {"user_id": "u1", "reason": "asked to"}}),
    ("POST /people/erase", {"body": {"user_id": "u1", "reason": "asked to"}}),
    ("POST /runs/{run_id}/milestone", {"body": {"reason": "first page", "next_entry_point": "fetch page 2"}}),
    ("GET /runs/{run_id}/episodes", {"query": {"limit": 1}}),
    ("POST /runs/{run_id}/fork", {"body": {"seq": 1, "run_id": "scraper-2"}}),
    ("POST /runs/{run_id}/rollback", {"body": {"seq": 0, "expected_seq": 1}}),
    ("POST /runs/{run_id}/snapshot", {}),
    ("POST /runs/{run_id}/erase", {"path": {"run_id": "scraper-2"}, "body": {"reason": "asked to"}}),
    ("POST /runs/boot", {"body": {"objective": "Look around"}}),
    ("GET /runs/{run_id}/ws", {"path": {"run_id": "$run_id"}}),
    ("POST /runs/{run_id}/step/update", {"path": {"run_id": "$run_id"}, "body": {"patch": STEP}}),
    ("POST /runs/{run_id}/memory/propose", {"path": {"run_id": "$run_id"}, "body": {"mcrs": [TOLD]}}),
    ("POST /runs/{run_id}/memory/commit", {"path": {"run_id": "$run_id"}, "body": {"batch_id": "$batch_id"}}),
    ("GET /runs/{run_id}/memory/search", {"path": {"run_id": "$run_id"}, "query": {"q": "euros", "top_k": 1}}),
    ("POST /runs/{run_id}/resume/snapshot", {"path": {"run_id": "$run_id"}, "body": {"zip_pack": True}}),
    ("POST /runs/resume/load", {"body": {"pack_path": "$pack_zip", "new_run_id": "scraper-3"}}),
    ("POST /sessions", {"body": {"id": "support-7", "title": "Help with a scraper"}}),
    ("GET /sessions", {"query": {"limit": 10}}),
    ("GET /sessions/{session_id}", {}),
    ("POST /sessions/{session_id}/messages", {"body": {"messages": [*HELLO, *REPLY]}}),
    ("GET /sessions/{session_id}/messages", {"query": {"k": 1}}),
    ("GET /sessions/{session_id}/window", {"query": {"max_tokens": 1000}}),
    ("GET /sessions/{session_id}/search", {"query": {"q": "429", "k": 1}}),
    ("GET /sessions/search", {"query": {"q": "429", "k": 1}}),
    ("GET /memories/sources", {"query": {"ref": ["rate-limit", "support-7#m1"]}}),
    ("GET /search", {"query": {"q": "scraper", "k": 1}}),
    ("GET /figures/runs", {"query": {"id": ["scraper"]}}),
    ("GET /figures/sessions", {"query": {"id": ["support-7"]}}),
    ("GET /activity", {"query": {"limit": 3}}),
    ("POST /prompt", {"body": {"session_id": "support-7", "max_tokens": 1000, "system": "You help with scrapers."}}),
    ("POST /sessions/{session_id}/truncate", {"body": {"message_id": "m1"}}),
    ("POST /sessions/{session_id}/restore", {}),
    ("PUT /sessions/{session_id}/messages", {"body": {"messages": HELLO}}),
    ("POST /sessions/{session_id}/erase", {"body": {"message_ids": ["m1"]}}),
    ("DELETE /sessions/{session_id}", {}),
    ("POST /threads/{thread_id}/slots", {"body": {"payload": {"text": "page 1 is here"}, "from_id": "fetcher",
        "to_id": "parser"}}),
    ("GET /threads/{thread_id}/slots", {"query": {"start": 0, "stop": 10}}),
    ("GET /threads", {"query": {"limit": 10}}),
    ("GET /threads/stats", {}),
    ("GET /threads/queues", {}),
    ("GET /threads/flow", {}),
    ("GET /threads/dead", {"query": {"limit": 10}}),
    ("POST /threads/dead/{letter_id}/retry", {}),
    ("POST /threads/{thread_id}/erase", {"body": {"start": 0, "stop": 1}}),
    ("DELETE /threads/{thread_id}", {}),
    ("PUT /files", {"body": {"path": "/notes/limits.md", "text": "example.com: one request a second\n",
        "expected_version": 0}}),
    ("GET /files", {"query": {"folder": "/notes", "limit": 10}}),
    ("GET /files/text", {"query": {"path": "/notes/limits.md"}}),
    ("GET /files/search", {"query": {"q": "requests a second", "k": 1}}),
    ("POST /files/rename", {"body": {"path": "/notes/limits.md", "to": "/notes/hosts.md"}}),
    ("POST /files/restore", {"body": {"path": "/notes/limits.md", "version": 1}}),
    ("GET /files/history", {"query": {"path": "/notes/limits.md"}}),
    ("POST /files/delete", {"body": {"path": "/notes/limits.md"}}),
    ("POST /files/erase", {"body": {"path": "/notes/hosts.md"}}),
)  # fmt: skip
# What is told at the end, because after the first key nobody comes in without one.
OPERATING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GET /calls", {}),
    ("POST /upkeep/check", {}),
    ("POST /upkeep/backup", {}),
    ("GET /upkeep", {}),
    ("POST /keys", {"body": {"role": "admin", "label": "ana's laptop"}}),
    ("GET /keys", {}),
    ("POST /sign-in", {}),
    ("POST /sign-out", {}),
    ("DELETE /keys/{name}", {"path": {"name": "$name"}}),
)
ORDER = Record(0, "dict", None, 0, 0, "shop", "payer", None, None, None)
ERROR = "the bank did not answer"
SHOWN_KEY = "srk_3f2a91c07d44." + "0" * 64
HERE = "http://localhost"
USUAL = {
    "run_id": "scraper",
    "batch_id": "batch-1",
    "memory_id": "rate-limit",
    "session_id": "support-7",
    "thread_id": "pages",
    "letter_id": bury("default", thread_id="orders", record=ORDER, error=ERROR, attempts=3, now=0).key.id,
}


def record() -> dict[str, Any]:
    """Return, for each endpoint, what was asked first and what was answered."""
    return asyncio.run(_record())


async def _record() -> dict[str, Any]:
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(url=f"{folder}/agent.db", snapshots=f"{folder}/snapshots", backups=f"{folder}/backups")
        app = create_app(settings)
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=HERE) as http:
            await prepare(app.state.store)
            for name, asked in (*STORY, *OPERATING):
                method, path = name.split()
                names = re.findall(r"{(\w+)}", path)
                given = resolved({**USUAL, **asked.get("path", {})}, known)
                body = resolved(asked["body"], known) if "body" in asked else None
                answer = await http.request(method, path.format(**given), params=asked.get("query"), json=body)
                assert answer.status_code == 200, (name, answer.text)
                known |= answer.json() if isinstance(answer.json(), dict) else {}
                if name == "POST /keys":
                    http.headers["Authorization"] = f"Bearer {known['key']}"
                    known |= known["info"]
                await app.state.upkeep.close()  # so that what was begun is done
                if name == "GET /upkeep":  # else the log says why, and a page without them is no example
                    assert known["check"] and known["check"]["ok"] and known["backups"], answer.text
                example = {
                    "path": {each: given[each] for each in names},
                    "query": asked.get("query", {}),
                    "body": body,
                    "answer": answer.json(),
                }
                # Where this machine keeps temporary files is nobody's business.
                told = json.dumps(example).replace(f"{folder}/", "").replace(known.get("key", SHOWN_KEY), SHOWN_KEY)
                found.setdefault(name, json.loads(told))
    return found


async def prepare(store: AsyncStore) -> None:
    """Let a message fail for good, so that there is a dead letter to tell of."""
    scope = Scope(store)
    await AsyncContext(scope).threads.append("orders", {"order": 7}, from_id="shop", to_id="payer")
    letter = bury("default", thread_id="orders", record=ORDER, error=ERROR, attempts=3, now=scope.clock())
    await store.commit(Commit(new_id(), (), (letter,)))


def shape(value: Any) -> Any:
    """Return what an example looks like, whatever its times, ids and hashes are."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


def resolved(value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: resolved(item, known) for name, item in value.items()}
    return known[value[1:]] if isinstance(value, str) and value.startswith("$") else value
