"""Is everything there? A walk over all spaces that follows every stream and its hash chain. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from strongroom.backends.memory import link
from strongroom.backends.postgres.reads import Row

MOST_PROBLEMS = 100


class Check(Struct, frozen=True):
    """What `check()` found. `problems` is empty when every stream is whole and every chain is right.

    Documents and streams are those that live; a tombstone is all that is left of one that was deleted.
    """

    ok: bool
    documents: int
    streams: int
    tombstones: int
    records: int
    problems: tuple[str, ...]


def check(rows: Iterable[Row]) -> Check:
    """Verify the rows of `unload`, one after the other; stop after a hundred problems."""
    counts = {"documents": 0, "streams": 0, "tombstones": 0, "records": 0}
    problems: list[str] = []
    for problem in _walk(rows, counts):
        problems.append(problem)
        if len(problems) >= MOST_PROBLEMS:
            break
    return Check(not problems, problems=tuple(problems), **counts)


def _walk(rows: Iterable[Row], counts: dict[str, int]) -> Iterator[str]:
    at: tuple[str, int] | None = None  # which stream we are in; a long one comes in several parts
    name, expected, length = "", 0, 0
    chain: bytes | None = None
    for row in rows:
        ref, index, first, size, *_, commitment, link_, space, kind, id, stream, alive = row
        if index is None:
            if (space, ref) == at:
                continue
            if at is not None and expected != length:
                yield f"{name}: records {expected} to {length - 1} are missing"
            counts["tombstones" if not alive else "streams" if stream else "documents"] += 1
            at, name, chain = ((space, ref) if stream else None), f"{kind} {id!r} in {space!r}", link_
            expected, length = first, size
            continue
        counts["records"] += 1
        if index != expected:
            yield f"{name}: records {expected} to {index - 1} are missing"
        expected = index + 1
        chain = link(chain, commitment)
        if chain != link_:
            yield f"{name}: the hash chain breaks at record {index}"
            chain = link_
    if at is not None and expected != length:
        yield f"{name}: records {expected} to {length - 1} are missing"
