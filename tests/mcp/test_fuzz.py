"""Whatever is sent: no crash, nothing of another space, no answer over its bound. `make fuzz` sends 20,000 calls."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
import pytest

import mcp
import strongroom
from strongroom import AsyncContext
from strongroom.mcp.resources import BOUND as RESOURCE_BOUND
from strongroom.mcp.resources import RESOURCES
from strongroom.mcp.schemas import schema_of
from strongroom.mcp.tool import ERROR_BYTES
from strongroom.mcp.tools import TOOLS
from tests.mcp.conftest import MODES, assistant, known
from tests.mcp.generating import Generator

CALLS = int(os.environ.get("STRONGROOM_CALLS", "240"))
SEED = int(os.environ.get("SEED", "1"))
SECRET = "theirs-alone-7c1f"
LARGE = "tea " + "red door\x01 é " * 600


async def fill(ctx: AsyncContext, name: str, mark: str) -> list[str]:
    """Put something of each kind into a space, much of it large; return the ids. The mark is in all, but in no id."""
    ids = [await known(ctx, f"{mark} {number} tea {LARGE[:7_000]}") for number in range(6)]
    session = await ctx.sessions.open(f"{name}-session")
    await session.append([{"role": "user", "content": f"{mark} {LARGE * 12}"} for _ in range(6)])
    run = await ctx.runs.create(objective=f"{mark} {LARGE[:2_000]}", run_id=f"{name}-run")
    for _ in range(8):
        await run.record("TOOL_RESULT", {"tool_name": mark, "ok": True, "result": LARGE * 3})
    request: Any = {
        "op": "add", "type": "fact", "scope": "global", "rationale": LARGE[:7_000], "confidence": 0.9,
        "source_refs": [LARGE[:1_900]],
    }  # fmt: skip
    requests: list[Any] = [{**request, "content": f"{mark} {number} {LARGE[:7_000]}"} for number in range(20)]
    batch = await ctx.memories.propose(requests, proposer="bot")
    await ctx.files.write(f"/{name}/notes.md", mark + LARGE * 20)
    return [*ids, session.id, run.id, batch.id, f"/{name}/notes.md", f"strongroom://files/{name}/notes.md"]


def check(result: types.CallToolResult, bound: int) -> None:
    """Hold an answer to what is promised of every answer."""
    [content] = result.content
    assert isinstance(content, types.TextContent)
    told = msgspec.json.decode(content.text)
    if result.is_error:
        assert told["code"] != "internal" and len(content.text.encode()) <= ERROR_BYTES + 500
    else:
        assert told == result.structured_content and len(content.text.encode()) <= bound
    assert SECRET not in content.text


@pytest.mark.parametrize("mode", MODES)
async def test_no_call_crashes_leaves_its_space_or_answers_too_much(tmp_path: Path, mode: str) -> None:
    url = str(tmp_path / "agent.db")
    async with strongroom.aopen(url, space="theirs") as theirs, strongroom.aopen(url, space="ours") as ours:
        others = await fill(theirs, "theirs", SECRET)
        ids = await fill(ours, "ours", "ours")
        before = await contents(theirs)
        made = Generator(SEED, [*ids, *others])
        async with (
            assistant(ours, "agent", mode=mode) as agent,
            assistant(ours, "reviewer", mode=mode) as reviewer,
        ):
            await agent.list_tools()
            await reviewer.list_tools()
            for _ in range(CALLS // 2):
                tool = made.chance.choice(TOOLS)
                client = agent if "agent" in tool.profiles else reviewer
                arguments = made.arguments(schema_of(tool.takes))
                check(await client.call_tool(tool.name, arguments), tool.bound)
                if made.chance.random() < 0.1:
                    await look(agent, made)
        assert await contents(theirs) == before


async def look(client: Any, made: Generator) -> None:
    """Read an address, get a prompt, complete an argument: none of them fails but by the caller's fault."""
    text = str(made.value({"type": "string"}, 0))
    template = made.chance.choice(RESOURCES).template
    uri = re.sub(r"\{\w+\}|\{\+\w+\}", lambda _: text.removeprefix("/"), template.partition("{?")[0])
    ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
    for asked in (
        client.read_resource(uri),
        client.get_prompt(made.chance.choice(("brief", "recall", "hand_over")), {"run_id": text}),
        client.complete(ref, {"name": "run_id", "value": text}),
    ):
        try:
            answer = await asked
        except mcp.MCPError as problem:
            assert problem.error.code == types.INVALID_PARAMS
            assert len(problem.error.message.encode()) <= ERROR_BYTES + 500
        else:
            encoded = answer.model_dump_json().encode()
            assert SECRET.encode() not in encoded
            assert len(encoded) <= 3 * RESOURCE_BOUND


async def contents(ctx: AsyncContext) -> list[Any]:
    """Return what a space holds, in short."""
    return [
        [memory.id for memory in await ctx.memories.list(limit=500)],
        [batch.id for batch in await ctx.memories.pending(limit=500)],
        [(run.id, run.seq) for run in await ctx.runs.list(limit=500)],
        [(one.id, one.messages) for one in await ctx.sessions.list(limit=500)],
        [(file.path, file.version) for file in await ctx.files.list(limit=500)],
    ]
