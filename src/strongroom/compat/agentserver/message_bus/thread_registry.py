"""`xml_pipeline.message_bus.thread_registry` under its earlier name."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.message_bus.thread_registry import (
    ThreadRegistry,
    get_registry,
)

__all__ = [
    "ThreadRegistry",
    "get_registry",
]
