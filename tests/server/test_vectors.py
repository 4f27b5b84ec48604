"""Vectors come from callers: what is none, or could stand before all others, is refused before it is kept."""

from __future__ import annotations

import math
from base64 import b64encode
from struct import pack
from typing import Any

import pytest

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.embedders import Fingerprint
from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.server.operations.invocation import require_numbers
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.vectors import EMBEDDING, Vectors
from strongroom.store import MOST_WORDS, Find, Scan


def numbers(*values: float) -> str:
    return b64encode(pack(f"<{len(values)}f", *values)).decode()


def test_ordinary_numbers_are_counted_by_row() -> None:
    assert require_numbers(numbers(0.5, -0.5, 0.25, 1.0), "f", 2) == 2


@pytest.mark.parametrize(
    "odd", ["%" * 12, "é" * 12, "AAA", numbers(math.nan, 1), numbers(math.inf, 1), numbers(1e30, 0)]
)
def test_what_is_no_vector_is_refused(odd: str) -> None:
    with pytest.raises(InvalidInput, match="nothing changed"):
        require_numbers(odd, "f", 1)


async def remembering() -> tuple[Scope, Any, str]:
    scope = Scope(Inline(MemoryStore()))
    known = await AsyncMemories(scope).add("likes tea", user_id="u1")
    return scope, Vectors(scope, None, None), known.id


async def kept_vectors(scope: Scope) -> list[Any]:
    page = await scope.get(Scan(scope.space, EMBEDDING, limit=10))
    return [one.value.load() for one in page.documents]


async def test_a_text_that_has_a_vector_keeps_it() -> None:
    scope, vectors, memory_id = await remembering()
    for vector in (numbers(1, 0), numbers(0, 1)):
        await vectors.keep(Fingerprint("toy", "", 2), {memory_id: vector})
    assert await kept_vectors(scope) == [{"vector": numbers(1, 0)}]


async def test_a_vector_of_what_nobody_knows_is_refused() -> None:
    scope, vectors, _ = await remembering()
    with pytest.raises(InvalidInput, match="nothing changed"):
        await vectors.keep(Fingerprint("toy", "", 2), {"a" * 64: numbers(1, 0)})
    assert await kept_vectors(scope) == []


async def test_a_vector_of_what_was_erased_is_not_kept() -> None:
    scope, vectors, memory_id = await remembering()
    await AsyncMemories(scope).erase(user_id="u1")
    await vectors.keep(Fingerprint("toy", "", 2), {memory_id: numbers(1, 0)})
    assert await kept_vectors(scope) == []


def test_a_search_is_for_so_many_words_at_most() -> None:
    with pytest.raises(InvalidInput, match="at most"):
        Find("acme", "message", tuple(f"w{number}" for number in range(MOST_WORDS + 1)))
