"""What is wrong with a memory in one line is called by the name its caller gave, not by that of a request within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.errors import InvalidInput
from tests.services.memory_samples import mcr

LONG, HALF = "x" * 8_001, "half of a character: \ud800"
WRONG: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    "no content": (lambda memories, id: memories.update(id, ""), "content must not be empty"),
    "no id to update": (lambda memories, id: memories.update("", "x"), "memory_id must have at least 3 characters"),
    "no id to delete": (lambda memories, id: memories.delete(""), "memory_id must have at least 3 characters"),
    "no reason": (lambda memories, id: memories.delete(id, reason=""), "reason must not be empty"),
    "a long content": (lambda memories, id: memories.update(id, LONG), "content is limited to 8000 characters"),
    "a long rationale": (
        lambda memories, id: memories.add("x", rationale=LONG),
        "rationale is limited to 8000 characters",
    ),
    "a long reason": (lambda memories, id: memories.delete(id, reason=LONG), "reason is limited to 8000 characters"),
    "half a content": (lambda memories, id: memories.add(HALF), "content: text holds a lone surrogate"),
    "half a reason": (lambda memories, id: memories.delete(id, reason=HALF), "reason: text holds a lone surrogate"),
    "no user": (lambda memories, id: memories.add("x", user_id=""), "user_id must not be empty"),
    "a long user": (
        lambda memories, id: memories.add("x", user_id="x" * 256),
        "user_id must have at most 255 characters",
    ),
    "too sure": (lambda memories, id: memories.add("x", confidence=3), "confidence must be at most 1"),
    "less than unsure": (lambda memories, id: memories.add("x", confidence=-1), "confidence must be at least 0"),
    "no tag": (lambda memories, id: memories.update(id, "x", tags=["a", ""]), "tags[1] must not be empty"),
    "many tags": (
        lambda memories, id: memories.add("x", tags=[*map(str, range(33))]),
        "tags must have at most 32 items",
    ),
    "no key": (lambda memories, id: memories.add("x", metadata={"": 1}), "a key of metadata must not be empty"),
    "nobody": (
        lambda memories, id: memories.add("x", proposer=""),
        "a proposer must be 1 to 255 printable characters, not ''",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_is_wrong_is_called_as_its_caller_called_it(ctx: Any, wrong: str) -> None:
    known = await ctx.memories.add("lives in Rome")
    call, told = WRONG[wrong]
    with pytest.raises(InvalidInput) as refused:
        await call(ctx.memories, known.id)
    assert (str(refused.value), refused.value.path) == (f"{told}; nothing changed", "")
    assert [memory.content for memory in await ctx.memories.list()] == ["lives in Rome"]


async def test_of_several_requests_the_wrong_one_is_told_by_its_place(ctx: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await ctx.memories.propose([mcr("a"), mcr(HALF)], proposer="agent-7")
    assert str(refused.value) == "$[1].content: text holds a lone surrogate; nothing changed"
    with pytest.raises(InvalidInput) as refused:
        await ctx.memories.propose([mcr("a"), mcr("b", confidence=2)], proposer="agent-7")
    assert str(refused.value) == "$[1]: confidence must be at most 1; nothing changed"
