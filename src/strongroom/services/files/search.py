"""Finding files by their words. The store says where words stand; the order is ours and the same on every store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

import strongroom.retrieval as retrieval
from strongroom.bridge import can_search
from strongroom.scope import Scope
from strongroom.services.files.paths import FILE, TEXT, inside
from strongroom.services.files.values import FileHit, file_state
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Document, Find, Found, Get, Key, Match, Scan

POOL = 100
PAGE = 500
EXCERPT = 200
LOOKED_THROUGH = 100_000  # characters of a file, for the line to show


async def search(scope: Scope, query: str, folder: str, k: int) -> list[FileHit]:
    """Return the `k` files of a folder that answer a query best."""
    wanted = tuple(dict.fromkeys(words(query)))[:MOST_WORDS]
    if not wanted:
        return []
    found = await _find(scope, wanted, folder, max(POOL, 4 * k))
    documents = [match.document for match in found.matches if match.document is not None]
    size = sum(len(document.text or "") for document in documents)
    best = await scope.compute(size, lambda: _ranked(wanted, documents, found, k))
    # What is there now decides: a file may have gone since it was found.
    heads = await scope.get_all([Get(scope.key(FILE, hit.path)) for hit in best])
    return [
        replace(hit, version=file_state(head).version)
        for hit, head in zip(best, heads, strict=True)
        if head is not None
    ]


def _ranked(wanted: Sequence[str], documents: Sequence[Document], found: Found, k: int) -> list[FileHit]:
    """Return the best of what was found, their versions not known yet."""
    texts = [words(document.text or "") for document in documents]
    scores = retrieval.bm25(wanted, texts, found.total, found.counts)
    ranked = sorted(zip(scores, documents, strict=True), key=lambda pair: (-pair[0], pair[1].key.id))[:k]
    return [_hit(wanted, document, score) for score, document in ranked]


async def _find(scope: Scope, wanted: tuple[str, ...], folder: str, limit: int) -> Found:
    if can_search(scope.store):
        asked = Find(scope.space, TEXT, wanted, tags=inside(folder), limit=limit)
        found: Found = await scope.store.search(asked)  # type: ignore[attr-defined]
        return found
    places: dict[str, list[Key]] = {word: [] for word in wanted}
    documents: dict[Key, Document] = {}
    total = 0
    async for page in scope.pages(Scan(scope.space, TEXT, inside(folder), limit=PAGE, reverse=True)):
        total += len(page)
        for document in page:
            for word in places.keys() & words(document.text or ""):
                places[word].append(document.key)
                documents[document.key] = document
    newest = {word: held[: retrieval.MOST_PLACES] for word, held in places.items()}
    total = min(total, retrieval.MOST_PLACES)
    matches = tuple(Match(key, document=documents[key]) for key in retrieval.choose(total, newest, limit))
    return Found(total, {word: len(held) for word, held in newest.items()}, matches)


def _hit(wanted: Sequence[str], document: Document, score: float) -> FileHit:
    """Show the line that holds most of the words, of those at the beginning; line 0 is the path itself."""
    lines = (document.text or "")[:LOOKED_THROUGH].split("\n")
    held = [len(set(wanted) & set(words(line))) for line in lines]
    best = max(range(len(lines)), key=lambda place: (held[place], place > 0, -place))
    why = f"words ({score:.3f})"
    return FileHit(document.key.id, 0, score, why, best, lines[best].strip()[:EXCERPT])
