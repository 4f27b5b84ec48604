"""A commit as the arguments of one call, and the call's answer as a receipt or a refusal. Nothing here does I/O."""

from __future__ import annotations

import os
from typing import Any

from strongroom.backends.postgres.reads import Row, receipt
from strongroom.backends.postgres.tokens import tokens_of
from strongroom.backends.postgres.wire import MAX, bigints, blobs, labels, texts
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Damaged
from strongroom.store import (
    OUR_SECONDS,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Put,
    Receipt,
    Truncate,
    Write,
    check_expectation,
    check_length,
    claimed,
    claims_of,
    repeat_of,
    wrong_shape,
)

PUT, APPEND, TRUNCATE, ERASE, DELETE = 1, 2, 3, 4, 5
DONE, EXPECTATION, SHAPE, LENGTH, VOID, CLAIMED, REPEATED = 0, 1, 2, 3, 4, 5, 6

HURRY_MILLISECONDS = 100

CALL = f"SELECT outcome, place, actual, versions, digest, answer FROM :schema.commit({', '.join(['%b'] * 34)})"


def arguments(commit: Commit, timeout_seconds: float, kept_seconds: float) -> tuple[Any, ...]:
    """Return what the SQL function `commit` takes, but for the call and the number of the copy, which come last.

    Keys are sorted: they are locked in that order.
    """
    claims = claims_of(commit)
    keys = sorted({part.key for part in (*commit.expects, *commit.writes)})
    places = {key: place for place, key in enumerate(keys, 1)}
    # A removal creates nothing, so it does not say in which order things came into being.
    creating = [write.key for write in commit.writes if type(write) is Put or type(write) is Append]
    births = {key: rank for rank, key in enumerate(dict.fromkeys((*creating, *keys)), 1)}
    shapes = [0] * len(keys)
    rows: list[tuple[Any, ...]] = []
    entries: list[Entry] = []
    entry_words: list[str | None] = []
    for write in commit.writes:
        place = places[write.key]
        rows.append((_OPS[type(write)], place, *_bounds(write), *_content(write)))
        if type(write) is Append:
            entries += write.entries
            entry_words += [tokens_of(write.key, entry.text) for entry in write.entries]
        if type(write) is not Delete and not shapes[place - 1]:
            shapes[place - 1] = 1 if type(write) is Put else 2
    if not any(entry_words):
        entry_words = []
    ops, targets, froms, tos, values, tags, digests, found, words = zip(*rows, strict=True) if rows else ((),) * 9
    return (
        commit.space,
        commit.id,
        _patience(timeout_seconds),
        commit.digest,
        commit.answer,
        kept_seconds if commit.keep else OUR_SECONDS,
        texts([key.kind for key in keys]),
        texts([key.id for key in keys]),
        bigints(shapes),
        bigints([births[key] for key in keys]),
        bigints([places[expect.key] for expect in commit.expects]),
        bigints([min(expect.version, MAX) for expect in commit.expects]),
        texts([claim.kind for claim in claims]),
        blobs(labels({claim.name: claim.value}) for claim in claims),
        bigints(ops),
        bigints(targets),
        bigints(froms),
        bigints(tos),
        blobs(values),
        blobs(tags),
        blobs(digests),
        texts(found),
        texts(words),
        texts([entry.type for entry in entries]),
        blobs(entry.body for entry in entries),
        bigints([entry.weight for entry in entries]),
        bigints([entry.at for entry in entries]),
        texts([entry.sender for entry in entries]),
        texts([entry.receiver for entry in entries]),
        texts([entry.text for entry in entries]),
        blobs(entry.commitment for entry in entries),
        texts(entry_words),
    )


def new_call() -> int:
    """Return a number for one call of `commit` by a program, however often its commit is then sent."""
    return int.from_bytes(os.urandom(8)) >> 1


def settled(commit: Commit, row: Row | None) -> Receipt:
    """Return the receipt, or raise what the function found."""
    if row is None:
        raise Damaged("the database gave no answer to a commit", reason="corrupt")
    outcome, place, actual, versions, digest, answer = row
    if outcome == DONE:
        return Receipt(commit.id, tuple(versions), commit.digest, commit.answer)
    if outcome == REPEATED:
        return repeat_of(commit, receipt(commit.id, versions, digest, answer))
    if outcome == VOID:
        raise CommitUnknown(
            "a later copy of the commit was answered before this one; repeat it with the same id",
            reason="connection",
            commit_id=commit.id,
        )
    if outcome == EXPECTATION:
        check_expectation(commit.expects[place - 1], actual)
    if outcome == CLAIMED:
        raise claimed(claims_of(commit)[place - 1])
    write = commit.writes[place - 1]
    if outcome == SHAPE:
        raise wrong_shape(write.key, is_stream=bool(actual))
    assert type(write) is Append
    check_length(write, actual)
    raise AssertionError("the database refused a commit that meets every condition")


def in_a_hurry(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the same arguments for a commit that keeps others waiting: it must not wait long for a lock."""
    return _waiting(arguments, HURRY_MILLISECONDS)


def while_left(arguments: tuple[Any, ...], seconds: float) -> tuple[Any, ...]:
    """Return the same arguments for a commit of which only so much time is left."""
    return _waiting(arguments, _patience(seconds))


def _waiting(arguments: tuple[Any, ...], milliseconds: int) -> tuple[Any, ...]:
    return (*arguments[:2], min(arguments[2], milliseconds), *arguments[3:])


def _patience(seconds: float) -> int:
    """Return how long to wait for a lock: half the time, as the refusal must come back before the caller gives up."""
    return max(1, round(seconds * 500))


def size(commit: Commit) -> int:
    """Return about how many bytes a commit takes on the way."""
    appended = sum(len(entry.body) for write in commit.writes if type(write) is Append for entry in write.entries)
    return (
        1000
        + len(commit.answer or b"")
        + appended
        + sum(len(write.value) for write in commit.writes if type(write) is Put)
    )


_OPS: dict[type[Write], int] = {Put: PUT, Append: APPEND, Truncate: TRUNCATE, Erase: ERASE, Delete: DELETE}


def _bounds(write: Write) -> tuple[int, int]:
    if type(write) is Append:
        return len(write.entries), -1 if write.max_length is None else min(write.max_length, MAX)
    if type(write) is Truncate:
        return _fit(write.before), 0
    if type(write) is Erase:
        return _fit(write.start), _fit(write.stop)
    return 0, 0


def _content(write: Write) -> tuple[bytes | None, bytes | None, bytes | None, str | None, str | None]:
    if type(write) is not Put:
        return None, None, None, None, None
    tags = encode(write.tags) if write.tags else None
    return write.value, tags, labels(write.tags), write.text, tokens_of(write.key, write.text, write.tags)


def _fit(index: int) -> int:
    return max(-1, min(index, MAX))
