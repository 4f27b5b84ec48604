"""What people see of memories in a terminal, and how they decide there."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from tests.cli.conftest import Type


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ({"scope": "user", "user_id": "u1"}, "(user u1, "),
        ({"scope": "project", "project_id": "p1"}, "(project p1, "),
        ({"scope": "user", "user_id": "u1", "project_id": "p1"}, "(user u1, project p1, "),
        ({"scope": "global"}, "(global, of everybody, "),
    ],
)
def test_what_waits_for_a_decision_says_whose_it_is(
    whose: dict[str, str], told: str, here: Path, type_in: Type
) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        wanted = {"op": "add", "type": "fact", "content": "likes tea", "rationale": "said so", "confidence": 1}
        ctx.memories.propose([{**wanted, "source_refs": [], **whose}], proposer="agent-8")  # type: ignore[list-item]
    assert told in type_in("memories", "pending", "--proposer", "agent-8").out
