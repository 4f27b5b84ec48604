"""LangGraph's own conformance suite, and its rules for delta channels, with the counts asserted.

The suite reports full marks for a saver that lacks a capability, so each capability must be detected and each clause
counted. The clauses on the history of delta channels are not in the wheel; `test_delta.py` states them anew.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from strongroom import Context
from strongroom.adapters.langgraph import StrongroomSaver
from tests.adapters.langgraph.savers import MODES

CLAUSES = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


@pytest.mark.parametrize("mode", MODES)
async def test_every_clause_of_the_suite_holds(every_context: Context, mode: str) -> None:
    saver = MODES[mode](every_context)

    @checkpointer_test(name="strongroom")
    async def made() -> AsyncIterator[StrongroomSaver]:
        yield saver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own
        report = await validate(made)
    assert [failure for result in report.results.values() for failure in result.failures or ()] == []
    assert {name: result.tests_passed for name, result in report.results.items()} == CLAUSES
    assert sum(CLAUSES.values()) == 81
