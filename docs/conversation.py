"""The conversation in `mcp.md`, recorded: what is asked for is written down here, what is answered comes from a run.

Ids and times differ from run to run, so each is shown by what it is; a test records it all again and compares.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types

import mcp
import strongroom
from strongroom import AsyncContext
from strongroom.mcp.principals import Principal, Profile
from strongroom.mcp.server import create_server

BEGIN, END = "<!-- a conversation: made by `make docs` -->", "<!-- end of the conversation -->"
SHOWN = 900  # characters of one answer
VOLATILE = {
    r"batch_[0-9a-f]{20}": "batch_71c0",
    r"mem_[0-9a-f]{24}": "mem_3f0a",
    r"\d{4}-\d\d-\d\dT[0-9:.]+Z": "2026-11-17T15:00:00Z",
    r'"score": [0-9.]+': '"score": 0.8',
}


def page(old: str) -> str:
    """Return the page with the conversation of now between its marks."""
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{asyncio.run(record())}\n\n{END}{after}"


async def record() -> str:
    """Hold the conversation, and return it as text."""
    told: list[str] = []
    with tempfile.TemporaryDirectory(prefix="strongroom-docs-") as folder:
        async with strongroom.aopen(f"{folder}/agent.db") as ctx:
            batch = await first_day(ctx, told)
            await review(ctx, told, batch)
            await second_day(ctx, told)
    return "\n\n".join(told)


async def first_day(ctx: AsyncContext, told: list[str]) -> str:
    told.append("**Ana:** Our scraper gets HTTP 429 from example.com. Its robots.txt says one request a second.")
    async with assistant(ctx, "agent", "claude-desktop") as client:
        told.append("*The assistant looks whether that is known, and proposes to remember it.*")
        await show(client, told, "memory_search", query="example.com request rate")
        item = {
            "content": "example.com allows one request a second",
            "rationale": "Ana read it in its robots.txt",
            "source_refs": ["https://example.com/robots.txt"],
            "confidence": 0.9,
        }
        proposed = await show(client, told, "memory_propose", items=[item], commit_id="rate-limit")
    told.append("**Assistant:** I have proposed to remember that. It counts once somebody has approved it.")
    return str(proposed["batch"]["batch_id"])


async def review(ctx: AsyncContext, told: list[str], batch: str) -> None:
    told.append("**Ben**, whose assistant has the reviewer profile: Is there anything to review?")

    async def ask(_: Any, params: Any) -> types.ElicitResult:
        told.append(f"*Ben's client asks him:*\n\n```text\n{steady(params.message)}\n```\n\n*He picks* approve.")
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async with assistant(ctx, "reviewer", "ben", elicitation_callback=ask) as client:
        await show(client, told, "memory_decide", batch_id=batch)


async def second_day(ctx: AsyncContext, told: list[str]) -> None:
    told.append("**Ana**, a week later, in another client: How fast may we call example.com?")
    async with assistant(ctx, "agent", "cursor") as client:
        await show(client, told, "memory_search", query="how fast may we call example.com")
    told.append(
        "**Assistant:** One request a second, according to its robots.txt. You told an assistant, and ben approved it; "
        "nobody has verified it since (`unverified`, mem_3f0a)."
    )


async def show(client: Any, told: list[str], tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and tell what was asked and answered."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    answer: dict[str, Any] = result.structured_content
    asked, answered = (json.dumps(value, indent=2, ensure_ascii=False) for value in (arguments, answer))
    told.append(steady(f"`{tool}`\n\n```json\n{asked}\n```\n\n```json\n{short(answered)}\n```"))
    return answer


def short(text: str) -> str:
    """Return an answer that is too long for a page without its end."""
    if len(text) <= SHOWN:
        return text
    return text[: text.rindex("\n", 0, SHOWN)] + "\n  ..."


def steady(text: str) -> str:
    """Return a text in which nothing differs from run to run."""
    for pattern, shown in VOLATILE.items():
        text = re.sub(pattern, shown, text)
    return text


@asynccontextmanager
async def assistant(ctx: AsyncContext, profile: Profile, name: str, **more: Any) -> AsyncIterator[Any]:
    who = Principal(ctx, name, profile)
    async with mcp.Client(create_server(lambda _: who, version=strongroom.__version__), **more) as client:
        yield client
