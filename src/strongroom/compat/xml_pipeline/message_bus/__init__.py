"""Call chains, handlers, and the pump that brings messages to them."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.message_bus.stream_pump import (
    ConfigLoader,
    Listener,
    ListenerConfig,
    OrganismConfig,
    StreamPump,
    bootstrap,
)
from strongroom.compat.xml_pipeline.messages import HandlerMetadata, HandlerResponse, MessageState

__all__ = [
    "ConfigLoader",
    "HandlerMetadata",
    "HandlerResponse",
    "Listener",
    "ListenerConfig",
    "MessageState",
    "OrganismConfig",
    "StreamPump",
    "bootstrap",
]
