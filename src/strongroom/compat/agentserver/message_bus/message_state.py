"""`xml_pipeline.message_bus.message_state` under its earlier name."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.message_bus.message_state import (
    RESPOND_TO_CALLER,
    HandlerMetadata,
    HandlerResponse,
)

__all__ = [
    "RESPOND_TO_CALLER",
    "HandlerMetadata",
    "HandlerResponse",
]
