"""`xml_pipeline.memory.shared_backend` under its earlier name."""

from __future__ import annotations

from strongroom.compat.xml_pipeline.memory.shared_backend import (
    BackendConfig,
    InMemoryBackend,
    ManagerBackend,
    RedisBackend,
    SharedBackend,
    deserialize_slot,
    get_shared_backend,
    serialize_slot,
)

__all__ = [
    "BackendConfig",
    "InMemoryBackend",
    "ManagerBackend",
    "RedisBackend",
    "SharedBackend",
    "deserialize_slot",
    "get_shared_backend",
    "serialize_slot",
]
