"""Memories page by page: those of one owner, then those of the next.

A space may hold the memories of a million users, and whoever lists those of one must not walk through all of them. So
only the owners that a lens can see are asked for, in a fixed order, and a cursor says which one it stands at.
"""

from __future__ import annotations

from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.search import Lens
from strongroom.services.memories.values import Memory
from strongroom.services.memories.writes import load
from strongroom.store import Scan


async def page(
    scope: Scope, lens: Lens, tags: dict[str, str], after: str | None, limit: int
) -> tuple[list[Memory], str | None]:
    """Return the next memories that carry the tags and belong to somebody the lens can see, and where to go on."""
    owners = lens.owners()
    place, start = _start(after, len(owners))
    found: list[Memory] = []
    while True:
        carried = {"owner": owners[place], **tags}
        [answer] = await scope.store.read([Scan(scope.space, keys.MEMORY, carried, start, limit - len(found))])
        found += [load(document, Memory) for document in answer.documents]
        if answer.next is not None:
            return found, f"{place}.{answer.next}"
        place, start = place + 1, None
        if place == len(owners):
            return found, None
        if len(found) >= limit:
            return found, f"{place}."


def _start(after: str | None, owners: int) -> tuple[int, str | None]:
    if after is None:
        return 0, None
    place, dot, start = after.partition(".")
    if not dot or not place.isdecimal() or len(place) > 1 or int(place) >= owners:
        raise InvalidInput(f"a cursor must be one that an earlier page of the same list returned, not {after!r:.40}")
    return int(place), start or None
