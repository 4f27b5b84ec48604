"""Every tool there is: the table that clients are shown, filtered by profile, and that calls are looked up in."""

from __future__ import annotations

from strongroom.mcp.tool import Tool
from strongroom.mcp.tools import files, lookup, memories, review, runs, sessions

TOOLS: tuple[Tool, ...] = (
    *memories.TOOLS,
    *review.TOOLS,
    *sessions.TOOLS,
    *runs.TOOLS,
    *files.TOOLS,
    *lookup.TOOLS,
)
