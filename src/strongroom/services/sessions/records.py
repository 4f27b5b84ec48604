"""A message as a record of a stream, and back. Pure.

The text is kept once: in the record's `text`, where it can be searched. The body holds everything else, so for most
messages it is `{}`. A body that needs a note of its own is a pair `[rest, note]`:

* `parts`: the places and lengths of the text parts that `text` joins with line feeds
* `by`: the tokenizer that counted the weight, if not the session's first
* `mark`: a random word by which the record is found from where it was expected
* `free`: the message's id is data of its writer's, may occur again and names nothing
* `sidecar`: what its writer wants back with it, neither counted nor sent nor searched
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from strongroom.codec import Json, encode
from strongroom.errors import InvalidInput
from strongroom.services.sessions.state import LONGEST_ID, Naming, State, check_id
from strongroom.services.sessions.values import Message, plain_message
from strongroom.store import Entry, Record
from strongroom.tokens import Tokenizer, count_message
from strongroom.tokens.counting import Absent
from strongroom.tokens.relevance import text_parts

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
OTHER = "other"
SIDECAR_DEPTH = 2  # how deep a sidecar stands in the body of its record
PLAIN = b"{}"  # the body of most messages: nothing beside a role and a text


class Draft(Struct, frozen=True):
    """A message on its way in: as given, with its own id if it brought one."""

    value: dict[str, Any]
    id: str | None
    tokens: int
    json: Json
    sidecar: Any = None


def draft(
    message: object, tokenizer: Tokenizer, tokens: int | None = None, *, sidecar: Any = None, named: bool = True
) -> Draft:
    """Check one message and count it, unless somebody has. It is `named` by its id, or that is just data."""
    if not isinstance(message, Mapping):
        raise InvalidInput(
            f"a message must be a mapping such as {{'role': ..., 'content': ...}}, not {message!r:.60}"
            + (": pass its .model_dump(exclude_none=True)" if hasattr(message, "model_dump") else "")
        )
    # Counting encodes what it does not know as text, which refuses whatever is not JSON; so it comes after the check.
    json = encode(dict(message))
    stored = json.load()
    value = {name: stored[name] for name in message}  # in the caller's order, with nothing that the caller could change
    given = value.get("id") if named else None
    count = count_message(value, tokenizer) if tokens is None else tokens
    if sidecar is not None:
        sidecar = encode(sidecar, depth=SIDECAR_DEPTH).load()
    return Draft(value, None if given is None else check_id(given), count, json, sidecar)


def entry(one: Draft, state: State, tokenizer: Tokenizer, at: int, mark: str | None = None) -> Entry:
    """Return the record to append for a message."""
    rest = dict(one.value)
    role = rest.get("role")
    kind = OTHER
    if isinstance(role, str) and role in ROLES:
        kind = role
        del rest["role"]
    note: dict[str, Any] = {}
    text = _lift(rest, note)
    if tokenizer.name != state.counted_by:
        note["by"] = tokenizer.name
    if mark is not None:
        note["mark"] = mark
    if one.id is None and isinstance(rest.get("id"), str):
        note["free"] = True
    if one.sidecar is not None:
        note["sidecar"] = one.sidecar
    return Entry(kind, encode([rest, note] if note else rest), weight=one.tokens, at=at, text=text)


def opened(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put the message of a record together again, as fresh objects; return it and its note."""
    value: dict[str, Any] = {}
    note: dict[str, Any] = {}
    if record.body is not None and record.body != PLAIN:
        body = record.body.load()
        value, note = body if type(body) is list else (body, note)
    if record.type in ROLES:
        value["role"] = record.type
    if record.text is not None:
        if "parts" in note:
            _settle(value["content"], record.text, note["parts"])
        else:
            value["content"] = record.text
    return value, note


def counted_by(record: Record, state: State) -> str:
    """Return the name of the tokenizer that counted the weight of a record."""
    return str(opened(record)[1].get("by", state.counted_by))


def own_id(record: Record) -> str | None:
    """Return the id a message was given by its writer, or None if it is named by its index."""
    if record.body is None or record.body == PLAIN:
        return None
    return _own_id(*opened(record))


def _own_id(value: dict[str, Any], note: dict[str, Any]) -> str | None:
    given = value.get("id")
    return given if isinstance(given, str) and 0 < len(given) <= LONGEST_ID and "free" not in note else None


def message(
    record: Record, state: State, naming: Naming, tokenizer: Tokenizer, recounted: int | None = None
) -> Message:
    """Return the message of a record with its tokens: its weight if `tokenizer` counted that, else counted anew.

    Where the tokenizer is absent, the weight that another one counted has to do.
    """
    value, note = opened(record)
    tokens = record.weight
    if note.get("by", state.counted_by) != tokenizer.name:
        if recounted is not None:
            tokens = recounted
        elif type(tokenizer) is not Absent:
            tokens = count_message(value, tokenizer)
    return _message(record, value, note, naming, tokens)


def messages(
    records: Iterable[Record], state: State, naming: Naming, tokenizer: Tokenizer, recounted: Mapping[int, int]
) -> list[Message]:
    """Return the messages of many records, in one pass over those that are nothing but a role and a text."""
    counted, name = state.counted_by == tokenizer.name, naming.id
    return [
        plain_message(one.type, one.text, name(one.index), one.index, one.at, one.weight)
        if counted and one.body == PLAIN and one.text is not None and one.type in ROLES
        else message(one, state, naming, tokenizer, recounted.get(one.index))
        for one in records
    ]


def message_of(record: Record, naming: Naming, tokens: int) -> Message:
    """Return the message of a record that is known to have so many tokens."""
    return _message(record, *opened(record), naming, tokens)


def _message(record: Record, value: dict[str, Any], note: dict[str, Any], naming: Naming, tokens: int) -> Message:
    return Message(
        value,
        id=_own_id(value, note) or naming.id(record.index),
        index=record.index,
        micros=record.at,
        tokens=tokens,
        sidecar=note.get("sidecar"),
    )


def _lift(rest: dict[str, Any], note: dict[str, Any]) -> str | None:
    """Take the text out of a message, leaving what is needed to put it back."""
    content = rest.get("content")
    if isinstance(content, str):
        # Not every database can hold U+0000 in a text; an empty text is no different from none in some.
        if not content or "\0" in content:
            return None
        del rest["content"]
        return content
    parts = [(place, text) for place, text in text_parts(content) if text and "\0" not in text]
    if not parts:
        return None
    lifted = [dict(part) if isinstance(part, Mapping) else part for part in content]  # type: ignore[union-attr]
    for place, _ in parts:
        del lifted[place]["text"]
    rest["content"] = lifted
    note["parts"] = [[place, len(text)] for place, text in parts]
    return "\n".join(text for _, text in parts)


def _settle(content: list[Any], text: str, parts: list[tuple[int, int]]) -> None:
    at = 0
    for place, length in parts:
        content[place]["text"] = text[at : at + length]
        at += length + 1
