"""The thread registry: ids that stand for call chains, over `ctx.registry`.

Every conversation has ids of its own, also where two of them take the same route. A chain is shown as its names joined
by dots; it is kept as a list, so a name may contain dots itself.
"""

from __future__ import annotations

import threading
from uuid import UUID

import msgspec

import strongroom
from strongroom.compat.xml_pipeline.memory.shared_backend import StoreBackend
from strongroom.errors import Conflict, NotFound
from strongroom.services.threads.registry import CHAIN, Link
from strongroom.store import Scan, ask


class ThreadRegistry:
    """The call chains of a process, or of all processes that share a backend."""

    def __init__(self, backend: StoreBackend | None = None) -> None:
        self._context = strongroom.open("memory://") if backend is None else backend.context
        self._registry = self._context.registry
        self.root_uuid: str | None = None
        self.root_chain = "system"

    def initialize_root(self, organism_name: str = "organism") -> str:
        """Name the root of everything and return its id: the same one each time."""
        self.root_chain = f"system.{organism_name}"
        self.root_uuid = _shown(self._registry.get_or_create(["system", organism_name]))
        return self.root_uuid

    def get_or_create(self, chain: str) -> str:
        """Return the id of a chain below the root, split at its dots."""
        return _shown(self._registry.get_or_create(chain))

    def lookup(self, thread_id: str) -> str | None:
        """Return the chain an id stands for, or None."""
        try:
            return str(self._registry.lookup(_kept(thread_id)))
        except NotFound:
            return None

    def extend_chain(self, current_uuid: str, next_hop: str) -> str:
        """Return the id of the chain that goes one call further. From an unknown id, a conversation begins."""
        try:
            return _shown(self._registry.extend(_kept(current_uuid), next_hop))
        except NotFound:
            return _shown(self._registry.start([next_hop]))

    def prune_for_response(self, thread_id: str) -> tuple[str | None, str | None]:
        """Say who gets a response, and on which id. (None, None): nobody called."""
        try:
            caller = self._registry.prune(_kept(thread_id))
        except NotFound:
            caller = None
        return (None, None) if caller is None else (caller.name, _shown(caller.thread_id))

    def start_chain(self, initiator: str, target: str) -> str:
        """Begin a conversation and return its id, which no other has."""
        return _shown(self._registry.start([initiator, target]))

    def register_thread(self, thread_id: str, initiator: str, target: str) -> str:
        """Begin a conversation under an id that was made elsewhere, and return that id."""
        try:
            self._registry.start([initiator, target], id=_kept(thread_id))
        except Conflict:
            pass  # it has begun already; it stays what it is
        return thread_id

    def cleanup(self, thread_id: str) -> None:
        """Forget an id and everything called from it."""
        self._registry.cleanup(_kept(thread_id))

    def debug_dump(self) -> dict[str, str]:
        """Return every id with its chain."""
        found: dict[str, str] = {}
        after: str | None = None
        while True:
            page = ask(self._context.store, Scan(self._context.space, CHAIN, {}, after, 256))
            for document in page.documents:
                link = msgspec.json.decode(document.value, type=Link)
                found[_shown(document.key.id)] = ".".join(link.names)
            after = page.next
            if after is None:
                return found


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
_registry_lock = threading.Lock()


def get_registry() -> ThreadRegistry:
    """Return this process's registry."""
    global _registry
    with _registry_lock:
        if _registry is None:
            _registry = ThreadRegistry()
        return _registry
