"""What models and tools cost a run, on every store, blocking and async."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import Inline
from strongroom.codec import pack
from strongroom.context import AsyncContext
from strongroom.errors import Damaged, InvalidInput
from strongroom.payloads import EventType, ModelAction
from strongroom.scope import Scope
from strongroom.services.runs import episodes, usage
from strongroom.store import Answer, AnyQuestion, Commit, Delete, Get, Key, Put, Tail
from strongroom.values import ModelUsage, Usage
from tests.turning import raw, turned

ACTION: ModelAction = {
    "action": "answer",
    "model": "m-1",
    "tokens_in": 100,
    "tokens_cached": 80,
    "tokens_out": 20,
    "latency_ms": 12.5,
    "cost": 0.25,
}
TOOL = {"tool_name": "fetch", "ok": False, "latency_ms": 7, "error": "timeout"}


async def test_usage_sums_up_what_events_say(ctx: Any) -> None:
    run = await ctx.runs.create(objective="o")
    assert await run.usage() == Usage()
    await run.record("MODEL_ACTION", ACTION)
    await run.record("MODEL_ACTION", {**ACTION, "model": "m-2", "error": "refused"})
    await run.record("MODEL_ACTION", {"action": "no figures"})
    await run.record("TOOL_RESULT", TOOL)
    await run.record("TOOL_CALL", {"tool_name": "fetch"})
    found = await run.usage()
    assert (found.model_actions, found.tool_results) == (3, 1)
    assert found.total == ModelUsage(
        calls=4, tokens_in=200, tokens_out=40, tokens_cached=160, latency_ms=32, cost=0.5, errors=2
    )
    assert {name: one.errors for name, one in found.models.items()} == {"m-1": 0, "m-2": 1}


@pytest.mark.parametrize("field", ["tokens_in", "tokens_out", "tokens_cached", "latency_ms", "cost"])
async def test_a_figure_that_is_none_is_refused(field: str) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        for junk in (-1, "1", None, True, float("nan")):
            with pytest.raises(InvalidInput):
                run.record(EventType("MODEL_ACTION"), {**ACTION, field: junk})
        with pytest.raises(InvalidInput):
            run.record("MODEL_ACTION", {**ACTION, "model": "two\nlines"})


BOUNDS = {"tokens_in": 2**53, "tokens_out": 2**53, "tokens_cached": 2**53, "latency_ms": 1e12, "cost": 1e9}


@pytest.mark.parametrize("type", ["MODEL_ACTION", "TOOL_RESULT"])
@pytest.mark.parametrize("field", BOUNDS)
def test_a_figure_beyond_all_bounds_is_refused(type: EventType, field: str) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        event = {"action": "a"} if type == "MODEL_ACTION" else {"tool_name": "t", "ok": True}
        run.record(type, {**event, field: BOUNDS[field]})
        with pytest.raises(InvalidInput, match=rf"{field}.*maximum"):
            run.record(type, {**event, field: BOUNDS[field] * 2})
        assert getattr(run.usage().total, field) == BOUNDS[field]


@pytest.mark.parametrize("figure", [{"cost": 1.7e308}, {"latency_ms": 1.7e308}, {"tokens_in": 2**63 - 1}])
def test_sums_of_figures_from_before_there_were_bounds_stay_finite(figure: dict[str, Any]) -> None:
    sums = Usage()
    for _ in range(3):
        sums = usage.told(sums, "MODEL_ACTION", {"action": "a", "model": "m", **figure})
    [name] = figure
    for one in (sums.total, sums.models["m"]):
        assert figure[name] <= getattr(one, name) < float("inf")
    assert msgspec.json.decode(pack(sums), type=Usage) == sums


def test_sums_that_were_kept_as_infinite_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "BLOCK", 4)
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        for _ in range(30):
            run.record("MODEL_ACTION", ACTION)
        before = run.usage()
        broken = pack({"upto": 8, "usage": {"total": {"cost": float("inf")}}})
        ctx.store.commit(Commit("c", (), (Put(Key("default", usage.KIND, "r"), broken),)))
        assert run.usage() == before


async def test_usage_in_a_turn_is_counted(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "BLOCK", 4)
    run = await ctx.runs.create(objective="o")

    def fill(turn: Any) -> None:
        for _ in range(3):
            turn.record(raw(run), "MODEL_ACTION", ACTION)
        turn.update(raw(run), status="BUSY")

    for _ in range(5):
        await turned(ctx, fill)
    assert (await run.usage()).total.calls == 15


async def test_usage_is_one_read_however_long_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "BLOCK", 8)
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        for number in range(100):
            run.record("MODEL_ACTION", ACTION)
            run.update(next_action=f"{number}")
        asked: list[Any] = []
        plain = ctx.store.read

        def seen(questions: Any) -> Any:
            asked.append([*questions])
            return plain(questions)

        ctx.store.read = seen  # type: ignore[method-assign]
        assert run.usage().total.tokens_in == 10_000
        assert asked == [[Get(Key("default", usage.KIND, "r")), Tail(Key("default", "ledger", "r"), 16)]]


def test_sums_that_are_lost_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "BLOCK", 4)
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        for _ in range(30):
            run.record("MODEL_ACTION", ACTION)
        before = run.usage()
        ctx.store.commit(Commit("c", (), (Delete(Key("default", usage.KIND, "r")),)))
        assert run.usage() == before


async def test_a_restored_run_knows_its_usage_and_an_erased_one_has_none(ctx: Any, tmp_path: Any) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    await run.record("MODEL_ACTION", ACTION)
    await run.export(tmp_path / "pack.zip")
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert await back.usage() == await run.usage()
    await ctx.runs.erase("r", reason="asked to")
    assert await run.usage() == Usage()


def test_a_tools_name_that_goes_on_and_on_is_cut_in_the_sums() -> None:
    sums = usage.told(Usage(), "TOOL_RESULT", {"tool_name": "t" * 100_000, "ok": True})
    assert list(sums.tools) == ["t" * usage.LONGEST_NAME]


def test_sums_that_were_kept_before_tools_were_told_apart_are_made_anew() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="x", run_id="r")
        run.record("TOOL_RESULT", {"tool_name": "rows", "ok": True, "latency_ms": 5})
        old = pack({"upto": 2, "usage": {"tool_results": 1, "total": {"calls": 1, "latency_ms": 5}}})
        ctx.store.commit(Commit("c", (), (Put(Key("default", usage.KIND, "r"), old),)))
        assert run.usage().tools["rows"].calls == 1


class Damaging(MemoryStore):
    """Finds damage in the end of whatever is asked for by its end."""

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if any(isinstance(one, Tail) for one in questions):
            raise Damaged("record 3 is not what was written", reason="checksum")
        return super().read(questions)


def test_an_event_is_recorded_though_the_sums_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "BLOCK", 4)
    with strongroom.Context(AsyncContext(Scope(Inline(Damaging())))) as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        assert [run.record("MODEL_ACTION", ACTION).sequence_id for _ in range(8)] == [*range(2, 10)]
        assert run.update(status="BUSY").status == "BUSY"


def test_an_update_is_made_though_the_milestone_that_is_due_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> bool:
        raise Damaged("episode 1 is not what was written", reason="checksum")

    monkeypatch.setattr(episodes, "make_if_due", broken)
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o", config={"milestone_step_cap": 1})
        assert run.update(status="BUSY").status == "BUSY"
