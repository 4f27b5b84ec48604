"""What handlers are told and answer, and what flows through a pump."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape


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

    def __reduce__(self) -> str:
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


@dataclass
class SystemError:
    """What a sender is told if a message could not be handled. It says nothing about who else is there."""

    code: str
    message: str
    retry_allowed: bool = True

    def to_xml(self) -> str:
        """Return it as a message carries it."""
        told = {"code": self.code, "message": self.message, "retry-allowed": "true" if self.retry_allowed else "false"}
        lines = [f"  <{name}>{escape(text)}</{name}>" for name, text in told.items()]
        return "\n".join(['<SystemError xmlns="">', *lines, "</SystemError>"])


ROUTING_ERROR = SystemError("routing", "The message could not be delivered. Check who it is for, and try again.")


@dataclass
class MessageState:
    """A message on its way: as bytes while it comes in, as a payload from then on."""

    raw_bytes: bytes | None = None
    envelope_tree: Any = None
    payload_tree: Any = None
    payload: Any = None
    thread_id: str | None = None
    from_id: str | None = None
    to_id: str | None = None
    target_listeners: list[Any] | None = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
