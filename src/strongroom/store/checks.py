"""Reasons to refuse a commit, in the same words whichever store refuses it. Pure."""

from __future__ import annotations

import msgspec

from strongroom.errors import BudgetExceeded, Conflict, InvalidInput
from strongroom.store.claims import Claim
from strongroom.store.commits import EXISTS, Append, Commit, Expect, Put, Receipt
from strongroom.store.names import Key

MAX_RECORD_BYTES = 16 * 1024 * 1024


def check_expectation(expect: Expect, actual: int) -> None:
    """Raise `Conflict` unless a key whose current version is `actual` (0: absent) meets the expectation."""
    if expect.version == actual or (expect.version == EXISTS and actual > 0):
        return
    key = expect.key
    wanted = {0: "not to exist", EXISTS: "to exist"}.get(expect.version, f"to be at {expect.version}")
    found = f"it is at {actual}" if actual else "it does not exist"
    raise Conflict(
        f"{key.kind} {key.id!r} was expected {wanted}, but {found}; nothing changed",
        expected=expect.version,
        actual=actual,
        key=key,
    )


def repeat_of(commit: Commit, receipt: Receipt) -> Receipt:
    """Return the first receipt of a commit that is made again; refuse one that asks for something else."""
    if receipt.digest != commit.digest:
        raise used_otherwise(commit.id)
    return msgspec.structs.replace(receipt, repeated=True)


def used_otherwise(id: str) -> InvalidInput:
    """Say that an id was used before, and not for this."""
    return InvalidInput(
        f"the commit id {id!r} was used before with other content; nothing changed (an id stands for one "
        "operation with one content: repeat the first with what it said, give something else another id)",
        path="commit_id",
    )


def claimed(claim: Claim) -> Conflict:
    """Say that another document has what a commit claims."""
    return Conflict(
        f"another {claim.kind} has {claim.name[1:]} {claim.value!r:.80}; nothing changed",
        expected=0,
        actual=1,
    )


def check_length(write: Append, length: int) -> None:
    """Raise `BudgetExceeded` if the append would pass its own `max_length`."""
    if write.max_length is None:
        return
    needed = length + len(write.entries)
    if needed > write.max_length:
        raise BudgetExceeded(
            f"{write.key.kind} {write.key.id!r} holds {length} records and may hold {write.max_length}; "
            "nothing changed",
            limit=write.max_length,
            needed=needed,
        )


def check_sizes(commit: Commit, limit: int) -> None:
    """Raise `InvalidInput` if any value or record of the commit is larger than `limit` bytes."""
    for write in commit.writes:
        if type(write) is Append:
            for entry in write.entries:
                if (size := len(entry.body) + (len(entry.text) if entry.text else 0)) > limit:
                    raise _too_large(f"{write.key.kind} of {write.key.id!r}", size, limit)
        elif type(write) is Put and len(write.value) > limit:
            raise _too_large(f"{write.key.kind} {write.key.id!r}", len(write.value), limit)


def wrong_shape(key: Key, is_stream: bool, *, writing: bool = True) -> InvalidInput:
    """Say that a write or a question does not fit the shape its key already has."""
    has, not_a = ("stream", "document") if is_stream else ("document", "stream")
    return InvalidInput(f"{key.kind} {key.id!r} is a {has}, not a {not_a}" + "; nothing changed" * writing)


def _too_large(what: str, size: int, limit: int) -> InvalidInput:
    return InvalidInput(f"a record ({what}) of {size} bytes is over the limit of {limit}; nothing changed")
