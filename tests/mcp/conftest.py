"""A space with a little of everything in it, and assistants that are connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pytest

import strongroom
from strongroom import AsyncContext
from strongroom.mcp.principals import Profile

mcp = pytest.importorskip("mcp", reason="the MCP SDK is not installed")

MODES = ["2026-07-28", "legacy"]


class Connect(Protocol):
    def __call__(
        self, profile: Profile = "agent", *, name: str = "", ctx: AsyncContext | None = None, **more: Any
    ) -> AbstractAsyncContextManager[Any]: ...


@pytest.fixture
def ctx(runner: asyncio.Runner, address: str) -> Iterator[AsyncContext]:
    opened = runner.run(_open(address))
    yield opened
    runner.run(opened.close())


@pytest.fixture
def address() -> str:
    """The services are tested on every store; what is tested here lies above them. stdio and HTTP use files."""
    return "memory://"


@pytest.fixture(params=MODES)
def connect(request: pytest.FixtureRequest, ctx: AsyncContext) -> Connect:
    """Connect an assistant in each family of the protocol."""

    ours = ctx

    def connected(
        profile: Profile = "agent", *, name: str = "", ctx: AsyncContext | None = None, **more: Any
    ) -> AbstractAsyncContextManager[Any]:
        return assistant(ctx or ours, profile, name=name, mode=request.param, **more)

    return connected


@asynccontextmanager
async def assistant(
    ctx: AsyncContext, profile: Profile = "agent", *, name: str = "", mode: str = "2026-07-28", **more: Any
) -> AsyncIterator[Any]:
    from strongroom.mcp.principals import Principal
    from strongroom.mcp.server import create_server

    who = Principal(ctx, name or {"agent": "bot", "reviewer": "ana", "reader": "rob"}[profile], profile)
    async with mcp.Client(create_server(lambda _: who, version="1"), mode=mode, **more) as client:
        yield client


async def call(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that is expected to succeed, and return its structured answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    answer: dict[str, Any] = result.structured_content
    return answer


async def refused(client: Any, tool: str, **arguments: Any) -> str:
    """Call a tool that is expected to be refused, and return what it says."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return str(result.content[0].text)


async def known(ctx: AsyncContext, content: str, *, proposer: str = "bot") -> str:
    """Propose a memory and have it approved; return its id."""
    request: Any = {
        "op": "add",
        "type": "fact",
        "scope": "global",
        "content": content,
        "rationale": "somebody said so",
        "confidence": 0.9,
        "source_refs": ["note:1"],
    }
    batch = await ctx.memories.propose([request], proposer=proposer)
    return (await ctx.memories.commit(batch, reviewer="ana")).memory_ids[0]


async def _open(address: str) -> AsyncContext:
    return await strongroom.aopen(address)
