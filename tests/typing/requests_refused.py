"""Typical mistakes in requests of memories. Under `--strict` an ignored error that does not occur is one itself."""

from __future__ import annotations

from strongroom import Context, MemoryRequest

RIGHT: MemoryRequest = {
    "op": "add",
    "type": "fact",
    "scope": "global",
    "content": "c",
    "rationale": "r",
    "confidence": 1,
    "source_refs": [],
}
MISSPELT: MemoryRequest = {**RIGHT, "op": "addd"}  # type: ignore[typeddict-item]
NOWHERE: MemoryRequest = {**RIGHT, "scope": "world"}  # type: ignore[typeddict-item]
UNSURE: MemoryRequest = {**RIGHT, "confidence": "high"}  # type: ignore[typeddict-item]
UNKNOWN: MemoryRequest = {**RIGHT, "importance": 3}  # type: ignore[typeddict-unknown-key]


def remembering(ctx: Context) -> None:
    batch = ctx.memories.propose({**RIGHT, "user_id": "u1", "scope": "user"}, proposer="agent-7", commit_id="turn-7")
    ctx.memories.commit(batch, reviewer="ana")
    ctx.memories.reject(batch.id, reason="hearsay")
    page = ctx.memories.pending(limit=1)
    ctx.memories.pending(after=page.next)
    ctx.memories.propose({**RIGHT, "op": "addd"}, proposer="agent-7")  # type: ignore[arg-type]
    ctx.memories.propose([{"op": "add"}], proposer="agent-7")  # type: ignore[list-item]
    ctx.memories.propose("remember this", proposer="agent-7")  # type: ignore[arg-type]
    ctx.memories.commit(batch.proposals, reviewer="ana")  # type: ignore[arg-type]
    ctx.memories.revoke(source_ref="feed", commit_id=7)  # type: ignore[arg-type]
