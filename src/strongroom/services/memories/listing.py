"""Listing memories: those of the owners that a lens can see, owner by owner, a page at a time."""

from __future__ import annotations

from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.keys import load
from strongroom.services.memories.lens import Lens
from strongroom.services.memories.values import Memory
from strongroom.store import Scan


async def page(
    scope: Scope, lens: Lens, tags: dict[str, str], after: str | None, limit: int
) -> tuple[list[Memory], str | None, list[str]]:
    """Return the next memories that carry the tags and belong to somebody the lens can see, where to go on, and the
    ids of what had to be left out."""
    owners = lens.owners()
    tags = {**tags, **{keys.free_tag(tag): "1" for tag in lens.tags}}
    place, start = _start(after, len(owners))
    found, bad = list[Memory](), list[str]()
    while True:
        owner = owners[place]
        carried = tags if owner is None else {"owner": owner, **tags}
        scan = Scan(scope.space, keys.MEMORY, carried, start, limit - len(found) - len(bad))
        some, following, damaged = await scope.listed(scan, lambda document: load(document, Memory))
        found += some
        bad += damaged
        if following is not None:
            return found, f"{place}.{following}", bad
        place, start = place + 1, None
        if place == len(owners):
            return found, None, bad
        if len(found) + len(bad) >= limit:
            return found, f"{place}.", bad


def _start(after: str | None, owners: int) -> tuple[int, str | None]:
    if after is None:
        return 0, None
    place, dot, start = after.partition(".")
    if not dot or not place.isdecimal() or len(place) > 1 or int(place) >= owners:
        raise InvalidInput(f"a cursor must be one that an earlier page of the same list returned, not {after!r:.40}")
    return int(place), start or None
