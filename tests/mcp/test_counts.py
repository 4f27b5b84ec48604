"""How many, for assistants: see tests/test_counts.py."""

from __future__ import annotations

import json

import pytest

from tests.mcp.conftest import Connect, refused


@pytest.mark.parametrize("wrong", [0, -1, 51])
async def test_a_tool_refuses_in_the_same_words(connect: Connect, wrong: int) -> None:
    async with connect("reader") as client:
        told = json.loads(await refused(client, "memory_search", query="a", k=wrong))["error"]
    assert told.startswith(f"k must be a whole number from 1 to 50, not {wrong}; memory_search takes: query, k, ")
