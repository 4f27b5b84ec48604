"""The port over HTTP: how questions, answers, commits and operations are written on the wire. Pure.

A question or a write is a pair of its name and its fields, in MessagePack, because what a store holds is bytes. JSON
values travel as their canonical bytes; a server checks that they are what `strongroom.codec.encode` would have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strongroom.codec import ENVELOPE, Json, encode, require_few_values, trusted
from strongroom.errors import InvalidInput, SchemaMismatch
from strongroom.operations import Operation, refusing
from strongroom.store import (
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Document,
    Durability,
    Entry,
    Erase,
    Expect,
    Find,
    Found,
    Get,
    Key,
    Page,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    Tail,
    Truncate,
    Write,
)

MEDIA = "application/msgpack"
UPLOAD = "application/octet-stream"  # an operation, its length before it, and then the bytes that go with it
HEAD_BYTES = 4
QUESTIONS: dict[str, Any] = {"get": Get, "range": Range, "tail": Tail, "scan": Scan, "receipt": ReceiptOf}
ANSWERS: dict[type[Any], Any] = {
    Get: Document | None,
    Range: Slice,
    Tail: Slice,
    Scan: Page,
    ReceiptOf: Receipt | None,
}
WRITES: dict[str, Any] = {"put": Put, "append": Append, "truncate": Truncate, "erase": Erase, "delete": Delete}
_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)
_NAMES: dict[type[Any], str] = {kind: name for table in (QUESTIONS, WRITES) for name, kind in table.items()}


class About(Struct, frozen=True):
    """What a server says about the store behind it, to whoever has a key, and what the key may do there.

    `now_ns` is what its clock shows (0: one of before, which does not say), by which clients make their ids.
    """

    space: str
    durability: Durability
    searchable: bool
    role: str
    now_ns: Annotated[int, Meta(ge=0, lt=2**62)] = 0


class Committing(Struct, frozen=True, forbid_unknown_fields=True):
    """A commit whose writes are pairs of a name and its fields."""

    id: str
    expects: tuple[Expect, ...]
    writes: list[tuple[str, Any]]
    digest: bytes
    answer: Json | None
    keep: bool


class OperationRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """An operation as it travels: the space is the key's."""

    name: str
    id: str
    content: Json
    commit_id: str
    besides: Json | None = None
    life: str = ""


class Waiting(Struct, frozen=True):
    """Ask to be told when a stream is longer than `length`."""

    key: Key
    length: int
    timeout_seconds: float


# ---- what a client writes and a server reads ------------------------------------------------------------------------


def dump(value: object) -> bytes:
    """Write plain data, values of the port, and canonical JSON."""
    try:
        return msgspec.msgpack.encode(value, enc_hook=_bytes)
    except UnicodeEncodeError as problem:
        raise InvalidInput(f"text holds a lone surrogate: {problem.object!r:.40}") from None


def dump_questions(questions: Sequence[AnyQuestion]) -> bytes:
    return dump([(_NAMES[type(each)], each) for each in questions])


def load_questions(raw: bytes) -> list[AnyQuestion]:
    return [_one(QUESTIONS, pair, "a question") for pair in _pairs(_unpack(raw))]


def dump_commit(commit: Commit) -> bytes:
    writes = [(_NAMES[type(write)], _without_native(write)) for write in commit.writes]
    with refusing:
        return dump(Committing(commit.id, commit.expects, writes, commit.digest, commit.answer, commit.keep))


def load_commit(raw: bytes) -> Commit:
    with refusing:
        told: Committing = _made(_unpack(raw), Committing)
        writes = tuple(_one(WRITES, pair, "a write") for pair in told.writes)
    return Commit(told.id, told.expects, writes, told.digest, told.answer, told.keep)


def dump_operation(asked: Operation) -> bytes:
    assert asked.commit_id is not None
    told = OperationRequest(asked.name, asked.target.id, asked.content, asked.commit_id, asked.besides, asked.life)
    return dump(told)


def load_operation(raw: bytes) -> OperationRequest:
    try:
        return msgspec.msgpack.decode(raw, type=OperationRequest, dec_hook=_checked)
    except _UNREADABLE as problem:
        raise InvalidInput(f"not an operation ({problem}); nothing changed") from None


def load_find(raw: bytes) -> Find:
    found: Find = _made(_unpack(raw), Find)
    return found


def load_waiting(raw: bytes) -> Waiting:
    waiting: Waiting = _made(_unpack(raw), Waiting)
    return waiting


# ---- what a server writes and a client reads ------------------------------------------------------------------------


def dump_answers(answers: Sequence[Answer], cut: Sequence[int]) -> bytes:
    """Write answers to the first questions, and the places of those that hold only a part (see `paging`)."""
    return dump([[_bare(answer) for answer in answers], cut])


def load_answers(raw: bytes, questions: Sequence[AnyQuestion]) -> tuple[list[Answer], list[int]]:
    answers, cut = load(raw, tuple[list[Any], list[int]])
    try:
        made = [
            msgspec.convert(answer, ANSWERS[type(question)], dec_hook=_ours)
            for answer, question in zip(answers, questions, strict=False)
        ]
    except _UNREADABLE as problem:
        raise _foreign(problem) from None
    if not made or not all(0 <= place < len(made) for place in cut):
        raise SchemaMismatch("the server answered nothing of what was asked", reason="http")
    return made, cut


def dump_found(found: Found) -> bytes:
    matches = tuple(replace(match, record=match.record and _no_native(match.record)) for match in found.matches)
    return dump(replace(found, matches=matches))


def load(raw: bytes, kind: Any) -> Any:
    """Read one value that a server wrote."""
    try:
        return msgspec.msgpack.decode(raw, type=kind, dec_hook=_ours)
    except _UNREADABLE as problem:
        raise _foreign(problem) from None


# ---- small parts ----------------------------------------------------------------------------------------------------


def _bytes(value: Any) -> bytes:
    if type(value) is Json:
        return bytes(value)
    raise InvalidInput(f"{type(value).__name__} cannot be sent")


def _checked(kind: Any, value: Any) -> Any:
    """Accept JSON from outside only as the bytes that `encode` makes of it."""
    if kind is not Json or type(value) is not bytes:
        raise InvalidInput(f"a {kind.__name__} cannot be made of this")
    require_few_values(value)
    try:
        # A little deeper than what is stored: arguments stand in a list or two of their own.
        if (canonical := encode(msgspec.json.decode(value), depth=-ENVELOPE)) == value:
            return canonical
    except (msgspec.DecodeError, RecursionError):
        pass
    raise InvalidInput("a value is not canonical JSON")


def _ours(kind: Any, value: Any) -> Any:
    if kind is not Json:
        return value
    if type(value) is not bytes:
        raise ValueError("JSON travels as bytes")
    return trusted(value)


def _foreign(problem: Exception) -> SchemaMismatch:
    return SchemaMismatch(f"what answered does not speak as a Strongroom server does ({problem})", reason="http")


def _unpack(raw: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(raw)
    except _UNREADABLE as problem:
        raise InvalidInput(f"not valid MessagePack ({problem})") from None


def _made(value: Any, kind: Any) -> Any:
    try:
        # MessagePack has bytes of its own: text is not taken for base64.
        return msgspec.convert(value, kind, dec_hook=_checked, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError) as problem:
        raise InvalidInput(f"{problem}") from None


def _one(table: dict[str, Any], pair: tuple[Any, Any], what: str) -> Any:
    name, fields = pair
    if not isinstance(name, str) or name not in table:
        raise InvalidInput(f"{what} is one of {', '.join(table)}, not {name!r:.40}")
    made = _made(fields, table[name])
    return _without_native(made)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    pairs = _list(value)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InvalidInput("each must be a pair of a name and its fields")
    return [(pair[0], pair[1]) for pair in pairs]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput("a list is missing")
    return value


def _without_native(write: Write | AnyQuestion) -> Write | AnyQuestion:
    """An entry's own object stays in its process; only its JSON travels."""
    if type(write) is Append and any(entry.native is not None for entry in write.entries):
        return replace(write, entries=tuple(_entry(entry) for entry in write.entries))
    return write


def _entry(entry: Entry) -> Entry:
    return entry if entry.native is None else replace(entry, native=None)


def _no_native(record: Record) -> Record:
    return record if record.native is None else replace(record, native=None)


def _bare(answer: Answer) -> Answer:
    if type(answer) is Slice and any(record.native is not None for record in answer.records):
        return replace(answer, records=tuple(map(_no_native, answer.records)))
    return answer
