"""Typical user code: a type checker finds nothing wrong with it, and knows what everything is."""

from __future__ import annotations

from typing import Any, assert_type

import strongroom
from strongroom import (
    AsyncContext,
    AsyncRun,
    AsyncTurn,
    Brief,
    Context,
    Embedder,
    EventType,
    File,
    Listing,
    MemoryHit,
    MessageHit,
    Policy,
    Run,
    Session,
    Status,
    ToolCall,
    Turn,
    UpdateFields,
    Verification,
)


def work(ctx: Context) -> None:
    run = ctx.runs.create(objective="Build a scraper", constraints=["be polite"])
    assert_type(run, Run)
    assert_type(run.seq, int)
    state = run.update(expected_seq=0, status="BUSY", next_action="fetch page 1")
    assert_type(state.status, Status)
    fields: UpdateFields = {"status": "BUSY", "blockers": ["429s"]}
    assert_type(run.update(**fields), strongroom.WorkingSet)
    run.update(blockers=("429s",), append={"constraints": ["slowly"]})
    run.update_with(lambda ws: {"blockers": [*ws.blockers, "429s"]})
    run.update_with(decide)
    run.update_with(lambda ws: None)
    run.update_with(lambda ws: {} if ws.status == "DONE" else {"status": "BUSY"})
    event = run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"url": "https://example.com"}})
    assert_type(event, strongroom.Event)
    call: ToolCall = {"tool_name": "fetch", "arguments": {"url": "/"}}
    run.record("TOOL_CALL", call)
    deploy = ctx.runs.register_event("custom.deploy", {"type": "object", "required": ["version"]})
    assert_type(deploy, EventType)
    run.record(deploy, {"version": 1})
    run.record("STEP_REQUEST", {"ws_seq": run.seq})
    run.record("MODEL_ACTION", {"action": "call fetch", "model": "m-1", "tokens_in": 900, "cost": 0.004})
    run.record("TOOL_RESULT", {"tool_name": "fetch", "ok": True, "latency_ms": 30}, parent=event.event_id)
    run.record("MODEL_UPDATE", {"expected_seq": 0, "ws_patch": {"status": "BUSY"}}, actor="agent-7")
    run.record("ERROR", {"error_type": "HTTPError", "message": "429"}, commit_id="turn-7")
    run.update(append={"blockers": ["429s"], "pinned_context": [{"id": "p", "content": "c", "source_ref": ""}]})
    run.update(remove={"blockers": ["429s"], "pinned_context": ["p"]})
    with ctx.turn() as turn:
        turn.record(run, "ERROR", {"error_type": "HTTPError", "message": "429"}, actor="agent-7")
        turn.record(run, deploy, {"version": 2})
        turn.update(run, append={"blockers": ["429s"]})
    assert_type(ctx.turn_with(count), int | None)
    assert_type(ctx.turn_with(lambda turn: run.seq, commit_id="c"), int | None)
    ctx.turn_with(write)
    ctx.turn_with(lambda turn: turn.update(run, status="BUSY"))
    ctx.prompt(run=run, max_tokens=1000, shares={"conversation": 0.4, "memories": 0.3}, format="anthropic")
    run.events(types=["TOOL_CALL", "WS_UPDATE_APPLIED", deploy])
    run.events(types="TOOL_CALL")
    run.events(types=deploy)
    page = run.events(limit=10)
    assert_type(page, Listing[strongroom.Event])
    for each in run.events(after=page.next):
        print(each.sequence_id, each.payload)
    assert_type(ctx.runs.open("r", objective="Build a scraper"), Run)
    assert_type(run.verify(), Verification)
    assert_type(run.verify().ok, bool)
    assert_type(run.brief(), Brief)
    assert_type(ctx.files.read("/notes/a.txt"), File)
    assert_type(run.milestone("done"), strongroom.Episode)
    for found in ctx.runs.list(status="DONE"):
        assert_type(found, Run)


def decide(ws: strongroom.WorkingSet) -> UpdateFields | None:
    if ws.status == "DONE":
        return None
    return {"status": "BUSY", "state": {"tries": 1}}


async def decide_slowly(ws: strongroom.WorkingSet) -> UpdateFields | None:
    return decide(ws)


def count(turn: Turn) -> int:
    turn.send("audit", "counted", from_id="agent-7")
    return 7


def write(turn: Turn) -> None:
    turn.send("audit", "written", from_id="agent-7")


async def count_slowly(turn: AsyncTurn) -> int:
    turn.send("audit", "counted", from_id="agent-7")
    return 7


async def write_slowly(turn: AsyncTurn) -> None:
    turn.send("audit", await count_slowly(turn), from_id="agent-7")


def decide_at_once(turn: AsyncTurn) -> str:
    return "yes"


def write_at_once(turn: AsyncTurn) -> None:
    turn.send("audit", "written", from_id="agent-7")


def pass_on(run: Run, type: str, payload: dict[str, Any]) -> None:
    """What a framework gave, known when the program runs."""
    run.record(EventType(type), payload)
    run.events(types=[EventType(type)])


def talk(ctx: Context) -> str:
    session = ctx.sessions.open("support-7", title="Help")
    assert_type(session, Session)
    assert_type(session.tokenizer, strongroom.Tokenizer)
    session.append({"role": "user", "content": "My scraper gets HTTP 429."})
    session.append([{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Slow down."}])
    said: list[MessageHit] = session.search("scraper")
    print([hit.message["content"] for hit in said])
    window = session.window(max_tokens=4000)
    assert_type(window, strongroom.Window)
    assert_type(window.total_tokens, int)
    assert_type(strongroom.fit({"role": "user", "content": "Hello?"}, 100), strongroom.Window)
    return "\n".join(str(message["content"]) for message in window.messages)


def remember(ctx: Context) -> None:
    batch = ctx.memories.propose(
        [
            {
                "op": "add",
                "type": "fact",
                "scope": "global",
                "confidence": 0.9,
                "source_refs": [],
                "content": "example.com allows one request a second",
                "rationale": "its robots.txt says so",
            }
        ],
        proposer="agent-7",
    )
    assert_type(batch, strongroom.Batch)
    ctx.memories.commit(batch.id, reviewer="ana")
    careful = ctx.memories.using(policy=Policy(reviewers=frozenset({"ana"})), embedder=Embedder(embed, name="toy"))
    for hit in careful.search("request rate", k=3, scope="global"):
        assert_type(hit, MemoryHit)
        assert_type(hit.memory, strongroom.Memory)
        assert_type(hit.score, float)


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0] for _ in texts]


def send(ctx: Context) -> None:
    slot = ctx.threads.append("t1", {"text": "hello"}, from_id="a", to_id="b")
    assert_type(slot, strongroom.Slot)
    for each in ctx.threads.get("t1"):
        print(each.index, each.payload)


def main() -> None:
    with strongroom.open("agent.db", space="acme", durability="relaxed", timeout_seconds=5) as ctx:
        assert_type(ctx, Context)
        work(ctx)
        talk(ctx)
        remember(ctx)
        send(ctx)
    try:
        strongroom.open("memory://").runs.get("nothing")
    except strongroom.NotFound as missing:
        print(missing.kind, missing.id)
    except strongroom.Conflict as conflict:
        assert_type(conflict.expected, int)


async def amain() -> None:
    async with strongroom.aopen("agent.db", max_record_bytes=1000) as ctx:
        assert_type(ctx, AsyncContext)
        run = await ctx.runs.create(objective="Build a scraper")
        assert_type(run, AsyncRun)
        await run.update(status="BUSY")
        await run.update_with(decide)
        await run.update_with(decide_slowly)
        await run.update_with(lambda ws: {"blockers": [*ws.blockers, "429s"]})
        assert_type(await run.record("TOOL_CALL", {"tool_name": "fetch"}), strongroom.Event)
        async with ctx.turn() as turn:
            turn.record(run, "TOOL_RESULT", {"tool_name": "fetch", "ok": True})
        assert_type(await ctx.turn_with(count_slowly), int | None)
        assert_type(await ctx.turn_with(decide_at_once, commit_id="c"), str | None)
        counted = await ctx.turn_with(count_slowly) or 0
        assert_type(counted, int)
        await ctx.turn_with(write_slowly)
        await ctx.turn_with(write_at_once)
        await ctx.turn_with(lambda turn: turn.update(run, status="BUSY"))
        session = await ctx.sessions.open("support-7")
        await session.append({"role": "user", "content": "Hello?"})
        print((await session.window(max_tokens=100)).messages)
    again = await strongroom.aopen("redis://localhost", prefix="x", require_durable=True)
    assert_type(again, AsyncContext)
    await again.close()
    async with strongroom.aconnect("http://127.0.0.1:8000", key="srk_x") as remote:
        assert_type(remote, AsyncContext)
