"""What handlers are told, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class HandlerMetadata:
    """What a handler is told about a message."""

    thread_id: str
    from_id: str
    own_name: str | None = None
    is_self_call: bool = False
    usage_instructions: str = ""
    todo_nudge: str = ""


class _ResponseMarker:
    """Stands for whoever called."""

    def __repr__(self) -> str:
        return "RESPOND_TO_CALLER"


RESPOND_TO_CALLER = _ResponseMarker()


@dataclass
class HandlerResponse:
    """A handler's answer: a payload, and who gets it."""

    payload: Any
    to: str | _ResponseMarker

    @classmethod
    def respond(cls, payload: Any) -> HandlerResponse:
        """Answer whoever called."""
        return cls(payload, RESPOND_TO_CALLER)

    @property
    def is_response(self) -> bool:
        return isinstance(self.to, _ResponseMarker)
