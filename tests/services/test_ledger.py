"""The ledger: what may be recorded, that all of it is chained, and that nothing can be altered unseen."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import pytest

import strongroom
from strongroom import payloads, schemas, values
from strongroom.blocking.runs import Runs
from strongroom.bridge import Inline, run
from strongroom.codec import MAX_DEPTH, encode
from strongroom.errors import InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.runs.events import event_writes
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.runs.working_set import LISTS, MUTABLE
from strongroom.store import Commit, Put, Store
from strongroom.values import Head
from tests.awaitable import Awaitable
from tests.server.serving import served

PAYLOADS: dict[str, dict[str, Any]] = {
    "STEP_REQUEST": {"ws_seq": 0, "model": "m"},
    "MODEL_ACTION": {"action": {"kind": "think"}, "raw": "..."},
    "TOOL_CALL": {"tool_name": "fetch", "arguments": {"url": "x"}},
    "TOOL_RESULT": {"tool_name": "fetch", "ok": True, "result": [1, 2]},
    "MODEL_UPDATE": {"expected_seq": 0, "ws_patch": {}, "mcrs": []},
    "ERROR": {"error_type": "Timeout", "message": "late"},
}


@pytest.fixture
def here() -> Iterator[Any]:
    """One store, for what is decided before any store is asked."""
    with strongroom.open("memory://") as ctx:
        yield Awaitable(ctx)


@pytest.mark.parametrize("type", PAYLOADS)
async def test_every_type_that_is_not_reserved_can_be_recorded(here: Any, type: str) -> None:
    run = await here.runs.create(objective="o")
    told = await run.record(type, PAYLOADS[type], actor="ana")
    assert (told.sequence_id, told.type, told.payload, told.actor) == (2, type, PAYLOADS[type], "ana")
    schemas.check("ledger_event", (await run.events())[-1].to_dict())


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("NOT_A_TYPE", {}),
        ("TOOL_CALL", {}),
        ("TOOL_CALL", {"tool_name": "t", "extra": 1}),
        ("TOOL_RESULT", {"tool_name": "t", "ok": "yes"}),
        ("STEP_REQUEST", {"ws_seq": -1}),
        ("TOOL_CALL", "fetch"),
        ("TOOL_CALL", {"tool_name": float("inf")}),
        ("custom.unregistered", {}),
        ("custom_type", "custom.a"),
        (7, {}),
    ],
)
async def test_what_does_not_fit_its_schema_is_not_recorded(here: Any, type: Any, payload: Any) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput):
        await run.record(type, payload)
    assert len(await run.events()) == 1


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


async def test_a_payload_as_deep_as_can_be_stored_verifies_and_a_deeper_one_is_refused(here: Any) -> None:
    run = await here.runs.create(objective="o")
    inside = MAX_DEPTH - 2  # the body of the event and the payload are two levels themselves
    await run.record("TOOL_CALL", {"tool_name": "t", "arguments": nested(inside)})
    with pytest.raises(InvalidInput, match="nested"):
        await run.record("TOOL_CALL", {"tool_name": "t", "arguments": nested(inside + 1)})
    assert (await run.verify()).ok


CLAIMS: dict[str, dict[str, Any]] = {
    "RUN_START": {"config": {}},
    "WS_UPDATE_APPLIED": {"new_seq": 1},
    "WS_UPDATE_REJECTED": {"error": "no"},
    "MILESTONE": {"reason": "done"},
    "MEMORY_PROPOSED": {"batch_id": "b"},
    "MEMORY_COMMITTED": {"batch_id": "b", "memory_ids": []},
    "MEMORY_REJECTED": {"batch_id": "b"},
    "SNAPSHOT": {"pack_id": "p", "length": 1, "chain": "0" * 64},
    "RESTORED": {"pack_id": "p", "run_id": "r", "length": 1},
    "FORKED": {"seq": 0, "from_run_id": "r"},
    "ROLLED_BACK": {"to_seq": 0, "new_seq": 1},
    "ERASED": {"reason": "r", "first": 1, "last": 1, "tombstones": [[]]},
    "OWNED": {"user_id": "ana"},
}


@pytest.mark.parametrize("type", CLAIMS)
async def test_what_only_strongroom_does_cannot_be_claimed(here: Any, type: str) -> None:
    run = await here.runs.create(objective="o")
    wanted = r"not by hand; there are STEP_REQUEST, .* begin with custom.; nothing changed"
    with pytest.raises(InvalidInput, match=wanted):
        await run.record(type, CLAIMS[type])
    assert len(await run.events()) == 1


def test_every_type_can_be_recorded_or_is_reserved() -> None:
    assert {*PAYLOADS, *CLAIMS} == {*schemas.parts("ledger_event")} - {"custom_type"}


async def test_a_custom_type_is_checked_by_its_schema(ctx: Any) -> None:
    await _registered(ctx, "custom.deploy", {"type": "object", "required": ["version"]})
    run = await ctx.runs.create(objective="o")
    assert (await run.record("custom.deploy", {"version": "1"})).type == "custom.deploy"
    with pytest.raises(InvalidInput, match="version"):
        await run.record("custom.deploy", {})


@pytest.mark.parametrize(("type", "schema"), [("deploy", {}), ("custom.", {}), ("custom.x", {"type": "nonsense"})])
async def test_a_custom_type_needs_its_prefix_and_a_schema(here: Any, type: str, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await _registered(here, type, schema)


async def test_registering_a_type_returns_it_as_record_takes_it(ctx: Any) -> None:
    deploy = await _registered(ctx, "custom.deploy", {"type": "object"})
    run = await ctx.runs.create(objective="o")
    assert (await run.record(deploy, {})).type == deploy == "custom.deploy"


async def _registered(ctx: Any, type: str, schema: dict[str, Any]) -> Any:
    done = ctx.runs.register_event(type, schema)
    return await done if inspect.isawaitable(done) else done  # over a blocking context everything is seen as awaitable


@pytest.mark.parametrize(
    "types", [["TOOLCALL"], ["TOOL_CALL", "tool_result"], [7], ["custom_type"], ["custom.A b"], "TOOLCALL"]
)
async def test_events_of_a_type_that_there_is_not_are_not_looked_for(ctx: Any, types: Any) -> None:
    run = await ctx.runs.create(objective="o")
    with pytest.raises(InvalidInput, match=r"types: .*(; there are RUN_START, .* begin with custom\.|\^custom)"):
        await run.events(types=types)


@pytest.mark.parametrize("types", [7, b"TOOL_CALL", {"TOOL_CALL": 1}])
async def test_types_that_are_no_list_are_refused(here: Any, types: Any) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput, match=r"types must be a type of events or a list of them, not "):
        await run.events(types=types)


@pytest.mark.parametrize("types", ["TOOL_CALL", ["TOOL_CALL"], {"TOOL_CALL"}])
async def test_events_of_one_type_are_asked_for_with_or_without_a_list(ctx: Any, types: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.record("TOOL_CALL", {"tool_name": "t"})
    await run.record("MODEL_ACTION", {"action": 1})
    assert [event.type for event in await run.events(types=types)] == ["TOOL_CALL"]


def test_events_of_one_type_are_asked_for_over_a_server() -> None:
    with served("memory://") as server, strongroom.connect(server.url, key=server.key()) as ctx:
        run = ctx.runs.create(objective="o")
        run.record("TOOL_CALL", {"tool_name": "t"})
        assert [event.type for event in run.events(types="TOOL_CALL")] == ["TOOL_CALL"]


async def test_events_of_every_type_can_be_looked_for_and_of_one_that_another_process_registered(here: Any) -> None:
    run = await here.runs.create(objective="o")
    found = await run.events(types=[*PAYLOADS, *CLAIMS, "custom.registered-elsewhere"])
    assert [event.type for event in found] == ["RUN_START"]


async def test_a_misspelt_type_is_answered_with_the_one_that_was_meant(here: Any) -> None:
    run = await here.runs.create(objective="o")
    with pytest.raises(InvalidInput, match=r"no event type 'TOOLCALL'; did you mean TOOL_CALL\?; there are"):
        await run.events(types=["TOOLCALL"])


async def test_a_repeated_record_with_the_same_commit_id_is_one_event(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.record("TOOL_CALL", {"tool_name": "t"}, commit_id="c")
    again = await run.record("TOOL_CALL", {"tool_name": "t"}, commit_id="c")
    assert again == first
    assert len(await run.events()) == 2


async def test_events_come_in_pages_and_by_type(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    for place in range(7):
        await run.record(
            "TOOL_CALL" if place % 2 else "MODEL_ACTION", {"tool_name": "t"} if place % 2 else {"action": 1}
        )
    page = await run.events(after=2, limit=3)
    assert [event.sequence_id for event in page] == [3, 4, 5]
    assert page.next == "5"
    calls = await run.events(types=["TOOL_CALL"], limit=2)
    assert [event.sequence_id for event in calls] == [3, 5]
    assert [event.sequence_id for event in await run.events(types=["TOOL_CALL"], after=5)] == [7]


async def test_a_caller_s_payload_is_left_alone(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    payload = {"tool_name": "t", "arguments": {"a": [1]}}
    told = await run.record("TOOL_CALL", payload)
    told.payload["arguments"]["a"].append(2)
    assert payload == {"tool_name": "t", "arguments": {"a": [1]}}
    assert (await run.events())[-1].payload == payload


async def test_a_ledger_verifies_and_its_head_grows_with_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    kept = await run.head()
    await run.update(status="BUSY")
    found = await run.verify(head=kept)
    assert (found.ok, found.checked, found.first_bad) == (True, 2, None)
    assert found.head == await run.head() != kept


async def test_a_head_of_another_ledger_is_caught(ctx: Any) -> None:
    run, other = await ctx.runs.create(objective="o"), await ctx.runs.create(objective="p")
    found = await run.verify(head=await other.head())
    assert (found.ok, found.first_bad) == (False, 1)


async def test_a_head_beyond_the_end_means_the_tail_was_cut(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    found = await run.verify(head=Head(3, "00" * 32))
    assert (found.ok, found.first_bad) == (False, 2)
    assert "ends here" in found.reason


async def test_the_ledger_tells_a_whole_day_in_order(ctx: Any, tmp_path: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    await run.update(status="BUSY")
    with pytest.raises(InvalidInput):
        await run.update(status="ASLEEP")
    await run.milestone("half way")
    await run.export(tmp_path / "pack.zip")
    await run.rollback(0)
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert [event.type for event in await run.events()] == [
        "RUN_START",
        "WS_UPDATE_APPLIED",
        "WS_UPDATE_REJECTED",
        "MILESTONE",
        "SNAPSHOT",
        "WS_UPDATE_APPLIED",
        "ROLLED_BACK",
    ]
    assert [event.type for event in await back.events()][-2:] == ["MILESTONE", "RESTORED"]
    assert (await run.verify()).ok
    assert (await back.verify()).ok


def test_another_service_can_record_in_its_own_commit(store: Store) -> None:
    scope = Scope(Inline(store))
    runs = Runs(AsyncRuns(scope))
    run_handle = runs.create(objective="o", run_id="r")
    told = {"batch_id": "b", "count": 1}
    expects, writes = run(event_writes(scope, "r", "MEMORY_PROPOSED", told, actor="agent-7"))
    store.commit(Commit("c", expects, (*writes, Put(scope.key("other", "thing"), encode(1)))))
    last = run_handle.events()[-1]
    assert (last.type, last.payload, last.actor) == ("MEMORY_PROPOSED", told, "agent-7")
    assert run_handle.verify().ok


@pytest.mark.parametrize(
    ("type", "typed"),
    [
        ("STEP_REQUEST", values.StepRequest),
        ("MODEL_ACTION", values.ModelAction),
        ("TOOL_CALL", values.ToolCall),
        ("TOOL_RESULT", values.ToolResult),
        ("MODEL_UPDATE", values.ModelUpdate),
        ("ERROR", values.ErrorTold),
    ],
)
def test_the_type_of_a_payload_says_what_its_schema_says(type: str, typed: Any) -> None:
    schema = schemas.document("ledger_event")["$defs"][type]
    assert set(get_type_hints(typed)) == set(schema["properties"])
    assert get_type_hints(typed, include_extras=True).keys() - _optional(typed) == set(schema["required"])


def _optional(typed: Any) -> set[str]:
    hints = get_type_hints(typed, include_extras=True)
    return {name for name, hint in hints.items() if get_origin(hint) is NotRequired}


def test_the_names_that_a_type_checker_knows_are_those_of_the_schema() -> None:
    told, _ = get_args(payloads.EventName)
    assert set(get_args(told)) == {*schemas.parts("ledger_event")} - {"custom_type"}


def test_the_fields_of_an_update_are_those_that_can_change() -> None:
    assert set(get_type_hints(values.UpdateFields)) == {*MUTABLE, "state"}
    assert set(get_type_hints(values.ListFields)) == set(get_type_hints(values.Removed)) == {*LISTS}


async def test_a_repeat_of_an_event_that_was_erased_since_says_so(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    await run.record("TOOL_CALL", {"tool_name": "x", "arguments": {}}, commit_id="z")
    await ctx.runs.erase("r", reason="asked", actor="ana")
    with pytest.raises(NotFound, match="erased since"):
        await run.record("TOOL_CALL", {"tool_name": "x", "arguments": {}}, commit_id="z")
