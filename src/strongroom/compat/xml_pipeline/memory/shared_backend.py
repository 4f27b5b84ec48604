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

from dataclasses import replace
from typing import Any

from strongroom.compat.stores import LOCK
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
    "reset_shared_backend",
    "serialize_slot",
]


KINDS: dict[str, Any] = {"memory": InMemoryBackend, "manager": ManagerBackend, "redis": RedisBackend}

# The backends of this process that nobody has closed, each with the configuration by which it was asked for.
_backends: list[tuple[BackendConfig, StoreBackend]] = []


def get_shared_backend(config: BackendConfig | None = None) -> StoreBackend:
    """Return this process's backend of a configuration: the one that is there, or a new one.

    Without a configuration it is the first there is, or a new one in memory.
    """
    found = _there(config)
    if found is not None:
        return found
    wanted = config or BackendConfig()
    if wanted.backend_type not in KINDS:
        raise InvalidInput(f"Unknown backend type {wanted.backend_type!r:.40}; there are {', '.join(KINDS)}")
    asked = replace(wanted)
    opened: StoreBackend = KINDS[wanted.backend_type](wanted)  # not under the lock, for which a fork waits
    with LOCK:
        found = _there(asked)
        if found is None:
            _backends.append((asked, opened))
            opened.when_closed = _forget_closed
            return opened
    opened.close()  # another thread was as quick
    wanted.manager_address = found.config.manager_address
    return found


def reset_shared_backend() -> None:
    """Close the backends of this process, so that new ones are made. What other processes share stays."""
    for _, made in list(_backends):
        made.close()


def _forget_closed() -> None:
    with LOCK:
        _backends[:] = [(asked, made) for asked, made in _backends if not made.closed]


def _there(config: BackendConfig | None) -> StoreBackend | None:
    with LOCK:
        return next((made for asked, made in _backends if config is None or config in (asked, made.config)), None)
