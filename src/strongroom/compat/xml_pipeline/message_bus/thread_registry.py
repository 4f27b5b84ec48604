"""The thread registry: ids that stand for call chains.

Every conversation has ids of its own, also where two of them take the same route. A chain is shown as its names joined
by dots; it is kept as a list, so a name may contain dots itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import msgspec

from strongroom.blocking import Context
from strongroom.compat.stores import LOCK
from strongroom.compat.xml_pipeline.memory.backend_config import SharedBackend
from strongroom.compat.xml_pipeline.memory.shared_backend import InMemoryBackend
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.errors import Conflict, NotFound
from strongroom.services.threads.registry import CHAIN, Link
from strongroom.store import Scan, ask


class ThreadRegistry:
    """The call chains of a process, or of all processes that share a backend."""

    def __init__(self, backend: SharedBackend | None = None) -> None:
        self.is_shared = backend is not None
        chosen = backend or InMemoryBackend()
        self._chains = _StoredChains(chosen) if isinstance(chosen, StoreBackend) else _ForeignChains(chosen)
        self._begin()

    def _begin(self) -> None:
        self.root_uuid: str | None = None
        self.root_chain = "system"
        self._root: list[str] = []

    def initialize_root(self, organism_name: str = "organism") -> str:
        """Name the root of everything and return its id: the same one each time. The first name stays."""
        if self.root_uuid is None:
            self._root = ["system", organism_name]
            self.root_chain = ".".join(self._root)
            self.root_uuid = self._chains.found(self._root)
        return self.root_uuid

    def get_or_create(self, chain: str) -> str:
        """Return the id of a chain below the root, split at its dots."""
        return self._chains.found(chain.split("."))

    def lookup(self, thread_id: str) -> str | None:
        """Return the chain an id stands for, or None."""
        names = self._chains.names(thread_id)
        return None if names is None else ".".join(names)

    def extend_chain(self, current_uuid: str, next_hop: str) -> str:
        """Return the id of the chain that goes one call further. From an unknown id, a conversation begins."""
        return self._chains.extended(current_uuid, next_hop) or self._chains.started([next_hop], None)

    def prune_for_response(self, thread_id: str) -> tuple[str | None, str | None]:
        """Say who gets a response, and on which id. (None, None): nobody called."""
        return self._chains.caller(thread_id) or (None, None)

    def start_chain(self, initiator: str, target: str) -> str:
        """Begin a conversation and return its id, which no other has."""
        return self._chains.started([initiator, target], None)

    def register_thread(self, thread_id: str, initiator: str, target: str) -> str:
        """Begin a conversation under an id that was made elsewhere, and return that id. One that has begun stays.

        It begins at the root, if that has been named.
        """
        self._chains.started([*self._root, initiator, target], thread_id)
        return thread_id

    def cleanup(self, thread_id: str) -> None:
        """Forget an id and everything called from it."""
        self._chains.forget(thread_id)

    def clear(self) -> None:
        """Forget every id, for whoever shares them, and the root."""
        for thread_id in self.debug_dump():
            self._chains.forget(thread_id)
        self._begin()

    def debug_dump(self) -> dict[str, str]:
        """Return every id with its chain."""
        return {id: ".".join(names) for id, names in self._chains.everything()}


class _StoredChains:
    """Chains of a Strongroom store: made in one commit each, whoever else is making them."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend

    def found(self, names: list[str]) -> str:
        with self._backend.using() as ctx:
            return _shown(ctx.registry.get_or_create(names))

    def names(self, id: str) -> tuple[str, ...] | None:
        with self._found() as ctx:
            return ctx.registry.lookup(_kept(id)).names
        return None

    def extended(self, id: str, name: str) -> str | None:
        with self._found() as ctx:
            return _shown(ctx.registry.extend(_kept(id), name))
        return None

    def caller(self, id: str) -> tuple[str, str] | None:
        with self._found() as ctx:
            caller = ctx.registry.prune(_kept(id))
            return None if caller is None else (caller.name, _shown(caller.thread_id))
        return None

    def started(self, names: list[str], id: str | None) -> str:
        with self._backend.using() as ctx:
            try:
                return _shown(ctx.registry.start(names, id=None if id is None else _kept(id)))
            except Conflict:
                assert id is not None, "a new id is nobody's"
                return id

    def forget(self, id: str) -> None:
        with self._backend.using() as ctx:
            ctx.registry.cleanup(_kept(id))

    def everything(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        after: str | None = None
        with self._backend.using() as ctx:
            while True:
                page = ask(ctx.store, Scan(ctx.space, CHAIN, {}, after, 256))
                for document in page.documents:
                    yield _shown(document.key.id), msgspec.json.decode(document.value, type=Link).names
                after = page.next
                if after is None:
                    return

    @contextmanager
    def _found(self) -> Iterator[Context]:
        """Offer the store; what is not there ends the block."""
        with self._backend.using() as ctx:
            try:
                yield ctx
            except NotFound:
                pass


class _ForeignChains:
    """Chains that a backend keeps as texts: the conversation and the names, as a JSON list."""

    def __init__(self, backend: SharedBackend) -> None:
        self._backend = backend

    def found(self, names: list[str]) -> str:
        return self._id(["", *names])

    def names(self, id: str) -> tuple[str, ...] | None:
        chain = self._chain(id)
        return None if chain is None else tuple(chain[1:])

    def extended(self, id: str, name: str) -> str | None:
        chain = self._chain(id)
        return None if chain is None else self._id([*chain, name])

    def caller(self, id: str) -> tuple[str, str] | None:
        chain = self._chain(id)
        if chain is None or len(chain) < 3:
            return None
        return chain[-2], self._id(chain[:-1])

    def started(self, names: list[str], id: str | None) -> str:
        made = id or str(uuid4())
        if self._backend.registry_get_chain(made) is None:
            self._backend.registry_set(_text([made, *names]), made)
        return made

    def forget(self, id: str) -> None:
        chain = self._chain(id)
        if chain is None:
            return
        for other, text in self._backend.registry_list_all().items():
            if other == id or _listed(text)[: len(chain)] == chain:
                self._backend.registry_delete(other)

    def everything(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for id, text in self._backend.registry_list_all().items():
            yield id, tuple(_listed(text)[1:])

    def _chain(self, id: str) -> list[str] | None:
        text = self._backend.registry_get_chain(id)
        return None if text is None else _listed(text)

    def _id(self, chain: list[str]) -> str:
        known = self._backend.registry_get_uuid(_text(chain))
        if known is None:
            known = str(uuid4())
            self._backend.registry_set(_text(chain), known)
        return known


def _text(chain: list[str]) -> str:
    return msgspec.json.encode(chain).decode()


def _listed(text: str) -> list[str]:
    """Return a kept chain; one that somebody else set is split at its dots."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return ["", *text.split(".")]


def _shown(id: str) -> str:
    """Show an id of ours as a UUID; one that was made elsewhere is shown as it came."""
    return str(UUID(id)) if len(id) == 32 else id


def _kept(id: str) -> str:
    """Return the stored form of an id: a UUID without its dashes."""
    return id.replace("-", "") if len(id) == 36 and _is_uuid(id) else id


def _is_uuid(id: str) -> bool:
    try:
        return str(UUID(id)) == id
    except ValueError:
        return False


_registry: ThreadRegistry | None = None


def get_registry(backend: SharedBackend | None = None) -> ThreadRegistry:
    """Return this process's registry: the one that is there, or a new one over this backend."""
    global _registry
    with LOCK:
        if _registry is None:
            _registry = ThreadRegistry(backend)
        return _registry


def reset_registry() -> None:
    """Let the next `get_registry` make a new one. What other processes share stays."""
    global _registry
    with LOCK:
        _registry = None
