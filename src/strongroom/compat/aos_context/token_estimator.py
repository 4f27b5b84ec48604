"""Four characters are a token: the count that budgets of this API are measured in."""

from __future__ import annotations

from typing import Any

import msgspec


def estimate_tokens(text: str) -> int:
    """Return a quarter of the characters, rounded up."""
    return -(-len(text) // 4)


def estimate_tokens_any(value: Any) -> int:
    """Return the tokens of a text, or of a value's JSON; nothing costs nothing."""
    if value is None:
        return 0
    return estimate_tokens(value if isinstance(value, str) else msgspec.json.encode(value).decode())
