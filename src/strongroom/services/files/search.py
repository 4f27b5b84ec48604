"""Finding files by their words. The store says where words stand; the order is ours and the same on every store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

import strongroom.retrieval as retrieval
from strongroom.bridge import can_search
from strongroom.errors import Damaged
from strongroom.queries import require_query
from strongroom.scope import Scope, Telling, Unread
from strongroom.services.files.paths import FILE, TEXT, inside
from strongroom.services.files.values import FileHit, FileHits, file_state
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Budget, Document, Find, Found, Key, Match, Scan

POOL = 100
PAGE = 500
MOST_CANDIDATES = 5_000
EXCERPT = 200
LOOKED_THROUGH = 100_000  # characters of a file, for the line to show
LACKING = "many large files fit; there was room for the most promising alone"


async def search(scope: Scope, query: str, folder: str, k: int) -> FileHits:
    """Return the `k` files of a folder that answer a query best."""
    wanted = tuple(dict.fromkeys(words(require_query(query))))[:MOST_WORDS]
    if not wanted:
        return FileHits()
    asked = Find(scope.space, TEXT, wanted, tags=inside(folder), limit=max(POOL, 4 * k))
    bad = Unread()
    found = await (_find if can_search(scope.store) else _read_through)(scope, asked, bad.tell)
    documents = [match.document for match in found.matches if match.document is not None]
    size = sum(len(document.text or "") for document in documents)
    best = await scope.compute(size, lambda: _ranked(wanted, documents, found, k))
    # What is there now decides: a file may have gone since it was found.
    heads = await scope.get_known([scope.key(FILE, hit.path) for hit in best], bad.tell)
    there: list[FileHit] = []
    for hit, head in zip(best, heads, strict=True):
        try:
            there += [] if head is None else [replace(hit, version=file_state(head).version)]
        except Damaged:
            bad[hit.path] = None
    lacking = found.cut and len(documents) < 2 * k
    return FileHits(there, degraded=LACKING if lacking else None, damaged=bad)


def _ranked(wanted: Sequence[str], documents: Sequence[Document], found: Found, k: int) -> list[FileHit]:
    """Return the best of what was found, their versions not known yet."""
    texts = [words(document.text or "") for document in documents]
    scores = retrieval.bm25(wanted, texts, found.total, found.counts)
    ranked = sorted(zip(scores, documents, strict=True), key=lambda pair: (-pair[0], pair[1].key.id))[:k]
    return [_hit(wanted, document, score) for score, document in ranked]


async def _find(scope: Scope, asked: Find, damaged: Telling) -> Found:
    """Find words with the store's index; what is too much for one answer, in pieces, as far as there is room for it."""
    found, matches, wanted = Found(0, {}, ()), list[Match](), asked.limit
    room = _room(scope)
    while True:
        behind = 0
        async for found in scope.finds(asked, damaged):
            behind += found.behind
            matches += [match for match in found.matches if match.document and room.takes(None, match.document.text)]
            if room.full:
                break
        if room.full or len(matches) >= wanted or behind < asked.limit or asked.limit >= MOST_CANDIDATES:
            return replace(found, matches=tuple(matches), cut=room.full)
        asked = replace(asked, skip=asked.skip + asked.limit, limit=4 * asked.limit)  # much of it is damaged


async def _read_through(scope: Scope, asked: Find, damaged: Telling) -> Found:
    """Find words in a store without an index: in all files, a page at a time, and then look at the best again."""
    places: dict[str, list[Key]] = {word: [] for word in asked.words}
    total = 0
    async for page in scope.pages(Scan(scope.space, TEXT, asked.tags, limit=PAGE, reverse=True), damaged):
        total += len(page)
        for document in page:
            for word in places.keys() & words(document.text or ""):
                if len(places[word]) < retrieval.MOST_PLACES:
                    places[word].append(document.key)
    total = min(total, retrieval.MOST_PLACES)
    chosen = retrieval.choose(total, places, asked.limit)
    matches: list[Match] = []
    room = _room(scope)
    async for documents in scope.parts(chosen, POOL, partial(scope.get_known, damaged=damaged)):
        there = [document for document in documents if document is not None]
        matches += [Match(one.key, document=one) for one in there if room.takes(None, one.text)]
        if room.full:
            break
    return Found(total, {word: len(held) for word, held in places.items()}, tuple(matches), room.full)


def _room(scope: Scope) -> Budget:
    """Return what candidates may hold: half of what an answer may, as for memories."""
    return Budget(scope.room // 2)


def _hit(wanted: Sequence[str], document: Document, score: float) -> FileHit:
    """Show the line that holds most of the words, of those at the beginning; line 0 is the path itself."""
    lines = (document.text or "")[:LOOKED_THROUGH].split("\n")
    held = [len(set(wanted) & set(words(line))) for line in lines]
    best = max(range(len(lines)), key=lambda place: (held[place], place > 0, -place))
    why = f"words ({score:.3f})"
    return FileHit(document.key.id, 0, score, why, best, lines[best].strip()[:EXCERPT])
