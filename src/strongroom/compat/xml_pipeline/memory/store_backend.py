"""A shared backend over a Strongroom store: the fifteen methods, and the way to the store's own threads.

The store is asked for anew by each call and never kept: it is opened when it is needed, in each process its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any

import msgspec

from strongroom.blocking import Context
from strongroom.blocking.threads import Threads
from strongroom.codec import encode
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig
from strongroom.compat.xml_pipeline.memory.slots import HEADER_FIELDS, BufferSlot, Header, SlotMetadata, serialize_slot
from strongroom.errors import BudgetExceeded, Closed
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.values import Slot
from strongroom.store import Commit, Delete, Get, Key, Put, Range, Scan, ask, new_id

CHAIN_OF, ID_OF = "xp_chain_of", "xp_id_of"
SWEEP_SECONDS = 60.0  # how long after its time a thread may still be seen, at most


class SlotBytes(msgspec.Struct, frozen=True):
    """Bytes that a caller appended as they are."""

    data: bytes


class StoreBackend:
    """A shared backend over a Strongroom store."""

    def __init__(self, using: Callable[[], AbstractContextManager[Context]], config: BackendConfig) -> None:
        self.config = config
        self._using = using
        self._classes: list[type] = []
        self._context: Context | None = None
        self._views: dict[tuple[Any, ...], Threads] = {}
        self._ttl: float | None = None
        self._next_sweep = 0.0
        self.closed = False
        self.when_closed: Callable[[], None] = lambda: None

    @contextmanager
    def using(self) -> Iterator[Context]:
        """Offer the store's context. It may be another one after a fork, so nobody keeps it."""
        if self.closed:
            raise Closed("this backend is closed")
        with self._using() as ctx:
            if self._context is not ctx:
                for cls in (SlotBytes, *self._classes):
                    ctx.threads.register(cls)
                self._views, self._context = {}, ctx
            yield ctx

    @contextmanager
    def threads(
        self,
        max_slots: int | None = None,
        max_threads: int | None = None,
        archive: Callable[[str, bytes], None] | None = None,
    ) -> Iterator[Threads]:
        """Offer the store's threads, under limits."""
        limits = (max_slots or self.config.max_slots_per_thread, max_threads, archive)
        with self.using() as ctx:
            if self._ttl is not None and time.monotonic() >= self._next_sweep:
                self.sweep()
            if limits not in self._views:
                self._views[limits] = ctx.threads.limited(
                    max_slots_per_thread=limits[0], max_threads=max_threads, archive=archive
                )
            yield self._views[limits]

    def register(self, cls: type) -> None:
        """Let payloads of this class come back as themselves in this process."""
        with self.using() as ctx:
            ctx.threads.register(cls)
        self._classes.append(cls)

    # ---- threads ----------------------------------------------------------------------------------------------------

    def append(self, threads: Threads, thread_id: str, payload: Any, header: Header) -> Slot:
        """Add a message to a thread."""
        metadata = header.stored()
        return threads.append(thread_id, payload, from_id=header.from_id, to_id=header.to_id, metadata=metadata)

    def buffer_append(self, thread_id: str, slot_data: bytes) -> int:
        """Add bytes to a thread and return their place in what `buffer_get_thread` returns: nobody else has it."""
        with self.threads() as threads:
            try:
                index = threads.append(thread_id, SlotBytes(slot_data), from_id="backend").index
            except BudgetExceeded as full:
                raise MemoryError(f"Thread {thread_id} exceeded max slots ({full.limit})") from None
            return index - self._first(thread_id) if index else 0

    def buffer_get_thread(self, thread_id: str) -> list[bytes]:
        with self.threads() as threads:
            return [_data(slot) for slot in threads.get(thread_id)]

    def buffer_get_slot(self, thread_id: str, index: int) -> bytes | None:
        if index < 0:
            return None
        with self.threads() as threads:
            place = self._first(thread_id) + index
            found = threads.get(thread_id).slice(place, place + 1)
            return _data(found[0]) if found else None

    def _first(self, thread_id: str) -> int:
        """Return the index of the oldest slot: a thread that ended and came back goes on counting."""
        with self.using() as ctx:
            return ask(ctx.store, Range(Key(ctx.space, THREAD, thread_id), 0, 0)).first

    def buffer_thread_len(self, thread_id: str) -> int:
        with self.threads() as threads:
            return len(threads.get(thread_id))

    def buffer_thread_exists(self, thread_id: str) -> bool:
        return self.buffer_thread_len(thread_id) > 0

    def buffer_delete_thread(self, thread_id: str) -> bool:
        with self.threads() as threads:
            return threads.delete(thread_id)

    def buffer_list_threads(self) -> list[str]:
        found: list[str] = []
        after: str | None = None
        with self.threads() as threads:
            while True:
                page = threads.list(after=after, limit=256)
                found += [info.thread_id for info in page]
                after = page.next
                if after is None:
                    return found

    def buffer_clear(self) -> None:
        for thread_id in self.buffer_list_threads():
            self.buffer_delete_thread(thread_id)

    def sweep(self) -> Sequence[str]:
        """End the threads that nobody has written to for `redis_ttl` seconds; return their ids. With 0 none ever ends.

        On Redis every call sees to that, at most a minute late. Redis' own expiry would take a thread's messages and
        leave what counts them.
        """
        ttl = self.config.redis_ttl
        if not ttl:
            return ()
        self._next_sweep = time.monotonic() + min(SWEEP_SECONDS, max(ttl / 10, 0.1))
        with self.using() as ctx:
            return ctx.threads.sweep(ttl_seconds=ttl)

    # ---- chains -----------------------------------------------------------------------------------------------------

    def registry_set(self, chain: str, uuid: str) -> None:
        """Let a chain and an id stand for each other, both ways at once."""
        pair = encode({"chain": chain, "id": uuid})
        with self.using() as ctx:
            _commit(ctx, Put(_chain_key(ctx, chain), pair), Put(_id_key(ctx, uuid), pair))

    def registry_get_uuid(self, chain: str) -> str | None:
        with self.using() as ctx:
            return _pair(ctx, _chain_key(ctx, chain)).get("id")

    def registry_get_chain(self, uuid: str) -> str | None:
        with self.using() as ctx:
            return _pair(ctx, _id_key(ctx, uuid)).get("chain")

    def registry_delete(self, uuid: str) -> bool:
        with self.using() as ctx:
            found = _pair(ctx, _id_key(ctx, uuid))
            if not found:
                return False
            leads_here = self.registry_get_uuid(found["chain"]) == uuid
            more = [Delete(_chain_key(ctx, found["chain"]))] if leads_here else []
            _commit(ctx, Delete(_id_key(ctx, uuid)), *more)
        return True

    def registry_list_all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        after: str | None = None
        with self.using() as ctx:
            while True:
                page = ask(ctx.store, Scan(ctx.space, CHAIN_OF, {}, after, 256))
                pairs = [document.value.load() for document in page.documents]
                found |= {pair["id"]: pair["chain"] for pair in pairs}
                after = page.next
                if after is None:
                    return found

    def registry_clear(self) -> None:
        for uuid in self.registry_list_all():
            self.registry_delete(uuid)

    def info(self) -> dict[str, int]:
        """Count what is kept."""
        return {"buffer_threads": len(self.buffer_list_threads()), "registry_entries": len(self.registry_list_all())}

    def close(self) -> None:
        self.closed = True
        self.when_closed()


class _StoredSource(msgspec.Struct, frozen=True):
    """What a slot of the store says, by the names of this package."""

    slot: Slot

    def payload(self) -> Any:
        return self.slot.payload

    def metadata(self) -> SlotMetadata:
        slot = self.slot
        known = (slot.thread_id, slot.from_id, slot.to_id, slot.index, slot.at.isoformat(), slot.type)
        return SlotMetadata(*known, **{name: value for name, value in slot.metadata.items() if name in HEADER_FIELDS})


def stored_slot(slot: Slot) -> BufferSlot:
    """Show a slot of the store by the names of this package."""
    return BufferSlot.of(_StoredSource(slot))


def _data(slot: Slot) -> bytes:
    payload = slot.payload
    return payload.data if isinstance(payload, SlotBytes) else serialize_slot(stored_slot(slot))


def _chain_key(ctx: Context, chain: str) -> Key:
    # Hashed, because a chain may be longer than a key.
    return Key(ctx.space, ID_OF, sha256(chain.encode()).hexdigest())


def _id_key(ctx: Context, uuid: str) -> Key:
    return Key(ctx.space, CHAIN_OF, uuid)


def _pair(ctx: Context, key: Key) -> dict[str, str]:
    found = ask(ctx.store, Get(key))
    return {} if found is None else found.value.load()


def _commit(ctx: Context, *writes: Put | Delete) -> None:
    ctx.store.commit(Commit(new_id(), (), writes))
