"""An error keeps its facts wherever it goes."""

from __future__ import annotations

import copy
import pickle

import pytest

from strongroom.errors import BudgetExceeded, CommitUnknown, Conflict, Damaged, InvalidInput, NotFound, StrongroomError
from strongroom.store import Key

ERRORS = [
    Conflict("lost", expected=1, actual=2, key=Key("a", "run", "r")),
    InvalidInput("no", path="x.y"),
    NotFound("gone", kind="run", id="r"),
    BudgetExceeded("too much", limit=1, needed=2),
    CommitUnknown("who knows", reason="fsync", commit_id="c"),
    Damaged("bad", reason="gap"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_an_error_that_travels_is_the_same(error: StrongroomError, way: object) -> None:
    assert callable(way)
    again = way(error)
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
