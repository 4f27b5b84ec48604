"""A run's own state: JSON or a type of the user's, in everything that a run remembers."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

import strongroom
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput
from tests.server.serving import served
from tests.services.pack_files import contents, mended, write
from tests.turning import raw, turned


async def test_no_state_and_an_empty_one_are_told_apart(ctx: Any) -> None:
    assert (await ctx.runs.create(objective="o")).state is None
    assert (await ctx.runs.create(objective="o", state={})).state == {}


async def test_a_run_begins_with_its_state(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"ticket": "T-1", "n": 1})
    assert run.state == {"ticket": "T-1", "n": 1}
    assert (await ctx.runs.get(run.id)).state == run.state
    assert (await run.verify()).ok


async def test_a_run_without_a_state_has_none(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    assert run.state is None and run.working_set.state is None


async def test_an_update_replaces_it_or_merges_into_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"a": 1, "b": {"c": 1, "d": 2}})
    await run.update(state_patch={"b": {"c": None, "e": 3}, "f": [1]})
    assert run.state == {"a": 1, "b": {"d": 2, "e": 3}, "f": [1]}
    await run.update(state={"only": True})
    assert run.state == {"only": True}
    await run.update(state=None)
    assert run.state is None
    assert (await run.verify()).ok


async def test_editing_what_a_handle_shows_changes_nothing(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={})
    await run.update(state={"a": {"b": 1}})
    run.state["a"]["b"] = 99
    await run.update(status="BUSY")
    assert (await ctx.runs.get(run.id)).state == {"a": {"b": 1}}
    assert (await run.verify()).ok


@pytest.mark.parametrize("change", [{"state": {"b": 2}}, {"state_patch": {"b": 2}}], ids=["replaced", "patched"])
async def test_a_stale_state_is_refused(ctx: Any, change: dict[str, Any]) -> None:
    run = await ctx.runs.create(objective="o", state={})
    stale = await ctx.runs.get(run.id)
    await run.update(state_patch={"a": 1})
    with pytest.raises(Conflict):
        await stale.update(**change)
    with pytest.raises(Conflict):
        await turned(ctx, lambda turn: turn.update(raw(stale), **change))
    assert (await ctx.runs.get(run.id)).state == {"a": 1}


async def test_an_edit_of_a_list_commutes_but_not_beside_a_patch(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={})
    stale = await ctx.runs.get(run.id)
    await run.update(state_patch={"a": 1})
    with pytest.raises(Conflict):
        await stale.update(append={"blockers": ["b"]}, state_patch={"b": 2})
    await stale.update(append={"blockers": ["b"]})
    assert (stale.state, stale.working_set.blockers) == ({"a": 1}, ("b",))


async def test_update_with_sees_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"n": 1})
    await run.update_with(lambda ws: {"state": {"n": ws.state["n"] + 1}})
    assert run.state == {"n": 2}


async def test_time_travel_diff_rollback_and_fork_know_it(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    await run.update(state={"n": 1})
    await run.update(state={"n": True}, status="BUSY")
    assert [(await run.at(seq)).state for seq in range(3)] == [None, {"n": 1}, {"n": True}]
    [change] = (await run.diff(0, 1)).changes
    assert (change.field, change.before, change.after) == ("state", None, {"n": 1})
    assert {change.field for change in (await run.diff(1, 2)).changes} == {"state", "status"}
    assert (await run.fork(1)).state == {"n": 1}
    await run.rollback(1)
    assert run.state == {"n": 1} and type(run.state["n"]) is int
    await run.rollback(0)
    assert run.state is None
    assert (await run.verify()).ok


async def test_it_is_part_of_a_turn(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"a": 1})

    def fill(turn: Any) -> None:
        turn.update(raw(run), status="BUSY", state={"a": 2})
        turn.update(raw(run), state_patch={"b": 3})

    await turned(ctx, fill)
    assert run.state == {"a": 2, "b": 3}


async def test_it_comes_back_from_a_pack(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="o", state={"ticket": "T-1"})
    await run.update(state_patch={"n": 1.5})
    await run.milestone("m")
    await run.export(tmp_path / "pack.zip")
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert back.state == {"ticket": "T-1", "n": 1.5} and (await back.at(0)).state == {"ticket": "T-1"}
    assert (await back.verify()).ok


async def test_the_v21_json_is_what_it_was(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"a": 1})
    assert "state" not in run.working_set.to_dict()
    made = await run.milestone("m")
    assert "state" not in made.to_dict()["ws_after"]


async def test_erasure_takes_it_away(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r", state={"secret": "s"})
    await ctx.runs.erase("r", reason="asked to")
    assert (await ctx.runs.get("r")).state is None
    assert (await run.verify()).ok


async def test_it_has_a_budget_of_its_own(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", config={"state_max_bytes": 20})
    await run.update(state={"a": "x" * 10})
    with pytest.raises(BudgetExceeded, match="the state takes 21 bytes, and may take 20"):
        await run.update(state={"a": "x" * 13})
    with pytest.raises(BudgetExceeded):
        await run.update(state_patch={"b": "x" * 10})
    assert run.state == {"a": "x" * 10}


async def test_the_brief_shows_it_on_request(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", state={"ticket": "T-1"})
    assert "T-1" not in (await run.brief()).text
    shown = await run.brief(state=True)
    assert '## 8. State\n{"ticket":"T-1"}\n' in shown.text
    short = (await run.brief()).total_tokens
    small = await run.brief(short, state=True)
    assert [one.id for one in small.receipt.left_out] == ["state"]


@pytest.mark.parametrize("junk", [[], "text", 7, {"a": object()}, {1: 2}, {"a": float("nan")}, object()])
async def test_what_is_no_json_object_is_refused(junk: Any) -> None:
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput):
            ctx.runs.create(objective="o", state=junk)
        run = ctx.runs.create(objective="o")
        with pytest.raises(InvalidInput):
            run.update(state=junk)
        assert run.seq == 0


# ---- types ----------------------------------------------------------------------------------------------------------


class Ticket(msgspec.Struct):
    id: str
    tries: int = 0


@dataclass
class Order:
    id: str
    tries: int = 0


def model() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Model", id=(str, ...), tries=(int, 0))


@pytest.mark.parametrize("kind", [Ticket, Order, None], ids=["struct", "dataclass", "pydantic"])
def test_a_state_comes_back_as_its_type(kind: Any) -> None:
    made = kind or model()
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=made(id="T-1"))
        assert run.state == made(id="T-1") and type(run.state) is made
        run.update(state=made(id="T-1", tries=2))
        run.update(state_patch={"tries": 3})
        assert run.state.tries == 3
        assert type(ctx.runs.get("r", state_type=made).state) is made
        assert ctx.runs.get("r").state == {"id": "T-1", "tries": 3}
        assert ctx.runs.open("r", objective="o", state=made(id="unused")).state.id == "T-1"
        assert type(run.fork().state) is made


@pytest.mark.parametrize("kind", [Ticket, Order, None], ids=["struct", "dataclass", "pydantic"])
def test_opening_a_run_names_the_type_of_its_state(kind: Any) -> None:
    made = kind or model()
    with strongroom.open("memory://") as ctx:
        new = ctx.runs.open("r", objective="o", state={"id": "T-1"}, state_type=made)
        found = ctx.runs.open("r", objective="o", state_type=made)
        assert new.state == found.state == made(id="T-1") and type(found.state) is made


def test_a_state_that_does_not_fit_the_named_type_begins_no_run() -> None:
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="does not fit Ticket"):
            ctx.runs.open("r", objective="o", state={"something": "else"}, state_type=Ticket)
        assert not ctx.runs.list()


@pytest.mark.parametrize("kind", [Ticket, Order, None], ids=["struct", "dataclass", "pydantic"])
def test_a_state_that_does_not_fit_its_type_is_refused(kind: Any) -> None:
    made = kind or model()
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=made(id="T-1"))
        with pytest.raises(InvalidInput, match="does not fit"):
            run.update(state={"id": [1]})
        assert run.seq == 0
        other = ctx.runs.create(objective="o", state={"something": "else"})
        with pytest.raises(InvalidInput, match="does not fit"):
            _ = ctx.runs.get(other.id, state_type=made).state


@pytest.mark.parametrize("kind", [Ticket, Order, None], ids=["struct", "dataclass", "pydantic"])
@pytest.mark.parametrize("patch", [{"tries": "oops"}, {"id": None}])
def test_a_patch_after_which_a_state_would_not_fit_its_type_is_refused(kind: Any, patch: Any) -> None:
    made = kind or model()
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=made(id="T-1"))
        with pytest.raises(InvalidInput, match=r"(?s)^state: the state does not fit .*; nothing changed$"):
            run.update(state_patch=patch)
        assert run.state == made(id="T-1") and ctx.runs.get("r").seq == 0


async def test_a_patch_that_does_not_fit_is_refused_alone_and_in_a_turn(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r", state=Ticket("T-1"))
    with pytest.raises(InvalidInput, match="does not fit Ticket"):
        await run.update(state_patch={"tries": "oops"})
    with pytest.raises(InvalidInput, match="does not fit Ticket"):
        await turned(ctx, lambda turn: turn.update(raw(run), state_patch={"id": None}))
    assert (await ctx.runs.get("r")).seq == 0


def test_over_http_a_patch_that_does_not_fit_is_refused() -> None:
    with served("memory://") as server, strongroom.connect(server.url, key=server.key()) as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=Ticket("T-1"))
        with pytest.raises(InvalidInput, match="does not fit Ticket"):
            run.update(state_patch={"tries": "oops"})
        with pytest.raises(InvalidInput, match="does not fit Ticket"), ctx.turn() as turn:
            turn.update(run, state_patch={"id": None})
        with pytest.raises(InvalidInput, match="does not fit Ticket"):
            ctx.turn_with(lambda turn: turn.update(run, state_patch={"id": None}))
        assert ctx.runs.get("r").seq == 0


def test_parts_of_a_turn_over_http_are_looked_at_together() -> None:
    with served("memory://") as server, strongroom.connect(server.url, key=server.key()) as ctx:
        ctx.runs.create(objective="o", run_id="r")
        run = ctx.runs.get("r", state_type=Ticket)
        with ctx.turn() as turn:
            turn.update(run, state=Ticket("T-1"))
            turn.update(run, state_patch={"tries": 1})
        assert run.state == Ticket("T-1", 1)


TIRES = (
    r"^state: the state does not fit \w+: there is no field 'tires', did you mean tries\? the fields are id, tries; "
)


@pytest.mark.parametrize("kind", [Ticket, Order, None], ids=["struct", "dataclass", "pydantic"])
def test_a_patch_that_names_what_the_type_does_not_have_is_refused(kind: Any) -> None:
    made = kind or model()
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=made(id="T-1"))
        with pytest.raises(InvalidInput, match=rf"{TIRES}nothing changed$"):
            run.update(state_patch={"tires": 2})
        with pytest.raises(InvalidInput, match=TIRES), ctx.turn() as turn:
            turn.update(run, state_patch={"tires": None})
        assert (ctx.runs.get("r").state, ctx.runs.get("r").seq) == ({"id": "T-1", "tries": 0}, 0)


def test_over_http_a_patch_that_names_what_the_type_does_not_have_is_refused() -> None:
    with served("memory://") as server, strongroom.connect(server.url, key=server.key()) as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=Ticket("T-1"))
        with pytest.raises(InvalidInput, match=TIRES):
            run.update(state_patch={"tires": 2})
        with pytest.raises(InvalidInput, match=TIRES), ctx.turn() as turn:
            turn.update(run, state_patch={"tires": 2})
        assert ctx.runs.get("r").seq == 0


class Nested(msgspec.Struct, rename="camel", tag_field="kind", tag="nested"):
    first_ticket: Ticket | None = None
    orders: dict[str, Order] = {}
    said: Annotated[dict[str, Any], msgspec.Meta(description="anything")] = {}


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ({"first_ticket": {}}, "no field 'first_ticket', did you mean firstTicket?"),
        ({"firstTicket": {"id": "T-1", "tires": 1}}, "in firstTicket, there is no field 'tires', did you mean tries?"),
        ({"firstTicket": {"id": "T-1", "tries": 1}, "said": {"anything": {"goes": 1}}, "kind": "nested"}, ""),
        ({"orders": {"a name of any kind": {"id": "O-1"}}}, ""),
    ],
)
def test_the_names_of_a_patch_are_looked_at_as_deep_as_the_type_tells(patch: Any, wrong: str) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", state=Nested())
        with pytest.raises(InvalidInput, match=re.escape(wrong)) if wrong else nullcontext():
            run.update(state_patch=patch)


def extras(kind: str) -> Any:
    """A type that allows members which it does not name."""
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(extra="allow")
    made = {"model": pydantic.create_model("Model", __config__=config, id=(str, ...)), "mapping": dict, "named": Loose}
    return made[kind]


class Loose(TypedDict, total=False):
    id: str


@pytest.mark.parametrize("kind", ["model", "mapping", "named"])
def test_a_type_that_allows_more_refuses_no_name(kind: str) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", state={"id": "T-1"})
        ctx.runs.get("r", state_type=extras(kind)).update(state_patch={"mood": "calm"})
        assert ctx.runs.get("r").state == {"id": "T-1", "mood": "calm"}


def test_a_name_that_a_model_takes_by_another_one_is_no_wrong_one() -> None:
    pydantic = pytest.importorskip("pydantic")
    either = pydantic.Field(0, validation_alias=pydantic.AliasChoices("tries", "attempts"))
    made = pydantic.create_model("Model", tries=(int, either))
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", state=made())
        run.update(state_patch={"attempts": 2, "tries": None})
        assert run.state.tries == 2


def test_what_the_type_no_longer_has_can_be_taken_away() -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", state={"id": "T-1", "mood": "calm"})
        run = ctx.runs.get("r", state_type=Ticket)
        run.update(state_patch={"mood": None})
        assert ctx.runs.get("r").state == {"id": "T-1"}


@pytest.mark.parametrize("wrong", ["Ticket", Ticket("T-1"), 7])
async def test_what_is_no_type_is_refused_at_once(ctx: Any, wrong: Any) -> None:
    await ctx.runs.create(objective="o", run_id="r", state={"id": "T-1"})
    told = r"^state_type must be a class .* or None, not "
    with pytest.raises(InvalidInput, match=told):
        await ctx.runs.get("r", state_type=wrong)
    with pytest.raises(InvalidInput, match=told):
        await ctx.runs.open("new", objective="o", state_type=wrong)
    assert len(await ctx.runs.list()) == 1


@pytest.mark.parametrize("kind", ["JSON", "struct", "dataclass", "pydantic"])
def test_what_was_edited_in_place_is_stored_when_it_is_given_back(kind: str) -> None:
    made: Any = {"JSON": dict, "struct": Ticket, "dataclass": Order}.get(kind) or model()
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=made(id="T-1", tries=0))
        assert run.state is run.state
        if kind == "JSON":
            run.state["tries"] += 1
        else:
            run.state.tries += 1
        assert ctx.runs.get("r").state["tries"] == 0
        run.update(state=run.state)
        assert ctx.runs.get("r").state["tries"] == 1


@pytest.mark.parametrize("again", [lambda run: run.refresh(), lambda run: run.update(status="BUSY")])
def test_what_was_edited_in_place_is_forgotten_when_another_version_is_seen(again: Any) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r", state=Ticket("T-1"))
        run.state.tries = 9
        again(run)
        assert run.state == Ticket("T-1", 0)


def test_an_instance_that_does_not_fit_its_own_type_begins_no_run() -> None:
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="does not fit Ticket"):
            ctx.runs.create(objective="o", state=Ticket(7))  # type: ignore[arg-type]
        assert not ctx.runs.list()


def test_an_error_on_a_read_does_not_speak_of_changes() -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", state={"something": "else"})
        with pytest.raises(InvalidInput, match="does not fit") as refused:
            _ = ctx.runs.get("r", state_type=Ticket).state
        assert "changed" not in str(refused.value)


def test_an_unknown_field_is_told_all_that_an_update_takes() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        with pytest.raises(InvalidInput, match="state, state_patch, append, remove; nothing changed"):
            run.update(zzz=1)  # type: ignore[call-arg]


def test_a_pack_whose_state_was_changed_is_refused(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", state={"n": 1}).export(tmp_path / "pack.zip")
        lies = mended({**contents(tmp_path / "pack.zip"), "state.json": b'{"n":true}'})
        write(tmp_path / "lies.zip", lies)
        with pytest.raises(InvalidInput, match="refused"):
            ctx.runs.restore(tmp_path / "lies.zip", run_id="back")
        assert len(ctx.runs.list()) == 1
