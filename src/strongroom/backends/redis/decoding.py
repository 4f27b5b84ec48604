"""From a script's reply to answers and receipts. Pure, and trusting nothing: every byte is checked before it is used.

Only msgpack of fixed plain types and JSON are ever decoded here, so whatever somebody puts into the server is data or
`Damaged`, never code.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from struct import Struct as Packer
from struct import error as struct_error
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from strongroom.backends.redis.encoding import ENTRY
from strongroom.backends.redis.layout import checksum_seed, field, receipt_field
from strongroom.codec import Json
from strongroom.errors import CommitUnknown, Damaged, InvalidInput, StrongroomError
from strongroom.store import (
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Document,
    Get,
    Key,
    Page,
    Part,
    Receipt,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    check_expectation,
    check_length,
    claimed,
    claims_of,
    ended,
    repeat_of,
    wrong_shape,
)

EMPTY = Slice(0, 0, ())
HEAD = Packer(">8sBBdddB")
RECORD = Packer(">8sdB")

_value = msgspec.msgpack.Decoder(tuple[bytes, str | None])
_kept = msgspec.msgpack.Decoder(tuple[str, int])
_erasable = msgspec.msgpack.Decoder(tuple[bytes, str | None, str | None, str | None])


class KeyHead(Struct, frozen=True):
    """What the head of a key says. `count` is a document's version or a stream's length."""

    stream: bool
    alive: bool
    count: int
    first: int = 0
    crc: bytes = b""
    tags: bytes = b""
    base: bytes = b""


# ---- commits --------------------------------------------------------------------------------------------------------


def decode_commit(commit: Commit, reply: bytes | list[Any]) -> Receipt:
    """Return the receipt, or raise what the script refused the commit for."""
    if isinstance(reply, bytes):
        return Receipt(commit.id, _versions(reply), commit.digest, commit.answer)
    if reply[0] == b"repeated" and (receipt := open_receipt(commit.id, reply[1])) is not None:
        return repeat_of(commit, receipt)
    raise _refusal(commit, reply)


def open_receipt(id: str, raw: bytes) -> Receipt | None:
    """Read a receipt as commit.lua wrote it; None if it only voids a copy that was lost."""
    if sha1(receipt_field(id) + raw[8:]).hexdigest()[:8].encode() != raw[:8]:
        raise Damaged(f"the receipt of commit {id!r} does not match its checksum; nothing changed", reason="checksum")
    _, _, versions, what = raw[8:].split(b"|", 3)
    if versions.startswith(b"void"):
        return None
    size = what[0]
    answer = what[1 + size :]
    return Receipt(id, _versions(versions), what[1 : 1 + size], Json(answer) if answer else None, repeated=True)


def _versions(raw: bytes) -> tuple[int, ...]:
    return tuple(map(int, raw.split(b","))) if raw else ()


def _refusal(commit: Commit, reply: Sequence[Any]) -> StrongroomError:
    word, *facts = reply
    try:
        if word == b"conflict":
            check_expectation(commit.expects[facts[0] - 1], facts[1])
        elif word == b"claimed":
            return claimed(claims_of(commit)[facts[0] - 1])
        elif word == b"shape":
            return wrong_shape(commit.writes[facts[0] - 1].key, bool(facts[1]))
        elif word == b"budget":
            write = commit.writes[facts[0] - 1]
            assert type(write) is Append
            check_length(write, facts[1])
        elif word == b"erase":
            return InvalidInput(f"one commit can erase {facts[1]} records at most; nothing changed")
        elif word == b"regressed":
            return Damaged(
                "the server is older than what this process has already acknowledged: a replica that was behind has "
                "taken over, or an old copy was restored. Nothing changed; open the store again if that is what you "
                "want",
                reason="regressed",
            )
        elif word == b"damaged":
            what = " record ".join(_shown(part) for part in facts)
            return Damaged(f"what the server holds for {what} is damaged; nothing changed", reason="corrupt")
    except StrongroomError as refusal:
        return refusal
    return CommitUnknown(
        "the server did not say what became of the commit; repeat it with the same id",
        reason="unreachable",
        commit_id=commit.id,
    )


def _shown(part: Any) -> str:
    return part.decode(errors="replace").replace("\x1f", " ") if isinstance(part, bytes) else str(part)


# ---- questions ------------------------------------------------------------------------------------------------------


def decode_answers(questions: Sequence[AnyQuestion], replies: Sequence[Any]) -> list[Answer]:
    """Open the replies to `encode_questions`, in order."""
    return [_answer(question, reply) for question, reply in zip(questions, replies, strict=True)]


def decode_part(questions: Sequence[AnyQuestion], replies: Sequence[Any]) -> Part:
    """Open the replies to questions within a bound: behind the one that the read ended in stands a word."""
    if not replies or replies[-1] != b"full":
        return Part(decode_answers(questions, replies))
    *before, last = replies[:-1]
    place = len(before)
    asked = questions[place]
    done = decode_answers(questions[:place], before)
    return Part(done) if type(asked) is Get else ended(done, _answer(asked, last))


def _answer(question: AnyQuestion, reply: Any) -> Answer:
    if isinstance(question, Scan):
        return _page(question, reply)
    if isinstance(question, ReceiptOf):
        return None if reply is None else open_receipt(question.id, reply)
    key = question.key
    if reply[0] is None:
        return None if type(question) is Get else EMPTY
    head = open_head(key, reply[0])
    if head.stream == (type(question) is Get):
        raise wrong_shape(key, head.stream, writing=False)
    if not head.alive:
        return None if type(question) is Get else EMPTY
    if type(question) is Get:
        return open_document(key, head, reply[1])
    _, start, stop, *raws = reply
    if len(raws) != stop - start:
        raise Damaged(f"{key.kind} {key.id!r} has fewer records than its head says", reason="gap")
    seed = checksum_seed(key)
    return Slice(head.count, head.first, tuple([_record(key, seed, raw, n) for n, raw in enumerate(raws, start)]))


def open_head(key: Key, raw: bytes) -> KeyHead:
    """Read a head as common.lua wrote it."""
    if len(raw) < HEAD.size or sha1(field(key) + raw[8:]).hexdigest()[:8].encode() != raw[:8]:
        raise Damaged(f"{key.kind} {key.id!r} does not match its checksum", reason="checksum")
    _, stream, alive, count, _, first, size = HEAD.unpack_from(raw)
    one, two = raw[HEAD.size : HEAD.size + size], raw[HEAD.size + size :]
    if stream:
        return KeyHead(True, alive == 1, int(count), int(first), base=one)
    return KeyHead(False, alive == 1, int(count), crc=one, tags=two)


def open_document(key: Key, head: KeyHead, value: bytes | None) -> Document:
    if value is None or b"%08x" % crc32(value, checksum_seed(key)) != head.crc:
        raise Damaged(f"{key.kind} {key.id!r} does not match its checksum", reason="checksum")
    try:
        content, text = _value.decode(value)
    except msgspec.MsgspecError:
        raise Damaged(f"{key.kind} {key.id!r} cannot be read", reason="corrupt") from None
    return Document(key, head.count, Json(content), _tags(key, head.tags), text)


def _tags(key: Key, raw: bytes) -> dict[str, str]:
    texts: list[str] = []
    try:
        while raw:
            size, _, rest = raw.partition(b":")
            texts.append(rest[: int(size)].decode())
            raw = rest[int(size) :]
    except ValueError:
        raise Damaged(f"the tags of {key.kind} {key.id!r} cannot be read", reason="corrupt") from None
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _record(key: Key, seed: int, raw: bytes | None, index: int) -> Record:
    if raw is None:
        raise Damaged(f"{key.kind} {key.id!r}: record {index} is missing", reason="gap")
    try:
        total, stored_index, links = RECORD.unpack_from(raw)
        at = RECORD.size + links
        kept_crc, erasable_crc, size, weight, commits = ENTRY.unpack_from(raw, at)
        erasable = raw[at + size :]
        if (
            sha1(raw[8 : at + 8]).hexdigest()[:8].encode() != total
            or stored_index != index
            or crc32(raw[at + 8 : at + size], seed) != kept_crc
            or erasable_crc != (crc32(erasable, seed) if erasable else 0)
        ):
            raise Damaged(f"{key.kind} {key.id!r}: record {index} does not match its checksum", reason="checksum")
        start = at + ENTRY.size + commits
        type_, time = _kept.decode(raw[start : at + size])
        content, sender, receiver, text = _erasable.decode(erasable) if erasable else _BLANK
    except (ValueError, ArithmeticError, struct_error, msgspec.MsgspecError):
        raise Damaged(f"{key.kind} {key.id!r}: record {index} cannot be read", reason="corrupt") from None
    chain, commitment = raw[RECORD.size : at] or None, raw[start - commits : start] or None
    stored = None if content is None else Json(content)
    return Record(index, type_, stored, int(weight), time, sender, receiver, text, commitment, chain)


_BLANK = (None, None, None, None)


def _page(scan: Scan, reply: Sequence[Any]) -> Page:
    more, *flat = reply
    documents = []
    for place in range(0, len(flat), 4):
        order, name, raw, value = flat[place : place + 4]
        try:
            key = _named(scan, name)
            documents.append(open_document(key, open_head(key, raw), value))
        except Damaged as damage:
            damage.place, damage.id = str(int(order)), (name or b"").decode(errors="replace")
            raise
    return Page(tuple(documents), str(int(flat[-4])) if more and documents else None)


def _named(scan: Scan, name: bytes | None) -> Key:
    try:
        return Key(scan.space, scan.kind, (name or b"").decode())
    except (InvalidInput, UnicodeDecodeError):
        raise Damaged(f"the index of {scan.kind} holds an entry that cannot be read", reason="corrupt") from None
