"""From questions and commits to the keys and arguments of a script. Pure: no connection, no clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from struct import Struct as Packer
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from strongroom.backends.redis.layout import SEP, Layout, checksum_seed, field, receipt_field, tag_pair
from strongroom.codec import Json
from strongroom.errors import InvalidInput
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    ExportItem,
    Get,
    Key,
    Put,
    Range,
    ReceiptOf,
    Record,
    Scan,
    Tail,
    Truncate,
    Write,
    claims_of,
    cursor,
    settled_by,
)

# A script stops the whole server while it runs, and one that has written cannot be stopped. These bounds keep a commit
# well below a second or two; MAX_KEYS also keeps its one deciding HSET within what Lua can pass to a command. How many
# records it erases is bounded in commit.lua, which knows how many there are.
MAX_KEYS = 1900
MAX_COST = 100_000
CHAINED_COST = 5
MAX_BYTES = 256 * 1024 * 1024

LIMB = 2**52
LONGEST_SECONDS = 10**10  # what is kept longer is kept for ever
ORDER_DIGITS = 16
UNREACHED = 2**60  # no version gets there, so an expectation beyond it fails just the same

# Numbers of any size go as doubles: that is what they are in Lua.
_CRC = _PLACE = Packer(">I").pack
_COUNTS = Packer(">III").pack
_EXPECT = Packer(">Id").pack
_PUT, _APPEND, _TRUNCATE, _ERASE, _DELETE = (
    Packer(format).pack for format in (">cI8s", ">cIdI", ">cId", ">cIdd", ">cI")
)

# What an entry begins with: two checksums, where the part that `Erase` removes begins, weight, size of the commitment.
ENTRY = Packer(">IIIdB")

_pack = msgspec.msgpack.Encoder().encode


class ScriptCall(NamedTuple):
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


def encode_commit(layout: Layout, commit: Commit, kept_seconds: float) -> ScriptCall:
    """Return keys and arguments, or raise `InvalidInput` if a commit would keep the server busy for too long.

    `with_attempt` puts what differs between attempts in front.
    """
    places = places_of((*commit.expects, *commit.writes))
    claims = claims_of(commit)
    arguments: list[Any] = [
        *receipt_arguments(commit, kept_seconds),
        _COUNTS(len(commit.expects), len(claims), len(commit.writes)),
    ]
    for expect in commit.expects:
        arguments.append(_EXPECT(places[expect.key], min(expect.version, UNREACHED)))
    if claims:
        arguments.append(b"".join([_PLACE(places[key]) for key in settled_by(commit)]))
        for claim in claims:
            arguments += (claim.kind.encode(), tag_pair(claim.name, claim.value))
    for write in commit.writes:
        _add_write(arguments, write, places[write.key])
    _check_batch(commit, len(places), arguments)
    return ScriptCall(commit_keys(layout, commit.space, places), arguments)


def receipt_arguments(commit: Commit, kept_seconds: float) -> tuple[str, str, bytes]:
    """Return what a commit's receipt needs to know: its id, how long to keep it, digest and answer."""
    keep = "" if not commit.keep else "inf" if kept_seconds > LONGEST_SECONDS else str(math.ceil(kept_seconds))
    return commit.id, keep, bytes([len(commit.digest)]) + commit.digest + (commit.answer or b"")


def _check_batch(commit: Commit, keys: int, arguments: Sequence[Any]) -> None:
    cost, size = len(arguments), sum(map(len, arguments))
    if cost * CHAINED_COST > MAX_COST:
        appends = [write for write in commit.writes if type(write) is Append]
        chained = sum(entry.commitment is not None for write in appends for entry in write.entries)
        cost += (CHAINED_COST - 1) * chained
    if keys > MAX_KEYS or cost > MAX_COST or size > MAX_BYTES:
        raise InvalidInput(
            f"one commit to a redis store may touch {MAX_KEYS} keys, {MAX_COST} records (a chained one counts "
            f"{CHAINED_COST}) and {MAX_BYTES} bytes; this one has {keys}, {cost} and {size}. Split it; nothing changed"
        )


def places_of(parts: Iterable[Expect | Write | ExportItem]) -> dict[Key, int]:
    """Number the keys of a commit from 1, in the order they are named."""
    places: dict[Key, int] = {}
    for part in parts:
        if part.key not in places:
            places[part.key] = len(places) + 1
    return places


def commit_keys(layout: Layout, space: str, places: Iterable[Key]) -> list[bytes]:
    """Return the keys the commit script works on."""
    return [layout.heads(space), layout.index(space), *map(layout.records, places)]


def with_attempt(call: ScriptCall, attempt: Attempt) -> ScriptCall:
    """Return the call as it is sent the nth time."""
    sending = f"{attempt.call}|{attempt.number}|{attempt.touch:d}"
    return ScriptCall(call.keys, [sending, attempt.last, *call.arguments])


def _add_write(arguments: list[Any], write: Write, place: int) -> None:
    if type(write) is Append:
        most = -1 if write.max_length is None else write.max_length
        arguments.append(_APPEND(b"A", place, most, len(write.entries)))
        seed = checksum_seed(write.key)
        for entry in write.entries:
            arguments.append(pack_entry(entry, seed))
    elif type(write) is Put:
        crc, content, pairs = pack_document(write.key, write.value, write.tags, write.text)
        arguments += (_PUT(b"P", place, crc), content, pairs)
    elif type(write) is Truncate:
        arguments.append(_TRUNCATE(b"T", place, write.before))
    elif type(write) is Erase:
        arguments.append(_ERASE(b"E", place, write.start, write.stop))
    elif type(write) is Delete:
        arguments.append(_DELETE(b"D", place))


def pack_entry(entry: Entry | Record, seed: int) -> bytes:
    """Pack a record as it is stored. What `Erase` removes comes last; nothing is left of it in one that was erased."""
    commitment = entry.commitment or b""
    kept = commitment + _pack((entry.type, entry.at))
    size = ENTRY.size + len(kept)
    # Plain bytes: the packer does not know our Json.
    body = entry.body
    erasable = b"" if body is None else _pack((bytes(body), entry.sender, entry.receiver, entry.text))
    head = ENTRY.pack(0, crc32(erasable, seed) if erasable else 0, size, entry.weight, len(commitment))
    return b"%b%b%b%b" % (_CRC(crc32(kept, crc32(head[8:], seed))), head[4:], kept, erasable)


def pack_document(key: Key, value: Json, tags: dict[str, str], text: str | None) -> tuple[bytes, bytes, bytes]:
    """Return a document's checksum, content and tags as they are stored."""
    content = _pack((bytes(value), text))
    pairs = b"".join([tag_pair(name, tags[name]) for name in sorted(tags)])
    return b"%08x" % crc32(content, checksum_seed(key)), content, pairs


def encode_questions(
    layout: Layout, questions: Sequence[AnyQuestion], touch: bool = False, max_bytes: int | None = None
) -> ScriptCall:
    """Return keys and arguments that ask all questions at once; `touch`: see `Attempt`."""
    numbers: dict[bytes, int] = {}

    def number(key: bytes) -> int:
        return numbers.setdefault(key, len(numbers) + 1)

    arguments: list[Any] = [_or_none(max_bytes), len(questions)]
    for question in questions:
        if isinstance(question, Scan):
            heads, index = number(layout.heads(question.space)), number(layout.index(question.space))
            arguments += (b"S", heads, index, *_scan(question))
            continue
        if isinstance(question, ReceiptOf):
            arguments += (b"C", number(layout.heads(question.space)), receipt_field(question.id), int(touch))
            continue
        key = question.key
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
    return ScriptCall(list(numbers), arguments)


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def _scan(scan: Scan) -> list[Any]:
    edge = cursor(scan)
    arguments: list[Any] = [scan.kind.encode(), int(scan.reverse), scan.limit, len(scan.tags) or 1]
    pairs = [tag_pair(name, value) for name, value in scan.tags.items()] or [b""]
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
