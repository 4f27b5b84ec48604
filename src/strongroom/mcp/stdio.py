"""Serving one assistant over standard input and output: `strongroom mcp`.

Each assistant starts a process of its own, and all of them may share one file: the store keeps their writes apart. The
default is a file of the user's own, in the place for such files, so that every assistant finds the same memories.
"""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from strongroom.context import AsyncContext
from strongroom.mcp.principals import Principal, Profile
from strongroom.mcp.server import create_server
from strongroom.store import require_name


async def serve(ctx: AsyncContext, *, name: str, profile: Profile, version: str) -> None:
    """Serve until the assistant closes our input."""
    who = Principal(ctx, require_name(name, "a name"), profile)
    server = create_server(lambda _: who, version=version)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
