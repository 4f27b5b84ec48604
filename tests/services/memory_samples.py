"""Requests and small steps that the tests of long-term memory share."""

from __future__ import annotations

import inspect
from typing import Any

from strongroom.services.memories.values import Committed


def mcr(content: str = "Deploys happen on Friday", **fields: Any) -> Any:
    """Return a valid request, or what the fields make of it."""
    return {
        "_schema_version": "2.1",
        "op": "add",
        "type": "fact",
        "scope": "global",
        "content": content,
        "rationale": "it was said",
        "confidence": 0.9,
        "source_refs": [],
    } | fields


async def known(ctx: Any, *requests: dict[str, Any], proposer: str = "agent-7") -> Committed:
    """Propose and commit requests."""
    batch = await ctx.memories.propose(list(requests), proposer=proposer)
    committed: Committed = await ctx.memories.commit(batch.id, reviewer="ana")
    return committed


async def using(memories: Any, **options: Any) -> Any:
    """Configure memories, blocking or async: a blocking object that tests await has to be awaited."""
    return await settled(memories.using(**options))


async def settled(result: Any) -> Any:
    """Await what has to be awaited: a store is not seen through awaitable eyes."""
    return await result if inspect.isawaitable(result) else result


async def contents(ctx: Any, query: str, **filters: Any) -> list[str]:
    """Return what a lexical search finds."""
    return [hit.memory.content for hit in await ctx.memories.search(query, **filters)]
