"""What a person can pick, and how its arguments are completed."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from strongroom import AsyncContext
from tests.mcp.conftest import Connect, known, mcp

EVERYBODYS = {"brief", "recall", "hand_over"}


async def complete(client: Any, ref: Any, name: str, value: str) -> list[str]:
    values: list[str] = (await client.complete(ref, {"name": name, "value": value})).completion.values
    return values


@pytest.mark.parametrize("profile", ["agent", "reviewer", "reader"])
async def test_prompts_and_their_arguments_are_described(connect: Connect, profile: Any) -> None:
    async with connect(profile) as client:
        prompts = (await client.list_prompts()).prompts
    assert {prompt.name for prompt in prompts} == EVERYBODYS | ({"review"} if profile == "reviewer" else set())
    for prompt in prompts:
        assert prompt.title and prompt.description
        assert all(one.description and one.required for one in prompt.arguments)


async def test_a_prompt_brings_what_it_speaks_of(ctx: AsyncContext, connect: Connect) -> None:
    await ctx.runs.create(objective="Build a scraper", run_id="r")
    memory = await known(ctx, "the office has a red door")
    async with connect("reader") as client:
        _, brief = (await client.get_prompt("brief", {"run_id": "r"})).messages
        assert "Build a scraper" in brief.content.resource.text
        _, recalled = (await client.get_prompt("recall", {"topic": "red door"})).messages
        assert memory in recalled.content.resource.text
        _, run, ledger = (await client.get_prompt("hand_over", {"run_id": "r"})).messages
        assert str(run.content.resource.uri) == "strongroom://runs/r"
        assert "sequence_id" in ledger.content.resource.text


async def test_a_prompt_with_wrong_arguments_is_refused(connect: Connect) -> None:
    async with connect("reader") as client:
        for name, arguments in [("brief", {}), ("brief", {"run_id": "none"}), ("review", {"batch_id": "x"}), ("x", {})]:
            with pytest.raises(mcp.MCPError):
                await client.get_prompt(name, arguments)


async def test_arguments_are_completed_from_what_there_is(ctx: AsyncContext, connect: Connect) -> None:
    for name in ("alpha-1", "alpha-2", "beta"):
        await ctx.runs.create(objective="x", run_id=name)
        await ctx.sessions.open(name)
    memory = await known(ctx, "tea")
    async with connect("reviewer") as client:
        brief = types.PromptReference(type="ref/prompt", name="brief")
        assert await complete(client, brief, "run_id", "alpha") == ["alpha-1", "alpha-2"]
        template = types.ResourceTemplateReference(type="ref/resource", uri="strongroom://sessions/{session_id}")
        assert await complete(client, template, "session_id", "be") == ["beta"]
        memories = types.ResourceTemplateReference(type="ref/resource", uri="strongroom://memories/{memory_id}")
        assert await complete(client, memories, "memory_id", "mem_") == [memory]
        recall = types.PromptReference(type="ref/prompt", name="recall")
        assert await complete(client, recall, "topic", "a") == []


async def test_no_more_is_completed_than_the_protocol_allows(ctx: AsyncContext, connect: Connect) -> None:
    for number in range(101):
        await ctx.sessions.open(f"s{number}")
    async with connect("reader") as client:
        template = types.ResourceTemplateReference(type="ref/resource", uri="strongroom://sessions/{session_id}")
        found = (await client.complete(template, {"name": "session_id", "value": "s"})).completion
        assert (len(found.values), found.has_more) == (100, True)
