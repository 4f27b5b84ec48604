"""A run's own state against a model: whatever was stored and patched, every way back to it agrees."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.codec import encode
from strongroom.services.runs import state as runs_state

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)  # fmt: skip
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c", ""]), JSON, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("replace"), OBJECTS | st.none()),
        st.tuples(st.just("patch"), OBJECTS),
        st.tuples(st.just("rollback"), st.integers(0, 20)),
        st.tuples(st.just("other"), st.none()),
    ),
    min_size=1,
    max_size=12,
)


def merged(state: Any, patch: Any) -> Any:
    """RFC 7396, written down once more."""
    if not isinstance(patch, dict):
        return patch
    made = dict(state) if isinstance(state, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


def exact(state: Any) -> bytes:
    return encode(state)


@settings(max_examples=80)
@given(st.none() | OBJECTS, STEPS, st.integers(1, 8))
def test_every_way_back_to_a_state_agrees_with_a_model(first: Any, steps: list[tuple[str, Any]], every: int) -> None:
    usual, runs_state.SNAPSHOT_RECORDS = runs_state.SNAPSHOT_RECORDS, every
    try:
        with strongroom.open("memory://") as ctx:
            run = ctx.runs.create(objective="o", state=first)
            model = [first]
            for step, value in steps:
                if step == "replace":
                    run.update(state=value)
                    model.append(value)
                elif step == "patch":
                    run.update(state_patch=value)
                    if value:  # an empty patch asks for nothing, and makes no version
                        model.append(merged(model[-1], value))
                elif step == "rollback":
                    run.rollback(value % len(model))
                    model.append(model[value % len(model)])
                else:
                    run.update(next_action=f"{len(model)}")
                    model.append(model[-1])
            assert [exact(run.at(seq).state) for seq in range(len(model))] == [exact(one) for one in model]
            assert exact(run.state) == exact(ctx.runs.get(run.id).state) == exact(model[-1])
            assert exact(run.fork(len(model) // 2).state) == exact(model[len(model) // 2])
            for seq, (before, after) in enumerate(pairwise(model)):
                told = [change for change in run.diff(seq, seq + 1).changes if change.field == "state"]
                assert bool(told) is (exact(before) != exact(after))
                for change in told:
                    assert (exact(change.before), exact(change.after)) == (exact(before), exact(after))
            assert run.verify().ok
    finally:
        runs_state.SNAPSHOT_RECORDS = usual
