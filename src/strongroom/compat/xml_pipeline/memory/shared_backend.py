"""Backends that processes share: each is a Strongroom store, so indexes are unique and limits hold whoever writes.

| backend_type | store |
|---|---|
| `memory` | this process's memory |
| `manager` | a SQLite file: `manager_address`, or a new one in a private temporary folder |
| `redis` | a Redis or Valkey server; `redis_prefix` is the space |

A backend may be passed to another process, which then opens the same store. Nothing that is loaded can execute.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.threads import Threads
from strongroom.codec import encode
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig, SharedBackend
from strongroom.compat.xml_pipeline.memory.slots import deserialize_slot, serialize_slot, stored_slot
from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.services.threads.values import Slot, ThreadInfo
from strongroom.store import Commit, Delete, Get, Key, Put, Scan, ask, new_id

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

CHAIN_OF, ID_OF = "xp_chain_of", "xp_id_of"


class SlotBytes(msgspec.Struct, frozen=True):
    """Bytes that a caller appended as they are."""

    data: bytes


class StoreBackend:
    """A shared backend over a Strongroom context."""

    def __init__(self, context: Context, config: BackendConfig) -> None:
        self.context = context
        self.config = config
        context.threads.register(SlotBytes)
        self._threads = context.threads.limited(
            max_slots_per_thread=config.max_slots_per_thread, ttl_seconds=config.redis_ttl
        )

    # ---- threads ----------------------------------------------------------------------------------------------------

    def buffer_append(self, thread_id: str, slot_data: bytes) -> int:
        """Add bytes to a thread and return the index they got: nobody else has it."""
        try:
            return self._threads.append(thread_id, SlotBytes(slot_data), from_id="backend").index
        except BudgetExceeded as full:
            raise MemoryError(f"Thread {thread_id} exceeded max slots ({full.limit})") from None

    def buffer_get_thread(self, thread_id: str) -> list[bytes]:
        return [_data(slot) for slot in self._threads.get(thread_id)]

    def buffer_get_slot(self, thread_id: str, index: int) -> bytes | None:
        found = self._threads.get(thread_id).slice(index, index + 1) if index >= 0 else []
        return _data(found[0]) if found else None

    def buffer_thread_len(self, thread_id: str) -> int:
        return len(self._threads.get(thread_id))

    def buffer_thread_exists(self, thread_id: str) -> bool:
        return self.buffer_thread_len(thread_id) > 0

    def buffer_delete_thread(self, thread_id: str) -> bool:
        return self._threads.delete(thread_id)

    def buffer_list_threads(self) -> list[str]:
        return [info.thread_id for info in live_threads(self._threads)]

    def buffer_clear(self) -> None:
        for thread_id in self.buffer_list_threads():
            self._threads.delete(thread_id)

    def sweep(self) -> Sequence[str]:
        """End the threads that nobody has written to for `redis_ttl` seconds; return their ids."""
        return self._threads.sweep() if self.config.redis_ttl is not None else ()

    # ---- chains -----------------------------------------------------------------------------------------------------

    def registry_set(self, chain: str, uuid: str) -> None:
        """Let a chain and an id stand for each other, both ways at once."""
        pair = encode({"chain": chain, "id": uuid})
        self._commit(Put(self._chain(chain), pair), Put(self._id(uuid), pair))

    def registry_get_uuid(self, chain: str) -> str | None:
        found = self._pair(self._chain(chain))
        return None if found is None else found["id"]

    def registry_get_chain(self, uuid: str) -> str | None:
        found = self._pair(self._id(uuid))
        return None if found is None else found["chain"]

    def registry_delete(self, uuid: str) -> bool:
        found = self._pair(self._id(uuid))
        if found is None:
            return False
        leads_here = self.registry_get_uuid(found["chain"]) == uuid
        self._commit(Delete(self._id(uuid)), *([Delete(self._chain(found["chain"]))] if leads_here else []))
        return True

    def registry_list_all(self) -> dict[str, str]:
        return {pair["id"]: pair["chain"] for pair in self._pairs()}

    def registry_clear(self) -> None:
        for uuid in self.registry_list_all():
            self.registry_delete(uuid)

    def close(self) -> None:
        self.context.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.config.backend_type == "memory":
            raise InvalidInput("a memory backend belongs to its process; share a 'manager' or 'redis' one")
        return get_shared_backend, (self.config,)

    def _chain(self, chain: str) -> Key:
        # Hashed, because a chain may be longer than a key.
        return Key(self.context.space, ID_OF, sha256(chain.encode()).hexdigest())

    def _id(self, uuid: str) -> Key:
        return Key(self.context.space, CHAIN_OF, uuid)

    def _pair(self, key: Key) -> dict[str, str] | None:
        found = ask(self.context.store, Get(key))
        return None if found is None else found.value.load()

    def _pairs(self) -> Iterator[dict[str, str]]:
        after: str | None = None
        while True:
            page = ask(self.context.store, Scan(self.context.space, CHAIN_OF, {}, after, 256))
            yield from (document.value.load() for document in page.documents)
            after = page.next
            if after is None:
                return

    def _commit(self, *writes: Put | Delete) -> None:
        self.context.store.commit(Commit(new_id(), (), writes))


class InMemoryBackend(StoreBackend):
    """A backend in this process's memory."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        super().__init__(strongroom.open("memory://"), config or BackendConfig())


class ManagerBackend(StoreBackend):
    """A backend in a SQLite file that processes of this machine share."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        config = config or BackendConfig("manager")
        if config.manager_address is None:
            folder = tempfile.mkdtemp(prefix="strongroom-shared-")
            weakref.finalize(self, _remove, folder, os.getpid())
            # Kept in the configuration, so that whoever is handed it opens the same file.
            config.manager_address = str(Path(folder, "shared.db"))
        super().__init__(strongroom.open(config.manager_address), config)


class RedisBackend(StoreBackend):
    """A backend on a Redis or Valkey server."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        config = config or BackendConfig("redis")
        super().__init__(strongroom.open(config.redis_url, space=config.redis_prefix or "default"), config)


_KINDS = {"memory": InMemoryBackend, "manager": ManagerBackend, "redis": RedisBackend}


def get_shared_backend(config: BackendConfig | None = None) -> StoreBackend:
    """Open the backend a configuration names."""
    config = config or BackendConfig()
    if config.backend_type not in _KINDS:
        raise InvalidInput(f"Unknown backend type {config.backend_type!r:.40}; there are {', '.join(_KINDS)}")
    return _KINDS[config.backend_type](config)


def live_threads(threads: Threads) -> Iterator[ThreadInfo]:
    """Yield every live thread."""
    after: str | None = None
    while True:
        page = threads.list(after=after, limit=256)
        yield from page.threads
        after = page.next
        if after is None:
            return


def _data(slot: Slot) -> bytes:
    payload = slot.payload
    if isinstance(payload, SlotBytes):
        return payload.data
    return serialize_slot(stored_slot(slot))


def _remove(folder: str, pid: int) -> None:
    if pid == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
