"""Texts that are too large for a record: kept in pieces, and named where they would have stood.

First the pieces are staged, each a commit of its own, so that none is larger than a server takes. A document says whose
they are, and that nobody names them yet; it is taken away together with its pieces, and each of them expects it. The
commit that names them, which is the adapter's own, expects that document and writes it anew: so a text is there whole
or not at all. An erasure takes what is staged, too: whoever staged it meets a conflict, looks again, and stages it anew
if that is still right. What was staged and not named is dropped at once; if somebody was killed, it is swept a day
later by whoever stages something next. Its owner drops it with what named it.

| kind | shape | holds |
|---|---|---|
| `adapter_large` | document for each text | since when it is there; its tags say whose it is, and that it is staged |
| `adapter_large_piece` | stream for each text | a record for each piece |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from types import TracebackType
from typing import Any

from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import Conflict, Damaged, InvalidInput, NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.sessions import layouts
from strongroom.store import Append, Commit, Delete, Entry, Expect, Get, Put, Range, Scan, Write, new_id

KIND = layouts.LARGE
PIECE = layouts.LARGE_PIECE
STAGED = layouts.STAGED

INLINE = 4 * 1024 * 1024  # characters that stay in their record
PIECE_LENGTH = 1024 * 1024  # characters; in JSON at most half of what a server takes at once
MOST = 384 * 1024 * 1024  # characters: 256 MiB of bytes and more, in base64
DAY = 24 * 3600 * 1_000_000
SWEPT_AT_ONCE = 10
PAGE = 500


class Named(Struct, frozen=True):
    """What stands for texts in a record, and what the commit that stores it has to hold besides."""

    texts: list[Any]
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()


class Staging:
    """The large texts of one record, which may take several attempts to store: staged once, and once more if somebody
    took them away. What no attempt came to name is dropped in the end."""

    def __init__(self, scope: Scope, owner: str) -> None:
        self._scope, self._owner = scope, owner
        self._staged = list[dict[str, Any]]()
        self._whole = set[str]()  # the ids of those whose last piece is stored

    async def named(self, *texts: Any) -> Named:
        """Stage the largest of the record's texts until the rest of them fits into it; return what stands for all.

        What is not a text stands for itself. `Conflict` if somebody took one away before it was whole.
        """
        sizes = [len(text) if isinstance(text, str) else 0 for text in texts]
        total, large = sum(sizes), dict[int, dict[str, Any]]()
        waiting = [one for one in await self._waiting() if one["large"] in self._whole]
        for place in sorted(range(len(texts)), key=lambda one: -sizes[one]):
            if total <= INLINE:
                break
            if not self._staged:
                await _sweep(self._scope)
            large[place] = await self._stage(texts[place], waiting)
            total -= sizes[place]
        keys = [self._scope.key(KIND, one["large"]) for one in large.values()]
        there = encode({"at": self._scope.clock()})
        return Named(
            [large.get(place, text) for place, text in enumerate(texts)],
            tuple(Expect(key, 1) for key in keys),
            tuple(Put(key, there, layouts.named_by(self._owner)) for key in keys),
        )

    async def __aenter__(self) -> Staging:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            with suppress(StrongroomError):  # else it is swept, like that of somebody who was killed
                for one in await self._waiting():
                    await _drop(self._scope, one["large"])

    async def _waiting(self) -> list[dict[str, Any]]:
        """Return what is staged, in part or whole, and still there."""
        if not self._staged:
            return []
        found = await self._scope.get_all([Get(self._scope.key(KIND, one["large"])) for one in self._staged])
        there = zip(self._staged, found, strict=True)
        return [one for one, document in there if document is not None and document.version == 1]

    async def _stage(self, text: str, waiting: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the name of a text: one of those that wait, or a new one, once its pieces are stored."""
        if len(text) > MOST:
            raise InvalidInput(f"a value of {len(text)} characters is over the limit of {MOST}; nothing changed")
        scope, id, starts = self._scope, new_id(), range(0, len(text), PIECE_LENGTH)
        name = {"large": id, "pieces": len(starts), "sha256": _digest(text)}
        for place, one in enumerate(waiting):
            if one["sha256"] == name["sha256"]:
                return waiting.pop(place)
        key = scope.key(KIND, id)
        self._staged.append(name)
        staged: list[Write] = [Put(key, encode({"at": scope.clock()}), layouts.named_by(self._owner) | STAGED)]
        for start in starts:
            piece = Append(scope.key(PIECE, id), (Entry("piece", encode(text[start : start + PIECE_LENGTH])),))
            await scope.store.commit(Commit(new_id(), (Expect(key, 1 if start else 0),), (*staged, piece)))
            staged = []
        self._whole.add(id)
        return name


async def whole(scope: Scope, text: Any) -> Any:
    """Return a text, wherever it is, or what stands for itself."""
    if not isinstance(text, dict):
        return text
    id = text["large"]
    part = await scope.get(Range(scope.key(PIECE, id)))
    if len(part.records) != text["pieces"]:
        raise NotFound("a large value was deleted with what it belonged to", kind=KIND, id=id)
    found = "".join([record.body.load() for record in part.records if record.body is not None])
    if _digest(found) != text["sha256"]:
        raise Damaged("a large value does not match its checksum", reason="checksum", id=id)
    return found


async def owned(scope: Scope, owner: str) -> list[str]:
    """Return the ids of an owner's large texts. One that is still staged is about to be named, or will be swept."""
    found = Scan(scope.space, KIND, layouts.named_by(owner), limit=PAGE)
    return [one.key.id async for page in scope.pages(found) for one in page if not one.tags.items() >= STAGED.items()]


def dropping(scope: Scope, ids: Iterable[str]) -> list[Write]:
    """Return what removes large texts."""
    return [Delete(scope.key(kind, id)) for id in ids for kind in (KIND, PIECE)]


def ids_in(value: Any) -> set[str]:
    """Return the ids of all large texts that are named in a value."""
    if isinstance(value, Mapping):
        own = {value["large"]} if value.keys() == {"large", "pieces", "sha256"} else set()
        return own.union(*map(ids_in, value.values()))
    return set().union(*map(ids_in, value)) if isinstance(value, list) else set()


async def _sweep(scope: Scope) -> None:
    """Remove a few texts that were staged long ago and never named."""
    page = await scope.get(Scan(scope.space, KIND, STAGED, limit=SWEPT_AT_ONCE))
    for one in page.documents:
        if one.value.load()["at"] < scope.clock() - DAY:
            await _drop(scope, one.key.id)


async def _drop(scope: Scope, id: str) -> None:
    """Remove a text that is staged, unless it was named after all."""
    with suppress(Conflict):
        expects = (Expect(scope.key(KIND, id), 1),)
        await scope.store.commit(Commit(new_id(), expects, tuple(dropping(scope, [id]))))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
