"""Moving everything from one store to another: any backend to any backend, resumable, verified.

Parcels carry versions, tombstones, indexes and hash chains as they are, so expectations made against the old store hold
against the new one, and ledgers still verify. Only receipts stay behind: finish retries of unknown commits first.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from strongroom.errors import InvalidInput, StoreError
from strongroom.store import Key, Movable, Parcel, Store

STEP = 1_000


class Copied(Struct, frozen=True):
    """What a copy moved: keys, records, and a fingerprint that both stores were found to share."""

    keys: int
    records: int
    fingerprint: str


def copy(
    source: Store,
    target: Store,
    *,
    after: str | None = None,
    progress: Callable[[int, str | None], None] = lambda _records, _cursor: None,
) -> Copied:
    """Copy every space of `source` into `target`, then compare both.

    The source should be quiet: what is written to it meanwhile may be missed, and the comparison then says so.
    `progress` is told the number of records and documents so far, and the cursor to pass as `after` when resuming.
    """
    if not isinstance(source, Movable) or not isinstance(target, Movable):
        raise InvalidInput("both stores must be able to move their content; nothing was copied")
    moved, cursor = 0, after
    while True:
        shipment = source.unload(cursor, STEP)
        target.load(shipment.parcels)
        moved += sum(max(len(parcel.records), 1) for parcel in shipment.parcels)
        cursor = shipment.next
        progress(moved, cursor)
        if cursor is None:
            break
    wanted, found = survey(source), survey(target)
    if wanted.fingerprint != found.fingerprint:
        raise StoreError(
            f"the copy differs from its source ({found.keys} keys and {found.records} records, expected {wanted.keys} "
            f"and {wanted.records}): was the target empty, and the source quiet?",
            reason="differs",
        )
    return found


def survey(store: Movable) -> Copied:
    """Read everything once and return what there is, with a fingerprint that does not depend on the order of keys."""
    last: Key | None = None
    keys, records, total, cursor = 0, 0, 0, None
    while True:
        shipment = store.unload(cursor, STEP)
        for parcel in shipment.parcels:
            if parcel.key != last:  # the stretches of a stream follow each other
                last = parcel.key
                keys += 1
                total += _head(parcel)
            records += len(parcel.records)
            total += sum(_number(repr((parcel.key, replace(record, native=None)))) for record in parcel.records)
        cursor = shipment.next
        if cursor is None:
            return Copied(keys, records, f"{total % 2**256:064x}")


def _head(parcel: Parcel) -> int:
    """Sum up what is said of a key besides its records: whether it lives, its count, its chain or its value."""
    facts = (parcel.stream, parcel.alive, parcel.version, parcel.value, parcel.text, parcel.chain)
    return _number(repr((parcel.key, facts, sorted(parcel.tags.items()))))


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest(), "big")
