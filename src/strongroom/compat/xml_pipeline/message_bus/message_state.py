"""What handlers are told and answer, and what flows through a pump: the known place of these names."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.messages import (
    RESPOND_TO_CALLER,
    ROUTING_ERROR,
    HandlerMetadata,
    HandlerResponse,
    MessageState,
    SystemError,
)

__all__ = ["RESPOND_TO_CALLER", "ROUTING_ERROR", "HandlerMetadata", "HandlerResponse", "MessageState", "SystemError"]
