"""Memory in one line: add, update, delete. The same two phases beneath: committed at once, in one commit, where the
policy lets this proposer; else staged for a reviewer. The answer says which. Without a proposer it is the program
itself that speaks; nobody else can be named so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from strongroom.arguments import checked
from strongroom.errors import NotFound
from strongroom.scope import Scope
from strongroom.services.memories.batches import waits_in
from strongroom.services.memories.erasure import GONE
from strongroom.services.memories.values import Batch, Memory, ScopeName, Trust, Type, Written

_KEPT = ("type", "scope", "confidence", "user_id", "project_id", "tags", "metadata", "expires_at", "source_refs")


@checked
class OneLine:
    """What a program does with memories by itself."""

    _scope: Scope

    @abstractmethod
    async def _one(
        self, request: Any, about: str, proposer: str | None, run_id: str | None, commit_id: str | None
    ) -> Batch: ...

    @abstractmethod
    async def get(self, memory_id: str) -> Memory: ...

    async def add(
        self,
        content: str,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        type: Type = "fact",
        scope: ScopeName | None = None,
        confidence: float = 1.0,
        rationale: str = "added directly",
        source_refs: Sequence[str] = (),
        tags: Sequence[str] = (),
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        happened_at: datetime | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        expires_at: datetime | None = None,
        trust: Trust | None = None,
        memory_id: str | None = None,
        proposer: str | None = None,
        run_id: str | None = None,
        commit_id: str | None = None,
    ) -> Written:
        """Remember something. Whose it is follows from `user_id` and `project_id`; without them it is everybody's."""
        whose: ScopeName = "user" if user_id is not None else "project" if project_id is not None else "global"
        request = {
            "op": "add",
            "type": type,
            "scope": scope or whose,
            "content": content,
            "rationale": rationale,
            "confidence": confidence,
            "source_refs": list(source_refs),
            "user_id": user_id,
            "project_id": project_id,
            "tags": list(tags),
            "metadata": dict(metadata or {}),
            "happened_at": happened_at,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "expires_at": expires_at,
            "trust": trust,
            "memory_id": memory_id,
        }
        return _written(await self._one(request, "add", proposer, run_id, commit_id))

    async def update(
        self,
        memory_id: str,
        content: str,
        *,
        rationale: str = "updated directly",
        confidence: float | None = None,
        source_refs: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        happened_at: datetime | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        expires_at: datetime | None = None,
        proposer: str | None = None,
        run_id: str | None = None,
        commit_id: str | None = None,
    ) -> Written:
        """Replace a memory by one that says something else. It has an id of its own; the old one is superseded.

        What is not given stays as it was, but for the times of the event, which were those of the old content.
        """
        changed = {
            "confidence": confidence,
            "source_refs": source_refs,
            "tags": tags,
            "metadata": metadata,
            "happened_at": happened_at,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "expires_at": expires_at,
        }
        request = await self._like(memory_id) | {name: value for name, value in changed.items() if value is not None}
        request |= {"op": "supersede", "supersedes": [memory_id], "content": content, "rationale": rationale}
        return _written(await self._one(request, f"update {memory_id}", proposer, run_id, commit_id))

    async def delete(
        self,
        memory_id: str,
        *,
        reason: str = "deleted directly",
        proposer: str | None = None,
        run_id: str | None = None,
        commit_id: str | None = None,
    ) -> Written:
        """Stop finding a memory. It stays in `history`; `erase` is what leaves nothing of it."""
        request = await self._like(memory_id)
        request |= {"op": "deprecate", "target_memory_id": memory_id, "content": "(deleted)", "rationale": reason}
        written = _written(await self._one(request, f"delete {memory_id}", proposer, run_id, commit_id))
        return msgspec.structs.replace(
            written, id=memory_id, status="deprecated" if written.status == "active" else written.status
        )

    async def _like(self, memory_id: str) -> dict[str, Any]:
        """Return the fields that a request about a memory has in common with it."""
        try:
            memory = await self.get(memory_id)
        except NotFound as problem:
            batch_id = await waits_in(self._scope, memory_id)
            if batch_id is None:
                raise NotFound(f"{problem}; nothing changed", kind=problem.kind, id=problem.id) from None
            raise NotFound(
                f"memory {memory_id!r} is not known yet: it waits for a review in batch {batch_id!r}; nothing changed",
                kind="pending_memory",
                id=memory_id,
            ) from None
        return {name: value for name, value in msgspec.to_builtins(memory).items() if name in _KEPT} | {
            "source_refs": list(memory.source_refs)
        }


def _written(batch: Batch) -> Written:
    """Say what became of a batch of one request."""
    [proposal] = batch.proposals
    id, flags = proposal.duplicate_of or proposal.memory_id or "", proposal.flags
    if (proposal.request.content, proposal.request.rationale) == (GONE, GONE):
        return Written(id=id, status="erased", batch_id=batch.id)
    if batch.status != "committed":
        return Written(id=id, status="pending", batch_id=batch.id, flags=flags)
    known = proposal.outcome == "duplicate"
    return Written(id=id, status="known" if known else "active", batch_id=batch.id, flags=flags)
