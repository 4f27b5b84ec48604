"""Copying everything from one store to another: any backend to any backend, resumable, verified.

Exported items keep versions, tombstones, indexes and hash chains, so expectations made against the old store hold
against the new one, and ledgers still verify. Only receipts stay behind, so a copy knows no commit ids: finish what may
be repeated first. Whoever copies by the command line is told.

Two stores are never mixed: the target must be empty, or hold the beginning of this very copy. As long as the copy is
under way a mark in the target says whose content it will be, and how far it is (`unfinished`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import pack
from strongroom.errors import Conflict, InvalidInput, StoreError
from strongroom.store import (
    Commit,
    Delete,
    Expect,
    Exportable,
    ExportItem,
    ExportPage,
    Get,
    Key,
    Put,
    Store,
    ask,
    new_id,
)
from strongroom.unfinished import MARK, SPACE

STEP = 1_000


class Copied(Struct, frozen=True):
    """What a copy moved: keys, records, and a fingerprint that both stores were found to share."""

    keys: int
    records: int
    fingerprint: str


class Mark(Struct, frozen=True):
    """What a target knows of a copy that is under way: of what, and where it goes on."""

    source: str
    after: str | None = None


class Portable(Store, Exportable, Protocol):
    """A store that can be read and written, and carried."""


def copy(source: Store, target: Store, *, progress: Callable[[int], None] = lambda _moved: None) -> Copied:
    """Copy every space of `source` into `target`, which must be empty, then compare both.

    After an interruption the same call goes on where it was. The source should be quiet: what is written to it
    meanwhile may be missed, and the comparison then says so. `progress` is told the number of records and documents.
    """
    here, there = _portable(source), _portable(target)
    if _mark(here)[0] is not None:
        raise InvalidInput(
            "the source is itself a copy that was interrupted, so parts of it are missing; finish that one first "
            "(nothing was copied)"
        )
    mark, version = _mark(there)
    if mark is None and (key := _anything(there)) is not None:
        raise InvalidInput(
            f"the target is not empty: it holds {key.kind} {key.id!r} in space {key.space!r}, and two stores are never "
            "mixed; name a new one (nothing was copied)"
        )
    identity = _identity(here)
    if mark is not None and mark.source != identity:
        raise InvalidInput(
            "the target holds the beginning of a copy of something else, or the source was written to since; "
            "name a new target (nothing was copied)"
        )
    moved, after = 0, None if mark is None else mark.after
    while True:
        version = _note(there, Mark(identity, after), version)
        exported = here.unload(after, STEP)
        items = _content(exported)
        there.load(items)
        moved += sum(max(len(item.records), 1) for item in items)
        progress(moved)
        after = exported.next
        if after is None:
            break
    wanted, found = survey(here), survey(there)
    if wanted.fingerprint != found.fingerprint:
        raise StoreError(
            f"the copy differs from its source ({found.keys} keys and {found.records} records, expected {wanted.keys} "
            f"and {wanted.records}): was either of them written to meanwhile? Copy again, to a new target",
            reason="differs",
        )
    there.commit(Commit(new_id(), (Expect(MARK, version),), (Delete(MARK),)))
    return found


def survey(store: Exportable) -> Copied:
    """Read everything once and return what there is, with a fingerprint that does not depend on the order of keys."""
    last: Key | None = None
    keys, records, total = 0, 0, 0
    for exported in _export_pages(store):
        for item in _content(exported):
            if item.key != last:  # the stretches of a stream follow each other
                last = item.key
                keys += 1
                total += _head(item)
            records += len(item.records)
            total += sum(_number(repr((item.key, replace(record, native=None)))) for record in item.records)
    return Copied(keys, records, f"{total % 2**256:064x}")


def _identity(store: Exportable) -> str:
    """Return what names a source: all it holds, in the order and in the steps it is unloaded in. Only for the very same
    source does a place to go on from mean anything."""
    digest = sha256()
    for exported in _export_pages(store):
        for item in _content(exported):
            records = tuple(replace(record, native=None) for record in item.records)
            digest.update(repr(replace(item, records=records, tags={})).encode())
            digest.update(repr(sorted(item.tags.items())).encode())
        digest.update(repr(exported.next).encode())
    return digest.hexdigest()


def _export_pages(store: Exportable) -> Iterator[ExportPage]:
    after: str | None = None
    while True:
        exported: ExportPage = store.unload(after, STEP)
        yield exported
        after = exported.next
        if after is None:
            return


def _content(exported: ExportPage) -> list[ExportItem]:
    """Leave out what a copy notes for itself."""
    return [item for item in exported.items if item.key.space != SPACE]


def _anything(store: Exportable) -> Key | None:
    """Return a key that the store holds, if only as a tombstone."""
    for exported in _export_pages(store):
        for item in _content(exported):
            return item.key
    return None


def _portable(store: Store) -> Portable:
    if not isinstance(store, Exportable):
        raise InvalidInput("both stores must be able to move their content; nothing was copied")
    return store


def _mark(store: Store) -> tuple[Mark | None, int]:
    """Return the note in a target, and its version."""
    found = ask(store, Get(MARK))
    return (None, 0) if found is None else (msgspec.json.decode(found.value, type=Mark), found.version)


def _note(store: Store, mark: Mark, version: int) -> int:
    """Write how far the copy is, and return the note's version."""
    try:
        return store.commit(Commit(new_id(), (Expect(MARK, version),), (Put(MARK, pack(mark)),))).versions[0]
    except Conflict as conflict:
        raise Conflict(
            "somebody else copies into the same target; let one of the two come to its end",
            expected=conflict.expected,
            actual=conflict.actual,
        ) from None


def _head(item: ExportItem) -> int:
    """Sum up what is said of a key besides its records: whether it lives, its count, its chain or its value."""
    facts = (item.stream, item.alive, item.version, item.value, item.text, item.chain)
    return _number(repr((item.key, facts, sorted(item.tags.items()))))


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest(), "big")
