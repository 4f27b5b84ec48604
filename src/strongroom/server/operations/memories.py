"""Operations of memories."""

from __future__ import annotations

import re

from msgspec import Struct

from strongroom.context import AsyncContext
from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput
from strongroom.operations import Undecided
from strongroom.server.operations.invocation import Invocation, call, require_numbers, understood
from strongroom.services.memories.batches import PLACE
from strongroom.services.memories.consolidation import Suggestions
from strongroom.services.memories.extraction import whose
from strongroom.services.memories.learning import Lesson
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import ScopeName
from strongroom.services.memories.vectors import Vectors


class _Learning(Struct, frozen=True, forbid_unknown_fields=True):
    session_id: str
    scope: ScopeName
    user_id: str | None
    project_id: str | None
    proposer: str


class _Consolidating(Struct, frozen=True, forbid_unknown_fields=True):
    scope: ScopeName
    user_id: str | None
    project_id: str | None
    proposer: str
    after: str | None


def _memories(op: Invocation) -> AsyncMemories:
    """The memories under the server's own policy, or under that of somebody who may do everything a policy decides."""
    rules = op.more.get("policy")
    return op.ctx.memories if rules is None else op.ctx.memories.using(policy=understood(Policy, rules))


async def propose(op: Invocation) -> object:
    return await call(op, AsyncMemories._propose, _memories(op), named=op.arguments)


async def commit(op: Invocation) -> object:
    given = {name: _by_place(op, name) for name in ("reject", "edit") if name in op.arguments}
    return await call(op, AsyncMemories.commit, _memories(op), op.id, named=op.arguments | given)


def _by_place(op: Invocation, name: str) -> dict[int, str]:
    said: dict[str, str] = understood(dict[str, str], op.arguments[name])
    if not all(re.fullmatch(PLACE, place) for place in said):
        raise InvalidInput("proposals are named by their places, as 0 and 12; nothing changed", path=name)
    return {int(place): text for place, text in said.items()}


async def reject(op: Invocation) -> object:
    return await call(op, AsyncMemories.reject, _memories(op), op.id, named=op.arguments)


async def erase_person(op: Invocation) -> object:
    return await call(op, AsyncContext.erase, op.ctx, named=op.arguments)


async def learn(op: Invocation) -> object:
    """Keep what a caller's model made of messages, if they are still to be learnt from."""
    lesson = None if "lesson" not in op.more else understood(Lesson, op.more["lesson"])
    wanted: _Learning = understood(_Learning, op.arguments)
    owner = whose(wanted.user_id, wanted.project_id, wanted.scope)
    return await _memories(op)._learnt(wanted.session_id, owner, wanted.proposer, lesson, op.commit_id)


async def consolidate(op: Invocation) -> object:
    """Keep what a caller's model suggested for memories, if they are still what it was shown."""
    made = None if "suggestions" not in op.more else understood(Suggestions, op.more["suggestions"])
    wanted: _Consolidating = understood(_Consolidating, op.arguments)
    owner = whose(wanted.user_id, wanted.project_id, wanted.scope)
    return await _memories(op)._consolidated(owner, wanted.proposer, wanted.after, made, op.commit_id)


def _vectors_of(op: Invocation) -> tuple[Vectors, Fingerprint]:
    return Vectors(op.ctx.scope, None, None), understood(Fingerprint, op.arguments.get("fingerprint"))


async def agree(op: Invocation) -> object:
    kept, fingerprint = _vectors_of(op)
    return await kept.agree(fingerprint, op.commit_id)


async def embed(op: Invocation) -> None:
    """Keep the vectors that a caller's embedder made of memories, by the ids of those."""
    kept, fingerprint = _vectors_of(op)
    made: dict[str, str] = understood(dict[str, str], op.arguments.get("vectors"))
    if not made or any(require_numbers(raw, "f", 1) != max(fingerprint.dimension, 1) for raw in made.values()):
        raise InvalidInput("vectors are named by memories and have the embedder's dimension; nothing changed")
    await kept.keep(fingerprint, made, op.commit_id)


async def reembed(op: Invocation) -> object:
    kept, fingerprint = _vectors_of(op)

    async def embedded() -> int:
        if op.besides is None:
            raise Undecided
        made: int = understood(int, op.besides.get("made"))
        return made

    return await kept.switch(fingerprint, embedded, op.commit_id)
