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

import os
import shutil
import tempfile
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import strongroom
from strongroom.compat import stores
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig, SharedBackend
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


class InMemoryBackend(StoreBackend):
    """A backend in this process's memory."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        ctx = strongroom.open("memory://")
        super().__init__(lambda: nullcontext(ctx), config or BackendConfig())

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInput("a memory backend belongs to its process; share a 'manager' or 'redis' one")


class ManagerBackend(StoreBackend):
    """A backend in a SQLite file that processes of this machine share."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        config = config or BackendConfig("manager")
        if config.manager_address is None:
            folder = tempfile.mkdtemp(prefix="strongroom-shared-")
            # Kept in the configuration, so that whoever is handed it opens the same file.
            config.manager_address = str(Path(folder, "shared.db"))
            weakref.finalize(self, _remove, config.manager_address, os.getpid())
        self._address = address = os.fspath(config.manager_address)
        super().__init__(lambda: stores.using(address), config)
        with self.using():
            pass  # a wrong address is told now

    def __reduce__(self) -> tuple[Any, ...]:
        return ManagerBackend, (self.config,)

    def close(self) -> None:
        super().close()
        stores.close(self._address)


class RedisBackend(StoreBackend):
    """A backend on a Redis or Valkey server."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        config = config or BackendConfig("redis")
        space = config.redis_prefix or "default"
        super().__init__(lambda: stores.using(config.redis_url, space), config)
        self._ttl = config.redis_ttl

    def __reduce__(self) -> tuple[Any, ...]:
        return RedisBackend, (self.config,)


def get_shared_backend(config: BackendConfig | None = None) -> StoreBackend:
    """Open the backend a configuration names."""
    kinds = {"memory": InMemoryBackend, "manager": ManagerBackend, "redis": RedisBackend}
    config = config or BackendConfig()
    if config.backend_type not in kinds:
        raise InvalidInput(f"Unknown backend type {config.backend_type!r:.40}; there are {', '.join(kinds)}")
    return kinds[config.backend_type](config)


def _remove(address: str, pid: int) -> None:
    if pid == os.getpid():
        stores.close(address)
        shutil.rmtree(Path(address).parent, ignore_errors=True)
