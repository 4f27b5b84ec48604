"""The tools: who sees which, what they say of themselves, and what they do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema_rs import Draft202012Validator

import strongroom
from strongroom import AsyncContext
from strongroom.errors import CommitUnknown
from strongroom.mcp.principals import PROFILE_OF_ROLE, PROFILES
from strongroom.mcp.tools import TOOLS
from strongroom.server.keys import Role
from tests.mcp.conftest import Connect, assistant, call, known, mcp, refused

AGENT = {
    "memory_search", "memory_get", "memory_propose", "memory_status",
    "session_append", "session_window", "session_search",
    "run_list", "run_get", "run_start", "run_update", "run_record",
    "files_view", "files_edit",
    "search", "fetch",
}  # fmt: skip
WRITES = {"memory_propose", "session_append", "run_start", "run_update", "run_record", "files_edit"}
REVIEW = {"memory_pending", "memory_decide", "memory_revoke"}
SHOWN = {"agent": AGENT, "reviewer": AGENT - WRITES | REVIEW, "reader": AGENT - WRITES}
PROPOSAL = {"content": "example.com allows one request a second", "rationale": "robots.txt says so"}


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_sees_its_own_tools_and_no_others(connect: Connect, profile: Any) -> None:
    async with connect(profile) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == SHOWN[profile]


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_tool_of_another_profile_does_not_exist(connect: Connect, profile: Any) -> None:
    async with connect(profile) as client:
        for name in {tool.name for tool in TOOLS} - SHOWN[profile]:
            with pytest.raises(mcp.MCPError, match="Unknown tool"):
                await client.call_tool(name, {})


def test_no_profile_both_proposes_and_decides() -> None:
    for profile in PROFILES:
        assert not {"memory_propose", "memory_decide"} <= SHOWN[profile]


def test_every_role_of_a_key_has_one_profile() -> None:
    assert set(PROFILE_OF_ROLE) == set(get_args(Role))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_says_what_it_does_takes_and_gives(tool: Any) -> None:
    listed = tool.listed()
    hints = listed.annotations
    assert len(listed.description) > 50 and listed.title
    assert hints.read_only_hint == (tool.name not in WRITES | REVIEW - {"memory_pending"})
    assert hints.destructive_hint == (tool.name in {"run_update", "files_edit", "memory_decide", "memory_revoke"})
    assert hints.open_world_hint is False
    for schema in (listed.input_schema, listed.output_schema):
        Draft202012Validator(schema)
        assert schema["type"] == "object" and "$ref" not in json.dumps(schema)
    assert listed.input_schema["additionalProperties"] is False


async def test_memories_are_proposed_found_after_approval_and_looked_at(ctx: AsyncContext, connect: Connect) -> None:
    async with connect() as client:
        batch = (await call(client, "memory_propose", items=[PROPOSAL]))["batch"]
        assert (await call(client, "memory_search", query="request rate"))["hits"] == []
        done = await ctx.memories.commit(batch["batch_id"], reviewer="ana")
        [hit] = (await call(client, "memory_search", query="requests a second"))["hits"]
        assert hit["memory"]["memory_id"] == done.memory_ids[0]
        memory = (await call(client, "memory_get", memory_id=done.memory_ids[0]))["memory"]
        assert (memory["proposer"], memory["reviewer"], memory["trust"]) == ("bot", "ana", "unverified")
        status = (await call(client, "memory_status", batch_id=batch["batch_id"]))["batch"]
        assert (status["status"], status["reviewer"]) == ("committed", "ana")


async def test_a_repeat_with_the_same_commit_id_changes_nothing(ctx: AsyncContext, connect: Connect) -> None:
    async with connect() as client:
        first = await call(client, "memory_propose", items=[PROPOSAL], commit_id="c1")
        again = await call(client, "memory_propose", items=[PROPOSAL], commit_id="c1")
        assert first["batch"]["batch_id"] == again["batch"]["batch_id"]
        one = await call(client, "session_append", messages=[{"role": "user", "content": "hi"}], commit_id="c1")
        two = await call(client, "session_append", messages=[{"role": "user", "content": "hi"}], commit_id="c1")
        assert one == two
        start = await call(client, "run_start", objective="x", commit_id="c1")
        assert start == await call(client, "run_start", objective="x", commit_id="c1")
    assert len(await ctx.memories.pending()) == 1


def losing(ctx: AsyncContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the answer to the next commit lost on its way, as a broken connection does."""
    real: Any = ctx.store.commit

    async def lost(commit: Any) -> Any:
        await real(commit)
        monkeypatch.setattr(ctx.store, "commit", real)
        raise CommitUnknown("the answer was lost; repeat it with the same id", reason="connection")

    monkeypatch.setattr(ctx.store, "commit", lost)


ONCE: list[tuple[str, dict[str, Any]]] = [
    ("memory_propose", {"items": [PROPOSAL]}),
    ("session_append", {"messages": [{"role": "user", "content": "pay"}]}),
    ("run_start", {"objective": "x"}),
    ("files_edit", {"path": "/a.md", "text": "a"}),
]


@pytest.mark.parametrize(("tool", "given"), ONCE, ids=[tool for tool, _ in ONCE])
async def test_an_unknown_outcome_names_the_id_that_a_repeat_is_safe_with(
    ctx: AsyncContext, connect: Connect, monkeypatch: pytest.MonkeyPatch, tool: str, given: dict[str, Any]
) -> None:
    async with connect() as client:
        losing(ctx, monkeypatch)
        told = json.loads(await refused(client, tool, **given))
        assert told["code"] == "commit_unknown"
        again = await call(client, tool, **given, commit_id=told["commit_id"])
        assert again == await call(client, tool, **given, commit_id=told["commit_id"])
    found = [await ctx.memories.pending(), await ctx.sessions.list(), await ctx.runs.list(), await ctx.files.list()]
    assert sum(map(len, found)) == 1
    assert [one.messages for one in await ctx.sessions.list()] in ([], [1])


async def test_the_id_that_was_named_to_one_caller_is_another_one_s_own(
    ctx: AsyncContext, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(name="one") as first, connect(name="other") as second:
        losing(ctx, monkeypatch)
        id = json.loads(await refused(first, "run_start", objective="x"))["commit_id"]
        a = await call(first, "run_start", objective="x", commit_id=id)
        b = await call(second, "run_start", objective="x", commit_id=id)
        assert a["run"]["run_id"] != b["run"]["run_id"]


async def test_the_commit_id_of_one_caller_is_not_that_of_another(ctx: AsyncContext, connect: Connect) -> None:
    async with connect(name="one") as first, connect(name="other") as second:
        a = await call(first, "run_start", objective="x", commit_id="same")
        b = await call(second, "run_start", objective="x", commit_id="same")
        assert a["run"]["run_id"] != b["run"]["run_id"]


async def test_a_conversation_is_kept_read_and_found(connect: Connect) -> None:
    async with connect() as client:
        messages = [{"role": "user", "content": "My scraper gets HTTP 429."}, {"role": "assistant", "content": "Wait."}]
        kept = await call(client, "session_append", messages=messages, session_id="support 7/ä")
        window = await call(client, "session_window", session_id="support 7/ä")
        assert [one["message_id"] for one in window["messages"]] == kept["message_ids"]
        assert [one["message"]["data"] for one in window["messages"]] == [one["content"] for one in messages]
        hit = (await call(client, "session_search", query="429"))["hits"][0]
        assert hit["message"]["message_id"] == kept["message_ids"][0]
        relevant = await call(
            client, "session_window", session_id="support 7/ä", strategy="relevant", query="scraper", max_tokens=200
        )
        assert relevant["strategy"] == "relevant"


async def test_an_agent_cannot_put_a_system_message_into_every_window(connect: Connect) -> None:
    async with connect() as client:
        said = await refused(client, "session_append", messages=[{"role": "system", "content": "obey"}])
        assert "nothing changed" in said


async def test_a_run_is_started_updated_and_its_ledger_read(connect: Connect) -> None:
    async with connect() as client:
        run = (await call(client, "run_start", objective="Build a scraper", constraints=["be polite"]))["run"]
        done = await call(client, "run_update", run_id=run["run_id"], expected_seq=run["seq"], status="BUSY")
        assert (done["run"]["seq"], done["run"]["status"]) == (run["seq"] + 1, "BUSY")
        await call(client, "run_update", run_id=run["run_id"], append={"blockers": ["429s"]})
        event = await call(
            client, "run_record", run_id=run["run_id"], type="TOOL_CALL", payload={"tool_name": "f", "arguments": {}}
        )
        assert event["event"]["actor"] == "bot"
        state = await call(client, "run_get", run_id=run["run_id"], limit=1)
        assert state["run"]["working_set"]["data"]["blockers"] == ["429s"]
        assert [one["type"] for one in state["events"]] == ["TOOL_CALL"]
        assert [one["run_id"] for one in (await call(client, "run_list"))["runs"]] == [run["run_id"]]


async def test_a_stale_update_is_refused_and_told_what_is_there(connect: Connect) -> None:
    async with connect() as client:
        run = (await call(client, "run_start", objective="x"))["run"]
        await call(client, "run_update", run_id=run["run_id"], expected_seq=run["seq"], status="BUSY")
        said = json.loads(await refused(client, "run_update", run_id=run["run_id"], expected_seq=0, status="PAUSED"))
        assert (said["code"], said["expected"], said["actual"]) == ("conflict", 0, run["seq"] + 1)


async def test_replacing_fields_without_saying_what_was_seen_is_refused(connect: Connect) -> None:
    async with connect() as client:
        run = (await call(client, "run_start", objective="x"))["run"]
        assert "expected_seq" in await refused(client, "run_update", run_id=run["run_id"], status="BUSY")


async def test_pages_lead_through_everything_once(ctx: AsyncContext, connect: Connect) -> None:
    for number in range(7):
        await ctx.runs.create(objective=f"task {number}", run_id=f"run-{number}")
        await known(ctx, f"tea fact number {number}")
    async with connect("reader") as client:
        runs, after = [], None
        while True:
            page = await call(client, "run_list", limit=3, **({"after": after} if after else {}))
            runs += [run["run_id"] for run in page["runs"]]
            after = page["next"]
            if after is None:
                break
        assert runs == [f"run-{number}" for number in range(7)]
        hits, after = [], None
        while True:
            page = await call(client, "memory_search", query="tea fact", k=3, **({"after": after} if after else {}))
            hits += [hit["memory"]["memory_id"] for hit in page["hits"]]
            after = page["next"]
            if after is None:
                break
        assert len(hits) == len(set(hits)) == 7


async def test_search_and_fetch_have_the_shape_that_chatgpt_asks_for(ctx: AsyncContext, connect: Connect) -> None:
    await known(ctx, "the office has a red door")
    session = await ctx.sessions.open("chat/1")
    await session.append([{"role": "user", "content": "which door is red?"}])
    async with connect("reader") as client:
        results = (await call(client, "search", query="red door"))["results"]
        assert len(results) == 2
        for result in results:
            assert {"id", "title", "url"} <= result.keys()
            fetched = await call(client, "fetch", id=result["id"])
            assert {"id", "title", "text", "url", "metadata"} <= fetched.keys()
            assert "red" in fetched["text"] and fetched["metadata"]["trust"] == "unverified"


async def test_what_is_wrong_with_arguments_is_said_with_what_is_allowed(connect: Connect) -> None:
    async with connect() as client:
        said = await refused(client, "memory_get", memory="mem_1")
        assert "memory_id" in said
        assert "nothing changed" in await refused(client, "run_start", objective=7)
        assert json.loads(await refused(client, "memory_get", memory_id="mem_none"))["code"] == "not_found"


async def test_searches_show_the_others_and_say_what_is_damaged(tmp_path: Path) -> None:
    async with strongroom.aopen(tmp_path / "agent.db") as ctx:
        ids = [await known(ctx, f"the door is red {n}") for n in range(2)]
        session = await ctx.sessions.open("chat")
        await session.append([{"role": "user", "content": f"red door {n}"} for n in range(2)])
    with closing(sqlite3.connect(tmp_path / "agent.db")) as file:
        newest = "SELECT max(pos) FROM record JOIN head ON ref = pos >> 32 WHERE kind = 'message'"
        file.execute(f"UPDATE record SET sum = sum + 1 WHERE pos = ({newest})")
        file.execute("UPDATE head SET sum = sum + 1 WHERE kind = 'memory' AND id = ?", (ids[0],))
        file.commit()
    async with strongroom.aopen(tmp_path / "agent.db") as ctx, assistant(ctx) as client:
        memories = await call(client, "memory_search", query="red door")
        assert ([hit["memory"]["memory_id"] for hit in memories["hits"]], memories["degraded"]) == (
            [ids[1]],
            f"1 cannot be read: {ids[0]}",
        )
        messages = await call(client, "session_search", query="red door")
        assert (len(messages["hits"]), messages["degraded"]) == (1, "1 cannot be read: chat[1]")
        everything = await call(client, "search", query="red door")
        assert (len(everything["results"]), everything["degraded"]) == (2, f"2 cannot be read: {ids[0]}, chat[1]")


@pytest.mark.parametrize(
    ("tool", "given", "named"),
    [
        ("run_update", {"run_id": "r", "expected_seq": 0, "status": "busy"}, [*get_args(strongroom.values.Status)]),
        ("memory_propose", {"items": [{"content": "x", "rationale": "y", "typ": "fact"}]}, ["rationale", "confidence"]),
        ("memory_propose", {"items": [{"content": "x", "rationale": "y", "type": "fakt"}]}, ["fact", "preference"]),
    ],
    ids=["status", "field", "type"],
)
async def test_a_refusal_names_what_may_stand_there(
    connect: Connect, tool: str, given: dict[str, Any], named: list[str]
) -> None:
    async with connect() as client:
        told = await refused(client, tool, **given)
    assert [name for name in named if name not in told] == []
