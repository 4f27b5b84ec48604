"""What looks like the dicts inside a memory store, and reads and writes the store behind it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from strongroom.blocking import Context
from strongroom.blocking.memories import Memories
from strongroom.compat.aos_context._items import as_item
from strongroom.services.memories.keys import MEMORY, load
from strongroom.services.memories.values import Memory, Request
from strongroom.store import Scan, ask
from strongroom.values import plain

REASON = "removed through a view"


class Owner(Protocol):
    """The memory store that a view looks into."""

    def using(self) -> AbstractContextManager[Context]: ...
    def memories(self, ctx: Context) -> Memories: ...
    def add_memory_item(self, item: dict[str, Any]) -> None: ...


def everything(ctx: Context) -> Iterator[Memory]:
    """Yield every memory of a space, whoever's it is."""
    after: str | None = None
    while True:
        page = ask(ctx.store, Scan(ctx.space, MEMORY, {}, after))
        yield from (load(document, Memory) for document in page.documents)
        after = page.next
        if after is None:
            return


class _View(MutableMapping[str, Any]):
    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def _items(self) -> dict[str, Any]:
        raise NotImplementedError

    def __getitem__(self, id: str) -> Any:
        return self._items()[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __repr__(self) -> str:
        return repr(self._items())

    def replace(self, items: dict[str, Any]) -> None:
        """Take everything out and put these in."""
        self.clear()
        self.update(items)


class MemoryView(_View):
    """Memory items by id. What is taken out is revoked: it stays in its history, and is found no more."""

    def _items(self) -> dict[str, dict[str, Any]]:
        with self._owner.using() as ctx:
            return {memory.id: as_item(memory) for memory in everything(ctx) if memory.status != "revoked"}

    def __setitem__(self, id: str, item: dict[str, Any]) -> None:
        self._owner.add_memory_item({**item, "memory_id": id})

    def __delitem__(self, id: str) -> None:
        self[id]
        with self._owner.using() as ctx:
            self._owner.memories(ctx).revoke(source_ref=id, by="aos_context", reason=REASON)


class BatchView(_View):
    """The requests of the batches that wait, by batch id. What is taken out is rejected."""

    def _items(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        after: str | None = None
        with self._owner.using() as ctx:
            while True:
                page = self._owner.memories(ctx).pending(after=after)
                for batch in page:
                    found[batch.id] = [_request(proposal.request) for proposal in batch.proposals]
                after = page.next
                if after is None:
                    return found

    def __setitem__(self, id: str, mcrs: list[Any]) -> None:
        with self._owner.using() as ctx:
            self._owner.memories(ctx).propose(mcrs, proposer="aos_context", batch_id=id)

    def __delitem__(self, id: str) -> None:
        self[id]
        with self._owner.using() as ctx:
            self._owner.memories(ctx).reject(id, reason=REASON, reviewer="aos_context")


def _request(request: Request) -> dict[str, Any]:
    """Return a request in the words of version 2.1, which knows no metadata."""
    return {name: value for name, value in plain(request).items() if name != "metadata"}
