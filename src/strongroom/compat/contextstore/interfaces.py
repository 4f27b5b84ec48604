"""What a place to keep conversations must do. Subclass it to bring your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class MemoryBackend(ABC):
    """Conversations by session id."""

    @abstractmethod
    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the newest `k` messages in order, or all of them. A session that does not exist is empty."""

    @abstractmethod
    async def save_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        """Make these the session's messages, creating it if need be."""

    @abstractmethod
    async def append_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        """Add messages to a session, or raise `ValueError` if it does not exist."""

    @abstractmethod
    async def delete_session(self, session_id: str) -> None:
        """Remove a session, or raise `ValueError` if it does not exist."""

    @abstractmethod
    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove a message and all after it, or raise `ValueError` if there is no such message or session."""
