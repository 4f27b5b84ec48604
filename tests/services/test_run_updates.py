"""Updates of a run: fields, lists, refusals, repeats, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.errors import BudgetExceeded, Conflict, Immutable, InvalidInput
from strongroom.values import WorkingSet
from tests.awaitable import Awaitable
from tests.services.test_runs import item, types


@pytest.fixture
def here() -> Iterator[Any]:
    """One store, for what is decided before any store is asked."""
    with strongroom.open("memory://") as ctx:
        yield Awaitable(ctx)


async def test_an_update_replaces_fields_and_counts(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    after = await run.update(expected_seq=0, status="BUSY", next_action="go")
    assert isinstance(after, WorkingSet)
    assert (after.seq, after.status, after.next_action) == (1, "BUSY", "go")
    assert (await ctx.runs.get(run.id)).working_set == after


async def test_a_stale_update_is_refused_with_both_numbers(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(expected_seq=0, next_action="first")
    with pytest.raises(Conflict) as refused:
        await run.update(expected_seq=0, next_action="second")
    assert (refused.value.expected, refused.value.actual) == (0, 1)
    assert (await run.refresh()).next_action == "first"


async def test_a_handle_that_saw_less_is_stale_by_default(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    other = await ctx.runs.get(run.id)
    await other.update(next_action="theirs")
    with pytest.raises(Conflict):
        await run.update(next_action="mine")


async def test_a_handle_overtaken_after_its_own_update_is_stale_too(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="mine")
    await (await ctx.runs.get(run.id)).update(next_action="theirs")
    with pytest.raises(Conflict) as refused:
        await run.update(next_action="mine again")
    assert (refused.value.expected, refused.value.actual) == (1, 2)
    assert await types(run) == ["RUN_START", "WS_UPDATE_APPLIED", "WS_UPDATE_APPLIED", "WS_UPDATE_REJECTED"]


async def test_an_overtaken_handle_that_asks_for_the_impossible_is_told_that_it_is_stale(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="mine")
    await (await ctx.runs.get(run.id)).update(next_action="theirs")
    with pytest.raises(Conflict):
        await run.update(status="NO SUCH STATUS")


async def test_a_handle_brings_nothing_back_after_an_erasure(ctx: Any) -> None:
    run = await ctx.runs.create(objective="secret")
    await run.update(next_action="secret")
    await ctx.runs.erase(run.id, reason="asked to")
    with pytest.raises(Conflict):
        await run.update(status="BUSY")
    assert "secret" not in str(msgspec.to_builtins(await run.refresh()))
    assert (await run.verify()).ok


def test_a_handle_goes_on_from_its_own_update_without_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        run.update(next_action="first")
        with monkeypatch.context() as blind:
            blind.setattr(ctx.store, "read", None)
            assert run.update(next_action="second").seq == 2
        assert run.verify().ok


@pytest.mark.parametrize(
    "field", ["_schema_version", "_update_seq", "seq", "task_id", "thread_id", "run_id", "objective"]
)
async def test_an_immutable_field_is_refused_by_name(here: Any, field: str) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(Immutable) as refused:
        await run.update(**{field: "x"})
    assert refused.value.field.strip("_") in (field.strip("_"), "update_seq")
    assert (await run.refresh()).seq == 0


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"nope": 1}, "nope"),
        ({"status": "ASLEEP"}, "$.status"),
        ({"current_stage": ""}, "$.current_stage"),
        ({"blockers": "429s"}, "$.blockers"),
        ({"blockers": ["ok", 5]}, "$.blockers[1]"),
        ({"sliding_context": [{**item("a"), "timestamp": "banana"}]}, "$.sliding_context[0].timestamp"),
        ({"sliding_context": [{**item("a"), "timestamp": "2026-02-30T00:00:00Z"}]}, "$.sliding_context[0].timestamp"),
        ({"sliding_context": [{**item("a"), "priority": 10}]}, "$.sliding_context[0].priority"),
        ({"sliding_context": [{**item("a"), "extra": 1}]}, "$.sliding_context[0]"),
        ({"pinned_context": [{"id": str(n), "content": "c", "source_ref": ""} for n in range(11)]}, "$.pinned_context"),
        ({"artifact_refs": [{"type": "t", "id": "i", "path": "p", "sha256": "xyz"}]}, "$.artifact_refs[0].sha256"),
        ({"next_action": "\ud800"}, "$"),
        ({"next_action": float("nan")}, "$"),
    ],
)
async def test_a_bad_field_is_refused_with_its_path(here: Any, fields: dict[str, Any], path: str) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput) as refused:
        await run.update(**fields)
    assert refused.value.path.startswith(path)
    assert (await run.refresh()).seq == 0


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda run: run.update(status="ASLEEP"),
            "'ASLEEP' is not one of BOOT, IDLE, BUSY, WAITING_INPUT, PAUSED, DONE, FAILED; nothing changed",
        ),
        (
            lambda run: run.update(stauts="BUSY"),
            "no field 'stauts', did you mean status? the fields are status,",
        ),
        (
            lambda run: run.update(append={"blocker": ["b"]}),
            "no field 'blocker', did you mean blockers?",
        ),
        (
            lambda run: run.update(pinned_context=[{"id": "i", "content": "c", "source": "s", "source_ref": "r"}]),
            "no field 'source', did you mean source_ref? the fields are id, content, source_ref",
        ),
        (
            lambda run: run.record("TOOL_CAL", {}),
            "no event type 'TOOL_CAL'; did you mean TOOL_CALL?; there are STEP_REQUEST, MODEL_ACTION, TOOL_CALL,",
        ),
        (
            lambda run: run.record("tool_call", {}),
            "no event type 'tool_call'; did you mean TOOL_CALL?; there are STEP_REQUEST, ",
        ),
        (
            lambda run: run.record("progress", {}),
            "and those that ctx.runs.register_event made, which begin with custom.; nothing changed",
        ),
        (
            lambda run: run.record("TOOL_CALL", {"tool": "fetch"}),
            "payload: there is no field 'tool', did you mean tool_name? the fields are tool_name, arguments; nothing",
        ),
        (
            lambda run: run.record("TOOL_RESULT", {"tool_name": "t"}),
            "payload: the field ok is missing; the fields are tool_name, ok, result, model, tokens_in, tokens_out, "
            "tokens_cached, latency_ms, cost, error; nothing changed",
        ),
    ],
)
async def test_a_refusal_names_what_is_allowed(here: Any, act: Any, words: str) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput) as refused:
        await act(run)
    assert words in str(refused.value)


async def test_a_refused_update_is_in_the_ledger_with_its_reason(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(InvalidInput):
        await run.update(status="ASLEEP", actor="ana")
    with pytest.raises(Conflict):
        await run.update(expected_seq=7, status="BUSY")
    told = [event for event in await run.events() if event.type == "WS_UPDATE_REJECTED"]
    assert ["status" in told[0].payload["error"], "seq 7" in told[1].payload["error"]] == [True, True]


@pytest.mark.parametrize(
    "refused",
    [
        {"colour": "red"},
        {"status": 7},
        {"expected_seq": -1},
        {"state": {"a": "x" * 70_000}},
        {"append": {"status": ["x"]}},
    ],
)
async def test_what_a_run_turns_away_is_recorded(ctx: Any, refused: dict[str, Any]) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises((InvalidInput, BudgetExceeded)):
        await run.update(**refused)
    assert await types(run) == ["RUN_START", "WS_UPDATE_REJECTED"]


@pytest.mark.parametrize("wrong", [{"state": "x"}, {"state": {"a": {1}}}, {"expected_seq": "0"}, {"append": []}])
async def test_what_never_comes_to_a_run_is_not_recorded(ctx: Any, wrong: dict[str, Any]) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(InvalidInput):
        await run.update(**wrong)
    assert await types(run) == ["RUN_START"]


async def test_the_ledger_says_what_an_update_changed_and_who_did_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", actor="agent-7")
    call = await run.record("TOOL_CALL", {"tool_name": "fetch"})
    await run.update(status="BUSY", actor="ana", parent=call.event_id)
    told = (await run.events())[-1]
    assert (told.type, told.payload, told.actor, told.parent_event_id) == (
        "WS_UPDATE_APPLIED",
        {"new_seq": 1},
        "ana",
        call.event_id,
    )
    assert told.detail is not None
    assert told.detail["change"]["set"] == {"_update_seq": 1, "status": "BUSY"}


async def test_update_with_sees_what_is_there_and_may_decline(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    other = await ctx.runs.get(run.id)
    await other.update(blockers=["a"])
    after = await run.update_with(lambda ws: {"blockers": [*ws.blockers, "b"]})
    assert after.blockers == ("a", "b")
    assert (await run.update_with(lambda ws: None)).seq == after.seq


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"append": {}},
        {"append": {"blockers": []}, "remove": {"constraints": []}},
        {"state_patch": {}},
        {"state_patch": {}, "append": {}},
    ],
)
async def test_an_update_without_a_change_writes_nothing(ctx: Any, nothing: dict[str, Any]) -> None:
    run = await ctx.runs.create(objective="o")
    before = await run.update(status="BUSY")
    assert await run.update(**nothing) == before
    assert (await run.update_with(lambda ws: {})).seq == 1
    assert await types(run) == ["RUN_START", "WS_UPDATE_APPLIED"]
    assert (await run.update(status="DONE")).seq == 2


async def test_an_empty_patch_of_the_state_beside_a_change_adds_nothing_to_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    stale = await ctx.runs.get(run.id)
    await run.update(status="BUSY", state_patch={})
    after = await stale.update(append={"blockers": ["b"]}, state_patch={})  # and so it still commutes
    assert (after.seq, after.state) == (2, None)


async def test_an_update_without_a_change_is_refused_all_the_same_if_it_is_stale_or_wrong(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await (await ctx.runs.get(run.id)).update(status="BUSY")
    with pytest.raises(Conflict):
        await run.update()
    with pytest.raises(InvalidInput):
        await run.update(append={"colours": []})
    assert (await ctx.runs.get(run.id)).seq == 1


async def test_an_update_without_a_change_is_answered_as_the_first_time(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.update(commit_id="k")
    await run.update(status="BUSY")
    assert await run.update(commit_id="k") == first


async def test_what_is_so_already_counts_as_an_update(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(status="BUSY")
    assert (await run.update(status="BUSY")).seq == 2


async def test_update_with_takes_back_the_items_it_was_shown(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(sliding_context=[item("a")])
    after = await run.update_with(lambda ws: {"sliding_context": [*ws.sliding_context, item("b")]})
    assert [kept.id for kept in after.sliding_context] == ["a", "b"]


async def test_appends_and_removals_commute_with_other_writers(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    other = await ctx.runs.get(run.id)
    await other.update(append={"blockers": ["a"]})
    await run.update(append={"blockers": ["b"], "sliding_context": [item("s")]})
    await other.update(remove={"blockers": ["a"], "sliding_context": ["s"]})
    after = await run.refresh()
    assert (after.blockers, after.sliding_context) == (("b",), ())


async def test_removing_what_is_not_there_is_fine(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    assert (await run.update(remove={"blockers": ["never there"]})).blockers == ()


@pytest.mark.parametrize(
    "bad", [{"append": {"status": ["x"]}}, {"append": {"blockers": "x"}}, {"remove": {"nope": []}}]
)
async def test_only_lists_can_be_appended_to(here: Any, bad: dict[str, Any]) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput):
        await run.update(**bad)


async def test_a_repeat_with_the_same_commit_id_is_applied_once(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.update(expected_seq=0, next_action="once", commit_id="c1")
    await run.update(next_action="later")
    again = await run.update(expected_seq=0, next_action="once", commit_id="c1")
    assert again == first
    assert (await run.refresh()).seq == 2


async def test_after_a_repeat_the_next_update_goes_on_from_what_is_there(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(next_action="once", commit_id="c1")
    await run.update(next_action="once", expected_seq=0, commit_id="c1")
    await run.update(blockers=["b"])
    assert (await ctx.runs.get(run.id)).working_set.next_action == "once"
    assert (await run.verify()).ok


async def test_a_frozen_working_set_cannot_be_changed(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(AttributeError):
        run.working_set.status = "DONE"


async def test_the_json_of_a_working_set_is_version_2_1(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r", task_id="t", thread_id="th")
    assert run.working_set.to_dict() == {
        "_schema_version": "2.1",
        "_update_seq": 0,
        "task_id": "t",
        "thread_id": "th",
        "run_id": "r",
        "objective": "o",
        "status": "BOOT",
        "current_stage": "BOOT",
        "acceptance_criteria": [],
        "constraints": [],
        "blockers": [],
        "next_action": "",
        "last_action_summary": "",
        "artifact_refs": [],
        "pinned_context": [],
        "sliding_context": [],
    }
