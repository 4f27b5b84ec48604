"""Two processes at once through the memory of Pydantic AI's harness: whoever is stale is refused, and reads again."""

from __future__ import annotations

import asyncio

from strongroom.adapters.pydantic_ai_harness import StrongroomMemoryStore
from tests.adapters.processes import TURNS, both, lines_of
from tests.adapters.programs import HARNESS


def test_two_processes_add_lines_to_one_file(address: str) -> None:
    both("files", address)
    with StrongroomMemoryStore(address) as store:
        found = asyncio.run(store.read(HARNESS, max_chars=1_000_000))
    assert found is not None
    said = found.content.splitlines()
    assert len(said) == 2 * TURNS and set(said) == lines_of()
    for name in ("one", "two"):  # each in its own order
        assert [one for one in said if one.startswith(name)] == [f"{name} {number}" for number in range(TURNS)]
