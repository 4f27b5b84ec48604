"""Pydantic AI on Strongroom: `StrongroomConversationStore` keeps its conversations as ordinary sessions."""

from __future__ import annotations

from strongroom.adapters.pydantic_ai.conversations import StrongroomConversationStore

__all__ = ["StrongroomConversationStore"]
