"""What erasures have in common: how much may be said about one."""

from __future__ import annotations

from strongroom.codec import encode
from strongroom.errors import InvalidInput

MOST_SAID = 16_384  # bytes of JSON: all that an erasure tells fits into its receipt, which is bounded


def require_brief(**said: str) -> None:
    """Refuse words about an erasure that could not be kept with it, before anything is taken away."""
    size = sum(len(encode(word)) for word in said.values())
    if size > MOST_SAID:
        names = " and ".join(said)
        raise InvalidInput(
            f"{names} of an erasure may take {MOST_SAID:,} bytes together, and take {size:,}; nothing changed",
            path=max(said, key=lambda name: len(said[name])),
        )
