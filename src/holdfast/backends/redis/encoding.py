"""From questions and commits to the keys and arguments of a script. Pure: no connection, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Packer
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from holdfast.backends.redis.layout import SEP, Layout, field, tag_pair
from holdfast.codec import Json
from holdfast.errors import InvalidInput
from holdfast.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Get,
    Key,
    Put,
    Question,
    Range,
    Record,
    Scan,
    Tail,
    Truncate,
    Write,
    cursor,
)

# A script stops the whole server while it runs, and one that has written can not be stopped. These bounds keep a commit
# well below a second or two; MAX_KEYS also keeps its one deciding HSET within what Lua can pass to a command.
MAX_KEYS = 1900
MAX_COST = 100_000
CHAINED_COST = 5
MAX_BYTES = 256 * 1024 * 1024

CRC = Packer(">I")
LIMB = 2**52
ORDER_DIGITS = 16

_pack = msgspec.msgpack.Encoder().encode


class Call(NamedTuple):
    """What a script is called with."""

    keys: list[bytes]
    arguments: list[Any]


class Attempt(NamedTuple):
    """What tells one sending of a commit from another: the receipt that must still be there, a name for the caller's
    call, how often it was sent, and whether a repeat must write too (so that the disk can be waited for)."""

    last: str
    call: str
    number: int
    touch: bool


def check_batch(commit: Commit) -> None:
    """Raise `InvalidInput` if a commit would keep the server busy for too long."""
    cost, size = len(commit.expects) + len(commit.writes), 0
    for write in commit.writes:
        if type(write) is Append:
            for entry in write.entries:
                cost += 1 if entry.commitment is None else CHAINED_COST
                size += len(entry.body) + len(entry.text or "")
        elif type(write) is Put:
            size += len(write.value) + len(write.text or "")
    keys = len({part.key for part in (*commit.expects, *commit.writes)})
    if keys > MAX_KEYS or cost > MAX_COST or size > MAX_BYTES:
        raise InvalidInput(
            f"one commit to a redis store may touch {MAX_KEYS} keys, {MAX_COST} records (a chained one counts "
            f"{CHAINED_COST}) and {MAX_BYTES} bytes; this one has {keys}, {cost} and {size}. Split it; nothing changed"
        )


def encode_commit(layout: Layout, commit: Commit) -> Call:
    """Return keys and arguments; `with_attempt` puts what differs between attempts in front."""
    places: dict[Key, int] = {}
    for part in (*commit.expects, *commit.writes):
        places.setdefault(part.key, len(places) + 1)
    space = commit.space
    keys = [layout.heads(space), layout.index(space), layout.expiry(space), *map(layout.records, places)]
    arguments: list[Any] = [len(places), *map(field, places), len(commit.expects)]
    for expect in commit.expects:
        arguments += (places[expect.key], expect.version)
    arguments.append(len(commit.writes))
    try:
        for write in commit.writes:
            _add_write(arguments, write, places[write.key])
    except UnicodeEncodeError:
        raise InvalidInput("text holds a lone surrogate; nothing changed") from None
    except OverflowError:
        raise InvalidInput("a record's time must fit in 64 bits; nothing changed") from None
    return Call(keys, arguments)


def with_attempt(call: Call, commit_id: str, attempt: Attempt) -> Call:
    """Return the call as it is sent the nth time."""
    first = [commit_id.encode(), attempt.last.encode(), attempt.call, attempt.number, int(attempt.touch)]
    return Call(call.keys, first + call.arguments)


def _add_write(arguments: list[Any], write: Write, place: int) -> None:
    if type(write) is Put:
        arguments += (b"P", place, *pack_document(write.key, write.value, write.tags, write.text))
    elif type(write) is Append:
        most = -1 if write.max_length is None else write.max_length
        arguments += (b"A", place, most, len(write.entries))
        seed = crc32(field(write.key))
        for entry in write.entries:
            _add_entry(arguments, entry, seed)
    elif type(write) is Truncate:
        arguments += (b"T", place, write.before)
    elif type(write) is Erase:
        arguments += (b"E", place, write.start, write.stop)
    elif type(write) is Delete:
        arguments += (b"D", place)


def _add_entry(arguments: list[Any], entry: Entry, seed: int) -> None:
    arguments += (entry.weight, entry.commitment or b"", pack_kept(entry, seed), pack_erasable(entry, seed))


def pack_kept(entry: Entry | Record, seed: int) -> bytes:
    """Pack what a record keeps for good, behind its checksum."""
    kept = _pack((entry.type, entry.at, entry.commitment))
    return CRC.pack(crc32(kept, seed)) + kept


def pack_erasable(entry: Entry | Record, seed: int) -> bytes:
    """Pack what `Erase` removes; nothing is left of a record that was erased."""
    if entry.body is None:
        return b""
    # Plain bytes: the packer does not know our Json.
    erasable = _pack((bytes(entry.body), entry.sender, entry.receiver, entry.text))
    return CRC.pack(crc32(erasable, seed)) + erasable


def pack_document(key: Key, value: Json, tags: dict[str, str], text: str | None) -> tuple[bytes, bytes, bytes]:
    """Return a document's checksum, content and tags as they are stored."""
    content = _pack((bytes(value), text))
    pairs = b"".join([tag_pair(name, tags[name]) for name in sorted(tags)])
    return b"%08x" % crc32(content, crc32(field(key))), content, pairs


def encode_questions(layout: Layout, questions: Sequence[Question]) -> Call:
    """Return keys and arguments that ask all questions at once."""
    numbers: dict[bytes, int] = {}

    def number(key: bytes) -> int:
        return numbers.setdefault(key, len(numbers) + 1)

    arguments: list[Any] = [len(questions)]
    for question in questions:
        if type(question) is Scan:
            heads, index = number(layout.heads(question.space)), number(layout.index(question.space))
            arguments += (b"S", heads, index, *_scan(question))
            continue
        key = question.key  # type: ignore[union-attr]
        heads = number(layout.heads(key.space))
        if type(question) is Get:
            arguments += (b"G", heads, field(key))
            continue
        arguments += (b"R" if type(question) is Range else b"T", heads, number(layout.records(key)), field(key))
        if type(question) is Range:
            arguments += (question.start, _or_none(question.stop), _or_none(question.limit))
        elif type(question) is Tail:
            high, low = (-1, 0) if question.max_weight is None else divmod(question.max_weight, LIMB)
            arguments += (_or_none(question.count), _or_none(question.before), high, low)
    return Call(list(numbers), arguments)


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def _scan(scan: Scan) -> list[Any]:
    edge = cursor(scan)
    arguments: list[Any] = [scan.kind.encode(), int(scan.reverse), scan.limit, len(scan.tags) or 1]
    try:
        pairs = [tag_pair(name, value) for name, value in scan.tags.items()] or [b""]
    except UnicodeEncodeError:
        raise InvalidInput("a tag holds a lone surrogate") from None
    for pair in pairs:
        start = scan.kind.encode() + SEP + pair + SEP
        low, high = b"[" + start, b"(" + start + b"\xff"
        if edge is not None and scan.reverse:
            high = b"(" + start + _padded(edge)
        elif edge is not None:
            low = b"[" + start + _padded(edge + 1)
        arguments += (pair, low, high)
    return arguments


def _padded(order: int) -> bytes:
    # Orders have 16 digits; a made-up cursor beyond them must still sort after all of them.
    return b"%016d" % order if order < 10**ORDER_DIGITS else b":"
