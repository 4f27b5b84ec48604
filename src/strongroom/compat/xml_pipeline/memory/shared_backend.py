"""Backends that processes share: each is a Strongroom store, so indexes are unique and limits hold whoever writes.

| backend_type | store |
|---|---|
| `memory` | this process's memory |
| `manager` | a SQLite file: `manager_address`, or a new one in a private temporary folder |
| `redis` | a Redis or Valkey server; `redis_prefix` is the space |

A backend, or its configuration, may be passed to another process, or be there when one is forked: stores are opened
when they are needed, in each process its own. Nothing that is loaded can execute.
"""

from __future__ import annotations

from typing import Any

from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig, SharedBackend
from strongroom.compat.xml_pipeline.memory.manager_backend import ManagerBackend
from strongroom.compat.xml_pipeline.memory.memory_backend import InMemoryBackend
from strongroom.compat.xml_pipeline.memory.redis_backend import RedisBackend
from strongroom.compat.xml_pipeline.memory.slots import deserialize_slot, serialize_slot
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.errors import InvalidInput

__all__ = [
    "BackendConfig",
    "InMemoryBackend",
    "ManagerBackend",
    "RedisBackend",
    "SharedBackend",
    "StoreBackend",
    "deserialize_slot",
    "get_shared_backend",
    "serialize_slot",
]


def get_shared_backend(config: BackendConfig | None = None) -> StoreBackend:
    """Open the backend a configuration names."""
    kinds: dict[str, Any] = {"memory": InMemoryBackend, "manager": ManagerBackend, "redis": RedisBackend}
    config = config or BackendConfig()
    if config.backend_type not in kinds:
        raise InvalidInput(f"Unknown backend type {config.backend_type!r:.40}; there are {', '.join(kinds)}")
    made: StoreBackend = kinds[config.backend_type](config)
    return made
