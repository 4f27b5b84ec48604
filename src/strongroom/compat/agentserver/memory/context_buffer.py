"""`xml_pipeline.memory.context_buffer` under its earlier name."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.memory.context_buffer import (
    BufferSlot,
    ContextBuffer,
    SlotMetadata,
    ThreadContext,
    get_context_buffer,
    reset_context_buffer,
    slot_to_handler_metadata,
)

__all__ = [
    "BufferSlot",
    "ContextBuffer",
    "SlotMetadata",
    "ThreadContext",
    "get_context_buffer",
    "reset_context_buffer",
    "slot_to_handler_metadata",
]
