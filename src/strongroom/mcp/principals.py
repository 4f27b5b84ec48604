"""Who calls, and what they may do: a profile is a set of tools, and no profile both proposes and decides."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput

Profile = Literal["agent", "reviewer", "reader"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

AGENT: frozenset[Profile] = frozenset({"agent"})
REVIEWER: frozenset[Profile] = frozenset({"reviewer"})
EVERYBODY: frozenset[Profile] = frozenset(PROFILES)

# An admin works as an agent: whoever may do everything must still not decide on what it proposed.
PROFILE_OF_ROLE: dict[str, Profile] = {
    "reader": "reader",
    "writer": "agent",
    "reviewer": "reviewer",
    "admin": "agent",
}

LONGEST_COMMIT_ID = 128


def profile_of(role: str, wanted: Profile | None = None) -> Profile:
    """Return the profile that a key has: the one of its role or, if wanted, a reader's, which is part of every other.

    One key never has two: whoever holds an admin's cannot propose in one process and decide in the next.
    """
    own = PROFILE_OF_ROLE[role]
    if wanted not in (None, own, "reader"):
        raise InvalidInput(
            f"the key has the role {role!r}, so its profile is {own!r}, or 'reader', and never {wanted!r}; "
            "make another key for that"
        )
    return wanted or own


class Principal(Struct, frozen=True):
    """Somebody who calls: the space they see, the name that is recorded for what they do, and their profile."""

    ctx: AsyncContext
    name: str
    profile: Profile

    def commit_id(self, given: str | None) -> str | None:
        """Make an id that a caller chose the caller's own: it never meets another one's."""
        if given is None:
            return None
        if not 0 < len(given) <= LONGEST_COMMIT_ID or not given.isprintable():
            raise InvalidInput("a commit_id must be 1 to 128 printable characters; nothing changed", path="commit_id")
        return f"mcp:{len(self.name)}:{self.name}:{given}"
