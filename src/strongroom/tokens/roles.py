"""Who speaks in a message, whatever its framework calls them (pure).

The one table of roles: prompts, windows, learning and what assistants are shown all go by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MEANT = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
}


def meant(role: object) -> str:
    """Return `system`, `user`, `assistant` or `tool` for any word for it, in any case; another word as it is."""
    word = role if isinstance(role, str) else str(role)
    return _MEANT.get(word.lower(), word)


def speaker(message: Mapping[str, Any]) -> str:
    """Return who speaks in a message: what its role means; "" if it has none, and no type that says it."""
    role, kind = message.get("role"), message.get("type")
    if role not in (None, ""):
        return meant(role)
    return _MEANT.get(kind.lower(), "") if isinstance(kind, str) else ""
