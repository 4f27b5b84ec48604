"""An update that cannot be is refused by a server in the words of the store itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strongroom
from strongroom.errors import StrongroomError
from tests.server.serving import Served, served

WRONG: list[Any] = [
    {"append": {"blocker": "x"}},
    {"append": {"blockers": "x"}},
    {"append": {"blockers": {"a": 1}}},
    {"append": {"status": ["x"]}},
    {"append": {"run_id": ["x"]}},
    {"append": {"blockers": [1]}},
    {"append": []},
    {"remove": {"blocker": "x"}},
    {"remove": {"blockers": "x"}},
    {"state_patch": "x"},
    {"blockers": "x"},
]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


def refused(ctx: strongroom.Context, edits: Any) -> tuple[type[StrongroomError], str]:
    run = ctx.runs.open("r", objective="x")
    with pytest.raises(StrongroomError) as problem:
        run.update(**edits)
    return problem.type, str(problem.value)


@pytest.mark.parametrize("edits", WRONG, ids=str)
def test_a_wrong_edit_is_refused_in_the_same_words_over_a_server(server: Served, edits: Any) -> None:
    with strongroom.open("memory://") as here, strongroom.connect(server.url) as there:
        assert refused(there, edits) == refused(here, edits)
