"""Messages as ContextStore sees them: an id, a content, perhaps metadata, and a time.

What a caller gives comes back as it was given; only what is missing is filled in. Three things are put into shape:

* something that is no mapping becomes the `content["data"]` of a message;
* a mapping with neither a role nor a content is data, and becomes the content of a message;
* an `Interaction` becomes its dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.services.sessions.records import Draft, entry
from strongroom.services.sessions.state import State
from strongroom.store import MAX_RECORD_BYTES
from strongroom.tokens.counting import tokenizer

_COUNTING = tokenizer("default")
_ANY = State("", 0, _COUNTING.name, _COUNTING.name)
OWN = ("id", "content", "metadata", "timestamp")


@dataclass
class Interaction:
    """One message whose content is a mapping."""

    id: str = field(default_factory=lambda: str(uuid4()))
    content: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None
    timestamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict, without metadata if there is none."""
        made = {"id": self.id, "content": self.content, "timestamp": self.timestamp}
        return made if self.metadata is None else {**made, "metadata": self.metadata}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Interaction:
        """Make an interaction of a dict. Whatever has no field of its own goes into the content."""
        content = data.get("content", {})
        extra = {name: value for name, value in data.items() if name not in OWN}
        if not isinstance(content, Mapping) or set(content) & set(extra):
            # A content with a name that is also given outside keeps it, one level down: neither value is lost.
            content = {"data": content}
        given = {name: data[name] for name in OWN if name != "content" and data.get(name) is not None}
        return cls(content={**content, **extra}, **given)


def messages(context: Iterable[Any]) -> list[dict[str, Any]]:
    """Put what a caller wants to save into shape, each message with an id and a time."""
    made = shaped(context)
    for message in made:
        message.setdefault("id", str(uuid4()))
    return made


def require_storable(message: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a message that no store takes, which would keep the others of its session out."""
    made = entry(Draft(message, message["id"], 0, encode(message)), _ANY, _COUNTING, 0)
    size = len(made.body) + len(made.text or "")
    if size > MAX_RECORD_BYTES:
        raise InvalidInput(f"a record of {size} bytes is over the limit of {MAX_RECORD_BYTES}")


def shaped(context: Iterable[Any]) -> list[dict[str, Any]]:
    """Put what a caller wants to save into shape, each message with a time, and with an id only if it brought one."""
    now = datetime.now(UTC)
    made = []
    for place, one in enumerate(context):
        message = _shaped(one)
        if message.get("id", "") is None:
            del message["id"]
        if message.get("timestamp") is None:
            # A microsecond apart, so that sorting by time never swaps a question and its answer.
            message["timestamp"] = (now + timedelta(microseconds=place)).isoformat()
        made.append(message)
    return made


def _shaped(one: Any) -> dict[str, Any]:
    if isinstance(one, Interaction):
        return one.to_dict()
    if not isinstance(one, Mapping):
        return {"content": {"data": one}}
    if "content" in one or "role" in one:
        return dict(one)
    content = {name: value for name, value in one.items() if name not in OWN}
    return {"content": content, **{name: one[name] for name in OWN if name in one}}
