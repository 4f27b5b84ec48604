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
from strongroom.services.memories.vectors import EMBEDDING, Vectors
from strongroom.store import MOST_WORDS, Find, Get


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


async def test_a_text_that_has_a_vector_keeps_it() -> None:
    scope = Scope(Inline(MemoryStore()))
    kept: Any = Vectors(scope, None, None, False)
    made = Fingerprint("toy", "", 2)
    for vector in (numbers(1, 0), numbers(0, 1)):
        await kept.keep(made, {"a" * 64: vector})
    found = await scope.get(Get(scope.key(EMBEDDING, "a" * 64)))
    assert found is not None and found.value.load() == {"vector": numbers(1, 0)}


def test_a_search_is_for_so_many_words_at_most() -> None:
    with pytest.raises(InvalidInput, match="at most"):
        Find("acme", "message", tuple(f"w{number}" for number in range(MOST_WORDS + 1)))
