"""The context buffer and the backends it can share."""

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
from strongroom.compat.xml_pipeline.memory.shared_backend import (
    BackendConfig,
    SharedBackend,
    deserialize_slot,
    get_shared_backend,
    reset_shared_backend,
    serialize_slot,
)

__all__ = [
    "BackendConfig",
    "BufferSlot",
    "ContextBuffer",
    "SharedBackend",
    "SlotMetadata",
    "ThreadContext",
    "deserialize_slot",
    "get_context_buffer",
    "get_shared_backend",
    "reset_context_buffer",
    "reset_shared_backend",
    "serialize_slot",
    "slot_to_handler_metadata",
]
