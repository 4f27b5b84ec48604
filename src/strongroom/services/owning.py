"""Whose a session or a run is: what its tag `user_id` says.

What belongs to nobody can be given to somebody; nothing changes hands after that. What stays of a thing that was erased
is of its owner under another name, by which only somebody who knows the first one finds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from strongroom.errors import Conflict, InvalidInput
from strongroom.store import Key, require_name

OWNER = "user_id"  # the tag
_UNNAMED = re.compile(r"\(erased\) [0-9a-f]{64}")


def owned(tags: Mapping[str, str] | None, user_id: str | None) -> dict[str, str]:
    """Return tags with the one that says whose a thing is."""
    kept = dict(tags or {})
    if user_id is None:
        return kept
    if kept.setdefault(OWNER, require_name(user_id, "a user_id")) != user_id:
        raise InvalidInput("user_id and the tag user_id name two users; nothing changed", path="user_id")
    return kept


def unnamed(user_id: str) -> str:
    """Return what stands for an owner whose name is erased."""
    if _UNNAMED.fullmatch(user_id):
        return user_id
    return f"(erased) {sha256(b'strongroom/owner/1' + user_id.encode()).hexdigest()}"


def shown_owner(user_id: str | None) -> str:
    """Return an owner for a column of a list: of one whose name is erased only that it is."""
    return "" if user_id is None else "(erased)" if _UNNAMED.fullmatch(user_id) else user_id


def is_anothers(owner: str | None, user_id: str) -> bool:
    """Tell whether what is of this owner is of another user. Somebody may come back to what was erased of them."""
    return owner not in (None, user_id, unnamed(user_id))


def to_be_given(what: str, key: Key, owner: str | None, user_id: str) -> bool:
    """Tell whether what is there, of this owner or of nobody, is to be given to a user; refuse what is another's."""
    if user_id == owner:
        return False
    if is_anothers(owner, user_id):
        raise Conflict(f"{what} is of another user; nothing changed", expected=0, actual=1, key=key)
    return True


def require_still(what: str, key: Key, owner: str | None, user_id: str) -> None:
    """Refuse what somebody held for a user, was deleted, and is another's or nobody's now: its name tells nothing."""
    if owner is None or unnamed(owner) != unnamed(user_id):
        now = "of nobody" if owner is None else "of another user"
        told = f"{what} was deleted and is {now} now; open it again; nothing changed"
        raise Conflict(told, expected=0, actual=1, key=key)


def whose(user_id: str | None, **owners: tuple[str, str | None] | None) -> str | None:
    """Return the one user that things which are shown together are of: whom the caller names, or whose they are.

    Each of them is an id and its owner. What is of two users is refused: one would read what is the other's.
    """
    if user_id is not None:
        require_name(user_id, "a user_id")
    named = [(f"{kind} {one[0]!r:.200}", one[1]) for kind, one in owners.items() if one is not None]
    known = [(what, owner) for what, owner in named if owner is not None]
    if not known:
        return user_id
    what, owner = next((one for one in known if not _UNNAMED.fullmatch(one[1])), known[0])
    for other, its_owner in known:
        if unnamed(its_owner) != unnamed(owner):
            raise InvalidInput(
                f"{what} is of user {owner!r:.200}, and {other} of user {its_owner!r:.200}: what goes together must be "
                "of one user, or of nobody",
                path="user_id",
            )
    if user_id is not None and unnamed(user_id) != unnamed(owner):
        raise InvalidInput(
            f"{what} is of user {owner!r:.200}, and user_id names {user_id!r:.200}: leave user_id out, or name the "
            "owner",
            path="user_id",
        )
    return owner if user_id is None else user_id
