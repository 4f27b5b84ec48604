"""Serving one assistant over standard input and output: `strongroom mcp`.

Each assistant starts a process of its own, and all of them may share one file: the store keeps their writes apart. The
default is a file of the user's own, in the place for such files, so that every assistant finds the same memories.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.folding import same_person
from strongroom.mcp.principals import Principal, Profile
from strongroom.services.memories.policy import PROGRAM
from strongroom.store import require_name

FOLDER, FILE = "strongroom", "agent.db"


def default_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own file: ~/.local/share/strongroom/agent.db, or under XDG_DATA_HOME if that is set."""
    data = environment.get("XDG_DATA_HOME", "")
    folder = Path(data) if data.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".local" / "share"
    return folder / FOLDER / FILE


def made_ready(file: Path) -> Path:
    """Make the folder of a file that may not be there yet, for nobody else to look into."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise InvalidInput(f"cannot make the folder {str(file.parent)!r}: {problem.strerror}") from None
    return file


async def serve(ctx: AsyncContext, *, name: str, profile: Profile, version: str) -> None:
    """Serve until the assistant closes our input."""
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server  # the SDK is slow to load, and `install` needs none of it

    from strongroom.mcp.server import create_server

    if same_person(name, PROGRAM):
        raise InvalidInput(f"an assistant cannot be called {PROGRAM!r}: what the program itself does needs no review")
    who = Principal(ctx, require_name(name, "a name"), profile)
    server = create_server(lambda _: who, version=version)
    async with stdio_server() as (received, sent):
        told = server.create_initialization_options(NotificationOptions(resources_changed=True))
        await server.run(received, sent, told)
