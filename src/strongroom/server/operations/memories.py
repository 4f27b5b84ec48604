"""Operations of memories."""

from __future__ import annotations

from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput
from strongroom.operations import Undecided
from strongroom.server.operations.asked import Asked, call, understood
from strongroom.server.operations.numbers import require_numbers
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.vectors import Vectors


def _memories(asked: Asked) -> AsyncMemories:
    """The memories under the server's own policy, or under that of somebody who may do everything a policy decides."""
    rules = asked.more.get("policy")
    return asked.ctx.memories if rules is None else asked.ctx.memories.using(policy=understood(Policy, rules))


async def propose(asked: Asked) -> object:
    return await call(asked, AsyncMemories.propose, _memories(asked), named=asked.arguments)


async def commit(asked: Asked) -> object:
    reject = understood(dict[str, str], asked.arguments.get("reject", {}))
    try:
        places = {int(place): reason for place, reason in reject.items()}
    except ValueError:
        raise InvalidInput("proposals are named by their places; nothing changed", path="reject") from None
    arguments = asked.arguments | {"reject": places}
    return await call(asked, AsyncMemories.commit, _memories(asked), asked.id, named=arguments)


async def reject(asked: Asked) -> object:
    return await call(asked, AsyncMemories.reject, _memories(asked), asked.id, named=asked.arguments)


def _vectors_of(asked: Asked) -> tuple[Vectors, Fingerprint]:
    return Vectors(asked.ctx.scope, None, None, True), understood(Fingerprint, asked.arguments.get("fingerprint"))


async def agree(asked: Asked) -> object:
    kept, fingerprint = _vectors_of(asked)
    return await kept.agree(fingerprint, asked.commit_id)


async def embed(asked: Asked) -> None:
    """Keep the vectors that a caller's embedder made of texts, under the hashes of those."""
    kept, fingerprint = _vectors_of(asked)
    made: dict[str, str] = understood(dict[str, str], asked.arguments.get("vectors"))
    if fingerprint.dimension < 1 or not made or any(len(id) != 64 for id in made):
        raise InvalidInput("vectors are named by hashes and have the embedder's dimension; nothing changed")
    for vector in made.values():
        if require_numbers(vector, "f", 1) != fingerprint.dimension:
            raise InvalidInput("vectors are named by hashes and have the embedder's dimension; nothing changed")
    await kept.keep(fingerprint, made, asked.commit_id)


async def reembed(asked: Asked) -> object:
    kept, fingerprint = _vectors_of(asked)

    async def embedded() -> int:
        if asked.besides is None:
            raise Undecided
        made: int = understood(int, asked.besides.get("made"))
        return made

    return await kept.switch(fingerprint, embedded, asked.commit_id)
