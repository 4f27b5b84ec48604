"""Two processes at once through ADK's sessions: whoever is stale is refused, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio

from strongroom.adapters.adk import StrongroomSessionService
from tests.adapters.processes import TURNS, both, lines_of
from tests.adapters.programs import ADK


def test_two_processes_append_to_one_session(address: str) -> None:
    with StrongroomSessionService(address) as service:
        asyncio.run(service.create_session(**ADK))
        both("events", address)
        session = asyncio.run(service.get_session(**ADK))
        assert session is not None
        said = [one.content.parts[0].text for one in session.events]
        shown = [one.content for one in service.opened.ctx.sessions.get("adk/A/u/s").load()]
    assert len(said) == 2 * TURNS and set(said) == lines_of() and shown == said
    for name in ("one", "two"):  # each in its own order
        assert [one for one in said if one.startswith(name)] == [f"{name} {number}" for number in range(TURNS)]
