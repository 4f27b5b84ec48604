"""What erasures have in common: how much may be said about one, and what one waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace

from strongroom.codec import encode
from strongroom.errors import InvalidInput

TOLD = 10  # damaged things that a receipt speaks of
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


def briefly(said: Sequence[str]) -> str | None:
    """Return so much of what there is to say as a receipt, which is bounded, has room for."""
    return "; ".join([*said[:TOLD], *([f"and {len(said) - TOLD} more"] if said[TOLD:] else [])]) or None


class Told(Protocol):
    """What an erasure tells, in part: what it waits for, and was not erased."""

    @property
    def pending(self) -> str | None: ...


T = TypeVar("T", bound=Told)


def waiting(told: T, *waits: str | None) -> T:
    """Return what an erasure tells, with what else it waits for; if there is nothing at all, it is complete."""
    pending = "; ".join(filter(None, (told.pending, *waits)))
    return cast("T", replace(cast("Any", told), complete=not pending, pending=pending or None))
