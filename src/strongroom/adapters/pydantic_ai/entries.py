"""Entries of a conversation as messages of a session, and back. Pure.

A message is kept verbatim in its sidecar, as the JSON that Pydantic AI makes of it; beside it stands what was said, for
searches and windows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from msgspec import Struct
from pydantic_ai.conversation_store import ConversationEntry
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)

from strongroom.adapters.exact import is_exact
from strongroom.codec import encode
from strongroom.services.sessions.records import Draft, draft, opened
from strongroom.store import Record
from strongroom.tokens import Tokenizer

CODEC = "pydantic_ai.ModelMessage/1"


class EntryPosition(Struct, frozen=True):
    """Where an entry stands, and the entry before it: that stays when its message is erased."""

    name: str
    index: int
    parent: str | None


class Found(Struct, frozen=True):
    """An entry as it was read: its message is still JSON, because many are cheaper to make at once."""

    index: int
    id: str
    parent: str | None
    message: bytes


def drafted(entry: ConversationEntry, tokenizer: Tokenizer) -> Draft:
    """Return the message of a session that an entry is."""
    text = ModelMessagesTypeAdapter.dump_json([entry.message])[1:-1].decode()
    whole = json.loads(text)
    kept = {"message": whole} if is_exact(whole) else {"json": text}
    said = {"role": role_of(entry.message), "content": spoken(entry.message)}
    sidecar = {"codec": CODEC, "entry": entry.id, "parent": entry.parent_id, **kept}
    return draft(said if is_exact(said) else {"role": said["role"]}, tokenizer, sidecar=sidecar, named=False)


def follow(records: Sequence[Record], wanted: str | None, place: EntryPosition) -> tuple[list[Found], str | None, bool]:
    """Follow a history through records that end at its newest entry, or before it: the newest first.

    Return the entries, the one wanted next, and whether the records before these may tell on. They may not after an
    erased one: whether that is part of the history, only the place of the wanted entry says.
    """
    found = list[Found]()
    for record in reversed(records):
        if wanted is None:
            break
        if record.body is None:
            if record.index != place.index:
                return found, wanted, False
            wanted = place.parent
            continue
        sidecar = opened(record)[1].get("sidecar") or {}
        if sidecar.get("entry") == wanted:  # the others are of branches that were left
            message = sidecar["json"].encode() if "json" in sidecar else encode(sidecar["message"])
            found.append(Found(record.index, wanted, sidecar["parent"], message))
            wanted = sidecar["parent"]
    return found, wanted, wanted is not None


def entries_of(found: Iterable[Found]) -> list[ConversationEntry]:
    """Return what was read as entries, in the same order."""
    many = list(found)
    messages = ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(one.message for one in many) + b"]")
    return [
        ConversationEntry(id=one.id, parent_id=one.parent, message=message)
        for one, message in zip(many, messages, strict=True)
    ]


def role_of(message: ModelMessage) -> str:
    if isinstance(message, ModelResponse):
        return "assistant"
    said = [part for part in message.parts if isinstance(part, UserPromptPart | SystemPromptPart)]
    return "user" if said or not message.parts else "tool"


def spoken(message: ModelMessage) -> str:
    """Return what a message says in words."""
    texts = list[str]()
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            many = [part.content] if isinstance(part.content, str) else part.content
            texts += [one for one in many if isinstance(one, str)]
        elif isinstance(part, ToolReturnPart):
            texts.append(part.model_response_str())
        elif isinstance(content := getattr(part, "content", None), str) and not isinstance(part, ThinkingPart):
            texts.append(content)
    return "\n".join(text for text in texts if text)
