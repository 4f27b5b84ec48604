"""Typical mistakes: every line that is marked is red in an editor, with mypy and with pyright.

Under `--strict` an ignored error that does not occur is an error itself, so this file checks itself; the test also
strips the comments and wants to see every one of the errors, and no other.
"""

from __future__ import annotations

from collections.abc import Sequence

import strongroom
from strongroom import (
    AsyncTurn,
    Context,
    Event,
    MemoryRequest,
    Policy,
    ToolCall,
    ToolResult,
    Turn,
    UpdateFields,
    WorkingSet,
)


def opening() -> None:
    strongroom.open("agent.db", durabilty="relaxed")  # type: ignore[call-arg]
    strongroom.open("agent.db", durability="full")  # type: ignore[arg-type]
    strongroom.open("agent.db", timeout_seconds="soon")  # type: ignore[arg-type]
    strongroom.open("agent.db", "acme")  # type: ignore[call-arg]
    strongroom.open(3)  # type: ignore[arg-type]
    strongroom.aopen("agent.db", spaces="acme")  # type: ignore[call-arg]
    strongroom.connect("http://127.0.0.1:8000", token="srk_x")  # type: ignore[call-arg]
    strongroom.opn("agent.db")  # type: ignore[attr-defined]


def working(ctx: Context) -> None:
    ctx.runs.create()  # type: ignore[call-arg]
    ctx.runs.create(objective=3)  # type: ignore[arg-type]
    ctx.runs.create(objective="x", constraints=[1])  # type: ignore[list-item]
    ctx.runs.list(status="DOEN")  # type: ignore[arg-type]
    run = ctx.runs.get("r")
    run.update(expected_seq="0")  # type: ignore[arg-type]
    run.update(stauts="BUSY")  # type: ignore[call-arg]
    run.update(status="ASLEEP")  # type: ignore[arg-type]
    run.update(blockers=[1])  # type: ignore[list-item]
    run.update(objective="another")  # type: ignore[call-arg]
    call: ToolCall = {"tool_name": "fetch", "args": 1}  # type: ignore[typeddict-unknown-key]
    result: ToolResult = {"tool_name": "fetch", "ok": "yes"}  # type: ignore[typeddict-item]
    run.record("TOOL_CALL", [call, result])  # type: ignore[call-overload]
    run.events(after=1.5)  # type: ignore[arg-type]
    ctx.runs.open(objective="o")  # type: ignore[call-arg]
    run.status  # type: ignore[attr-defined]
    run.working_set.stauts  # type: ignore[attr-defined]
    run.working_set.status = "BUSY"  # type: ignore[misc]
    run.record("TOOL_CALL")  # type: ignore[call-overload]
    run.record("TOOLCALL", {"tool_name": "x"})  # type: ignore[call-overload]
    run.record("TOOL_CALL", {"tool": "x"})  # type: ignore[call-overload]
    run.record("TOOL_RESULT", {"tool_name": "x", "ok": "yes"})  # type: ignore[call-overload]
    run.record("ERROR", {"error": "x"})  # type: ignore[call-overload]
    run.record("MODEL_ACTION", {"tokens_in": 9})  # type: ignore[call-overload]
    run.record("STEP_REQUEST", {"ws_seq": "0"})  # type: ignore[call-overload]
    run.record("MODEL_UPDATE", {"patch": {}})  # type: ignore[call-overload]
    run.record("MILESTONE", {"reason": "x"})  # type: ignore[call-overload]
    run.record("TOOL_CALL", {"tool_name": "x"}, acter="a")  # type: ignore[call-overload]
    run.events(types=["TOOLCALL"])  # type: ignore[list-item]
    run.events(types="TOOLCALL")  # type: ignore[arg-type]
    run.update_with(lambda ws: {"stauts": "BUSY"})  # type: ignore[arg-type, return-value]
    run.update_with(lambda ws: {"status": "BUZY"})  # type: ignore[arg-type, return-value]
    run.update_with(decides)  # type: ignore[arg-type]
    run.milestone(summarizer=summarizes)  # type: ignore[arg-type]
    run.update(append={"blocker": ["429s"]})  # type: ignore[arg-type]
    run.update(append={"blockers": [1]})  # type: ignore[arg-type]
    run.update(remove={"blocker": ["429s"]})  # type: ignore[arg-type]
    ctx.prompt(max_tokens=100, shares={"memory": 0.3})  # type: ignore[arg-type]
    with ctx.turn() as turn:
        turn.record(run, "TOOLCALL", {})  # type: ignore[call-overload]
        turn.record(run, "TOOL_CALL", {"tool": "x"})  # type: ignore[call-overload]
        turn.update(run, append={"blocker": ["429s"]})  # type: ignore[arg-type]
    ctx.turn_with(takes_nothing)  # type: ignore[arg-type]
    ctx.turn_with(turns_slowly)  # type: ignore[arg-type]
    wrong: str | None = ctx.turn_with(turns)  # type: ignore[assignment]
    ctx.turn_with(turns, commit=wrong)  # type: ignore[call-arg]
    run.milestone(memory_batch=3)  # type: ignore[call-arg]
    run.brief(tokens=10)  # type: ignore[call-arg]


async def decides(ws: WorkingSet) -> UpdateFields:
    return {"status": ws.status}


async def summarizes(events: Sequence[Event]) -> str:
    return f"{len(events)} events"


def turns(turn: Turn) -> int:
    return 1


async def turns_slowly(turn: AsyncTurn) -> int:
    return 1


def takes_nothing() -> int:
    return 1


def talking(ctx: Context) -> None:
    session = ctx.sessions.open("s")
    session.window(max_tokens="4000")  # type: ignore[arg-type]
    session.window(max_tokens=4000, strategy="newest")  # type: ignore[arg-type]
    session.search("x", k="3")  # type: ignore[arg-type]
    session.messages  # type: ignore[attr-defined]
    session.append({"role": "user", "contents": "x"})  # type: ignore[arg-type]
    session.append({})  # type: ignore[arg-type]


def remembering(ctx: Context, request: MemoryRequest) -> None:
    ctx.memories.propose([])  # type: ignore[call-arg]
    short: MemoryRequest = {"op": "add"}  # type: ignore[typeddict-item]
    misspelt: MemoryRequest = {**request, "op": "addd"}  # type: ignore[typeddict-item]
    unknown: MemoryRequest = {**request, "colour": "red"}  # type: ignore[typeddict-unknown-key]
    ctx.memories.propose([short, misspelt, unknown], proposer=7)  # type: ignore[arg-type]
    ctx.memories.commit("batch")  # type: ignore[call-arg]
    ctx.memories.search("x", scope="everybody")  # type: ignore[arg-type]
    ctx.memories.search("x", user="u1")  # type: ignore[call-arg]
    ctx.memories.search("x", mode="fuzzy")  # type: ignore[arg-type]
    Policy(reviewer=frozenset({"ana"}))  # type: ignore[call-arg]


def sending(ctx: Context) -> None:
    ctx.threads.append("t1", {"text": "hello"})  # type: ignore[call-arg]


async def awaiting() -> None:
    async with strongroom.aopen("agent.db") as ctx:
        ctx.runs.create(objective="x")  # type: ignore[unused-coroutine]
        run = ctx.runs.get("r")
        await run.update(status="BUSY")  # type: ignore[attr-defined]
        found = await ctx.runs.get("r")
        await found.update(stauts="BUSY")  # type: ignore[call-arg]
        await found.update_with(lambda ws: {"stauts": "BUSY"})  # type: ignore[arg-type, return-value]
        await found.record("TOOLCALL", {"tool_name": "x"})  # type: ignore[call-overload]
        await found.record("TOOL_CALL", {"tool": "x"})  # type: ignore[call-overload]
        async with ctx.turn() as turn:
            turn.record(found, "TOOL_CALL", {"tool": "x"})  # type: ignore[call-overload]
        wrong: str | None = await ctx.turn_with(turns_slowly)  # type: ignore[arg-type]
        ctx.turn_with(turns_slowly, commit_id=wrong)  # type: ignore[unused-coroutine]
        await ctx.turn_with(turns)  # type: ignore[arg-type]
        await ctx.turn_with(takes_nothing)  # type: ignore[arg-type]
        (await ctx.sessions.open("s")).append([])  # type: ignore[unused-coroutine]
    opened = strongroom.aopen("agent.db")
    await opened.runs.get("r")  # type: ignore[attr-defined]
    with strongroom.aopen("agent.db"):  # type: ignore[attr-defined]
        pass
