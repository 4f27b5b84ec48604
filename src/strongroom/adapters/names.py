"""Names of ours for what a framework names: its ids may be of any length and hold any character. Pure."""

from __future__ import annotations

from strongroom.services.sessions.beside import digest
from strongroom.store import MAX_NAME


def session_name(framework: str, *parts: str) -> str:
    """Return the id of the session that a conversation of a framework is: readable, where its own id allows it."""
    name = "/".join((framework, *parts))
    plain = len(name) <= MAX_NAME and name.isprintable() and "/" not in "".join(parts) and all(parts)
    return name if plain else f"{framework}/{digest(*parts)}"
