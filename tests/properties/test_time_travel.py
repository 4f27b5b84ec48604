"""Time travel, as properties: every version is what it was, and nothing done later changes it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import strongroom
from strongroom.errors import BudgetExceeded
from strongroom.services.runs.working_set import apply, change, initial, view
from strongroom.values import WorkingSet

WORDS = st.text("abc ", max_size=6)
LISTS = st.lists(WORDS, max_size=8)
SLIDING = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text("ab", min_size=1, max_size=2),
            "content": st.text("abc", min_size=1, max_size=30),
            "timestamp": st.just("2026-01-01T00:00:00Z"),
            "priority": st.integers(0, 9),
        }
    ),
    max_size=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={"next_action": WORDS, "blockers": LISTS, "constraints": LISTS, "sliding_context": SLIDING},
)
START = initial(run_id="r", task_id="t", thread_id="th", objective="o")


@given(FIELDS, FIELDS)
@settings(max_examples=200)
def test_a_change_leads_from_one_state_to_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = {**START, **one}, {**START, **other}
    assert apply(before, change(before, after)) == after


@given(st.lists(st.integers(0, 50), unique=True, min_size=20, max_size=40), st.data())
def test_a_change_of_a_list_is_as_large_as_what_changed(numbers: list[int], data: st.DataObject) -> None:
    before = {**START, "blockers": [f"a rather long blocker {number}" for number in numbers]}
    gone = set(data.draw(st.lists(st.sampled_from(numbers), max_size=3)))
    kept = [text for number, text in zip(numbers, before["blockers"], strict=True) if number not in gone]
    told = change(before, {**before, "blockers": [*kept, "new"]})
    written = [item for splice in told["lists"]["blockers"] for item in splice[2]]
    assert written == ["new"]


class Travel(RuleBasedStateMachine):
    """A run beside a list of what it was."""

    runs = Bundle("runs")

    @initialize(target=runs)
    def begin(self) -> Any:
        self.ctx = strongroom.open("memory://")
        self.past: dict[str, list[WorkingSet]] = {}
        return self._known(self.ctx.runs.create(objective="o", config={"ws_max_tokens": 220}))

    @rule(run=runs, fields=FIELDS)
    def update(self, run: Any, fields: dict[str, Any]) -> None:
        try:
            after = run.update(**fields)
            self.past[run.id] += [after] if fields else []  # what asks for nothing makes no version
        except BudgetExceeded:
            assert run.refresh() == self.past[run.id][-1]

    @rule(run=runs, place=st.integers(1, 5))
    def record(self, run: Any, place: int) -> None:
        for _ in range(place):
            run.record("MODEL_ACTION", {"action": "x"})

    @rule(run=runs, back=st.integers(0, 30))
    def rollback(self, run: Any, back: int) -> None:
        past = self.past[run.id]
        seq = max(0, len(past) - 1 - back)
        after = run.rollback(seq)
        assert {**after.to_dict(), "_update_seq": seq} == past[seq].to_dict()
        past.append(after)

    @rule(target=runs, run=runs, back=st.integers(0, 30))
    def fork(self, run: Any, back: int) -> Any:
        past = self.past[run.id]
        return self._known(run.fork(max(0, len(past) - 1 - back)))

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        for id, past in getattr(self, "past", {}).items():
            run = self.ctx.runs.get(id)
            assert [run.at(seq) for seq in range(len(past))] == past

    def teardown(self) -> None:
        for id, past in getattr(self, "past", {}).items():
            run = self.ctx.runs.get(id)
            assert run.verify().ok
            shown = [step.working_set for step in run.replay()]
            assert shown[-1] == past[-1]

    def _known(self, run: Any) -> Any:
        self.past[run.id] = [run.working_set]
        return run


Travel.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
test_fork_and_rollback_never_change_the_past = Travel.TestCase


def test_many_updates_of_a_large_state_cost_what_they_change() -> None:
    ctx = strongroom.open("memory://")
    run = ctx.runs.create(objective="o", config={"ws_max_tokens": 20_000})
    run.update(blockers=[f"{place} " + "x" * 180 for place in range(100)])
    for place in range(300):
        run.update(next_action=f"step {place}")
    events = [record for _, record in _bodies(ctx, run.id)]
    assert sum(events[2:]) < 300 * 600
    assert [run.at(seq).next_action for seq in (2, 150, 301)] == ["step 0", "step 148", "step 299"]


def _bodies(ctx: Any, run_id: str) -> list[tuple[int, int]]:
    from strongroom.store import Key, Range

    [found] = ctx.store.read([Range(Key("default", "ledger", run_id))])
    return [(record.index, len(record.body)) for record in found.records]


def test_a_view_and_its_json_are_the_same() -> None:
    assert view(START).to_dict() == START
