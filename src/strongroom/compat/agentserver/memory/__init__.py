"""`xml_pipeline.memory` under its earlier name."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.memory import (
    BackendConfig,
    BufferSlot,
    ContextBuffer,
    SharedBackend,
    SlotMetadata,
    ThreadContext,
    get_context_buffer,
    get_shared_backend,
    reset_context_buffer,
    slot_to_handler_metadata,
)

__all__ = [
    "BackendConfig",
    "BufferSlot",
    "ContextBuffer",
    "SharedBackend",
    "SlotMetadata",
    "ThreadContext",
    "get_context_buffer",
    "get_shared_backend",
    "reset_context_buffer",
    "slot_to_handler_metadata",
]
