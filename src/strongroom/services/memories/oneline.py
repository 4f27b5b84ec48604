"""Memory in one line: add, update, delete. The same two phases beneath: committed at once, in one commit, where the
policy lets this proposer; else staged for a reviewer. The answer says which. Without a proposer it is the program
itself that speaks; nobody else can be named so.

The program is believed to be sure of what it says, and needs no reason. Somebody who is named, and says neither how
sure nor why, is taken to be `LIKELY` right, and to have given no reason: what a reviewer reads was said by the
proposer, or is told as not said.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from strongroom.arguments import checked
from strongroom.services.memories.blanking import GONE
from strongroom.services.memories.requests import KEPT
from strongroom.services.memories.values import Batch, ScopeName, Trust, Type, Written

CERTAIN = 1.0
LIKELY = 0.8  # as sure as a brief wants a memory to be, once somebody has accepted it
OURS = "by the program itself"
UNEXPLAINED = "no reason given"

# What stands in a request for what its caller does not say, and is kept from the memory it is about.
_UNSAID: dict[str, Any] = {"type": "fact", "scope": "global", "confidence": CERTAIN, "source_refs": []}

# What a request calls what its caller gave by another name.
NO_NAMES: Mapping[str, str] = {}
_UPDATED = {"supersedes[0]": "memory_id"}
_DELETED = {"target_memory_id": "memory_id", "rationale": "reason"}


@checked
class OneLine:
    """What a program does with memories by itself."""

    @abstractmethod
    async def _one(
        self,
        request: Any,
        about: str,
        proposer: str | None,
        run_id: str | None,
        commit_id: str | None,
        kept: Sequence[str] = (),
        names: Mapping[str, str] = NO_NAMES,
    ) -> Batch: ...

    async def add(
        self,
        content: str,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        type: Type = "fact",
        scope: ScopeName | None = None,
        confidence: float | None = None,
        rationale: str | None = None,
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
        """Remember something. Whose it is follows from `user_id` and `project_id`; without them it is everybody's.

        Without a `proposer` its confidence is 1.0 unless you say otherwise; a proposer who does not say it is taken to
        be 0.8 sure, and to have given no reason.
        """
        whose: ScopeName = "user" if user_id is not None else "project" if project_id is not None else "global"
        request = {
            "op": "add",
            "type": type,
            "scope": scope or whose,
            "content": content,
            "rationale": _why(rationale, proposer),
            "confidence": _sure(proposer) if confidence is None else confidence,
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
        rationale: str | None = None,
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

        What is not given stays as it was, but for the times of the event, which were those of the old content, and for
        how sure somebody else was of it: a `proposer` who does not say it is taken to be 0.8 sure.
        """
        if confidence is None and proposer is not None:
            confidence = LIKELY
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
        said = {name: value for name, value in changed.items() if value is not None}
        request = _UNSAID | said | {"op": "supersede", "supersedes": [memory_id]}
        request |= {"content": content, "rationale": _why(rationale, proposer)}
        kept = [name for name in KEPT if name not in said]
        return _written(await self._one(request, f"update {memory_id}", proposer, run_id, commit_id, kept, _UPDATED))

    async def delete(
        self,
        memory_id: str,
        *,
        reason: str | None = None,
        proposer: str | None = None,
        run_id: str | None = None,
        commit_id: str | None = None,
    ) -> Written:
        """Stop finding a memory. It stays in `history`; `erase` is what leaves nothing of it."""
        request = _UNSAID | {"op": "deprecate", "target_memory_id": memory_id}
        request |= {"content": "(deleted)", "rationale": _why(reason, proposer)}
        written = _written(await self._one(request, f"delete {memory_id}", proposer, run_id, commit_id, KEPT, _DELETED))
        return msgspec.structs.replace(
            written, id=memory_id, status="deprecated" if written.status == "active" else written.status
        )


def as_given(said: str, names: Mapping[str, str]) -> str:
    """Return what was said of the first request of a list as what is told of a call that makes it: without its place
    there, and with the name that the caller knows what is wrong by."""
    said = said.removeprefix("$[0]").lstrip(".: ")
    inner = next((name for name in names if said.startswith(name)), "")
    return names.get(inner, "") + said.removeprefix(inner)


def _sure(proposer: str | None) -> float:
    return CERTAIN if proposer is None else LIKELY


def _why(given: str | None, proposer: str | None) -> str:
    if given is not None:
        return given
    return OURS if proposer is None else UNEXPLAINED


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
