"""Where words stand among the memories of one owner: asked of the store's index, or found by looking through them all.

A store without a full-text index gives the same answers, at a cost that grows with the number of memories.
"""

from __future__ import annotations

from collections.abc import Sequence

from strongroom import retrieval
from strongroom.bridge import can_search
from strongroom.scope import Scope
from strongroom.services.memories import keys, screening
from strongroom.services.memories.values import Memory
from strongroom.services.memories.writes import load
from strongroom.stemming import words
from strongroom.store import Document, Find, Found, Key, Match, Scan

PAGE = 500


async def find(scope: Scope, wanted: Sequence[str], owner: str, limit: int) -> Found:
    """Return the most promising active memories of an owner that hold any of the words."""
    if can_search(scope.store):
        asked = Find(scope.space, keys.MEMORY, tuple(wanted), tags={"owner": owner}, limit=limit)
        found: Found = await scope.store.search(asked)  # type: ignore[attr-defined]
        return found
    places: dict[str, list[Key]] = {word: [] for word in wanted}
    documents: dict[Key, Document] = {}
    total = 0
    after = None
    while True:
        tags = {"owner": owner, "status": "active"}
        [page] = await scope.store.read([Scan(scope.space, keys.MEMORY, tags, after, PAGE, reverse=True)])
        for document in page.documents:
            total += 1
            for word in places.keys() & words(screening.plain(load(document, Memory).content)):
                places[word].append(document.key)
                documents[document.key] = document
        if page.next is None:
            break
        after = page.next
    newest = {word: found[: retrieval.MOST_PLACES] for word, found in places.items()}
    total = min(total, retrieval.MOST_PLACES)
    matches = tuple(Match(key, document=documents[key]) for key in retrieval.choose(total, newest, limit))
    return Found(total, {word: len(found) for word, found in newest.items()}, matches)
