"""A query is bounded through every door, and what it costs grows with its length alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.blocking import Context
from strongroom.bridge import OnLoop
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.queries import LONGEST_QUERY, Asked
from strongroom.scope import Scope
from strongroom.services.memories import ranking
from strongroom.stemming import words

LONGEST = "tea " * (LONGEST_QUERY // 4)
DOORS: dict[str, Callable[[Context, str], Any]] = {
    "memories": lambda ctx, query: ctx.memories.search(query),
    "sessions": lambda ctx, query: ctx.sessions.search(query),
    "a session": lambda ctx, query: ctx.sessions.open("s").search(query),
    "a window": lambda ctx, query: ctx.sessions.open("s").window(100, strategy="relevant", query=query),
    "files": lambda ctx, query: ctx.files.search(query),
    "a prompt": lambda ctx, query: ctx.prompt(query=query, max_tokens=100),
}
EVERYWHERE = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


class Counted(str):
    """A token that counts how often it is stripped."""

    stripped = 0

    def strip(self, chars: str | None = None, /) -> str:
        type(self).stripped += 1
        return super().strip(chars)


class Query(str):
    def split(self, *_: Any) -> list[str]:
        return [Counted(self)]


@EVERYWHERE
def test_a_query_over_the_bound_is_refused_with_what_is_allowed(door: Callable[[Context, str], Any]) -> None:
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match="limited to 10,000 characters"):
        door(ctx, LONGEST + "x")


@EVERYWHERE
def test_a_query_of_the_bound_is_answered(door: Callable[[Context, str], Any]) -> None:
    with strongroom.open("memory://") as ctx:
        door(ctx, LONGEST)


async def test_a_word_of_many_words_is_spelled_once() -> None:
    memories = AsyncContext(Scope(OnLoop(MemoryStore()))).memories
    memory = await memories.get((await memories.add("a b1 c", user_id="ana")).id)
    query = Query("aB1!" * 100)
    assert len(words(query)) == 100
    asked = Asked(query, ("ab1",), ("ab1",), None, False)
    ranking.ranked(asked, 1, {"ab1": 1}, {memory.id: memory}, {})
    assert Counted.stripped == 1
