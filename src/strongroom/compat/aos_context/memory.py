"""Long-term memory: propose, commit, search, over `ctx.memories`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import strongroom
from strongroom.blocking import Context
from strongroom.blocking.memories import Memories
from strongroom.bridge import run as drive
from strongroom.compat.aos_context._items import as_item, as_memory, given_times
from strongroom.compat.aos_context._views import BatchView, MemoryView
from strongroom.compat.aos_context.validation import assert_valid, validate_instance
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.services.memories import screening
from strongroom.services.memories.lens import Filters
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import Committed, Memory, Status
from strongroom.stemming import words
from strongroom.store import Commit, new_id

# Here whoever proposes may also commit: the two steps are a rhythm, not a review.
# Version 2.1 knows memories of scope `user` without a user: they are everybody's.
POLICY = Policy(review_own=True, require_owner=False, max_items=10_000, max_pending_batches=1_000_000)
ACTOR = "aos_context"
PAGE = 500
STATUSES: dict[str, tuple[Status, ...]] = {
    "active": ("active",),
    "deprecated": ("deprecated",),
    "inactive": ("superseded", "expired", "revoked"),
}
OWNERS = ("user_id", "project_id")
# What else of an item a filter may name: it must be equal.
FIELDS = ("memory_id", "content", "confidence", "created_at", "updated_at")


@dataclass
class MemorySearchResult:
    memory_id: str
    content: str
    confidence: float
    score: float


@dataclass
class ProposeResult:
    ok: bool
    batch_id: str | None = None
    error: str | None = None


@dataclass
class CommitResult:
    ok: bool
    committed_ids: list[str] | None = None
    error: str | None = None


class MemoryStore:
    """What a long-term memory offers."""

    def search(self, query: str, *, filters: dict[str, Any], top_k: int = 8) -> list[dict[str, Any]]:
        raise NotImplementedError

    def propose(self, mcrs: list[dict[str, Any]], *, scope_filters: dict[str, Any]) -> ProposeResult:
        raise NotImplementedError

    def commit(self, batch_id: str) -> CommitResult:
        raise NotImplementedError


class StoredMemory(MemoryStore):
    """The memories of a Strongroom context, offered anew for each call so that its store need not stay open."""

    def __init__(self, using: Callable[[], AbstractContextManager[Context]]) -> None:
        self._using = using

    def using(self) -> AbstractContextManager[Context]:
        """Offer the context that the memories are in."""
        return self._using()

    def memories(self, ctx: Context) -> Memories:
        """Return the memories under this API's policy."""
        return ctx.memories.using(policy=POLICY)

    def start(self) -> None:
        """Make ready what memories need besides their store: nothing here."""

    def add_memory_item(self, item: dict[str, Any]) -> None:
        """Make a memory item known as it is. Raise if it is not one, or if another one has its id."""
        assert_valid("memory_item", item)
        with self.using() as ctx:
            memories = self.memories(ctx)
            try:
                found = drive(memories._async.unpack_writes([as_memory(item, ACTOR, datetime.now(UTC))], new=True))
                ctx.store.commit(Commit(new_id(), found.expects, found.writes))
            except Conflict:
                there = as_item(memories.get(item["memory_id"]))
                if any(there[name] != value for name, value in item.items()):
                    raise

    def search(self, query: str, *, filters: dict[str, Any] | None = None, top_k: int = 8) -> list[dict[str, Any]]:
        """Return the items that answer a query best. An empty query lists; `status` may be any of the three."""
        query = query or ""
        if top_k < 1:
            raise InvalidInput(f"top_k must be 1 or more, not {top_k!r:.40}", path="top_k")
        narrowed: dict[str, Any] = {name: value for name, value in (filters or {}).items() if value is not None}
        status = narrowed.pop("status", "active")
        if status not in STATUSES:
            raise InvalidInput(f"status must be one of {', '.join(STATUSES)}, not {status!r:.60}", path="status")
        exact = {name: narrowed.pop(name) for name in FIELDS if name in narrowed}
        with self.using() as ctx:
            memories = self.memories(ctx)
            if status == "active" and query.strip() and not exact:
                return [as_item(hit.memory) for hit in memories.search(query, top_k, **narrowed)]
            known = listed(memories, STATUSES[status], **narrowed)
            found = [as_item(memory) for memory in known if _shares_a_word(query, memory)]
            return [item for item in found if all(item[name] == value for name, value in exact.items())][:top_k]

    def propose(
        self, mcrs: list[dict[str, Any]], *, scope_filters: dict[str, Any] | None = None, run_id: str | None = None
    ) -> ProposeResult:
        """Stage requests. `scope_filters` says whose they are, and refuses those of somebody else."""
        try:
            requests = [_scoped(mcr, scope_filters or {}) for mcr in mcrs]
            with self.using() as ctx:
                batch = self.memories(ctx).propose(requests, proposer=ACTOR, run_id=run_id)
        except InvalidInput as problem:
            return ProposeResult(False, None, f"mcr schema: {problem}")
        except StrongroomError as problem:
            return ProposeResult(False, None, str(problem))
        return ProposeResult(True, batch.id)

    def commit(self, batch_id: str, *, run_id: str | None = None) -> CommitResult:
        """Make a whole batch known, once. Committing it again gives the same answer."""
        if not isinstance(batch_id, str):  # what `propose` returned for a batch that it refused
            return CommitResult(False, None, "unknown batch_id")
        try:
            with self.using() as ctx:
                done = self.memories(ctx).commit(batch_id, reviewer=ACTOR, run_id=run_id)
        except NotFound as problem:
            return CommitResult(False, None, "unknown batch_id" if problem.kind == "memory_batch" else str(problem))
        except StrongroomError as problem:
            return CommitResult(False, None, str(problem))
        return CommitResult(True, committed_ids(done))

    # ---- live views, for those who look inside ----------------------------------------------------------------------

    @property
    def _mem(self) -> MemoryView:
        return MemoryView(self)

    @_mem.setter
    def _mem(self, items: dict[str, dict[str, Any]]) -> None:
        self._mem.replace(items)

    @property
    def _batches(self) -> BatchView:
        return BatchView(self)

    @_batches.setter
    def _batches(self, batches: dict[str, Any]) -> None:
        self._batches.replace(batches)


class InMemoryMemoryStore(StoredMemory):
    """Memory of this process alone."""

    def __init__(self) -> None:
        ctx = strongroom.open("memory://")
        super().__init__(lambda: nullcontext(ctx))


def committed_ids(done: Committed) -> list[str]:
    """Return the memories a batch made known, and those that knew it already."""
    return [*done.memory_ids, *done.duplicate_ids]


def listed(memories: Memories, statuses: tuple[Status, ...], **filters: Any) -> list[Memory]:
    """Return all memories of some statuses that the filters show."""
    narrowed: Filters = filters  # type: ignore[assignment]
    found: list[Memory] = []
    for status in statuses:
        after: str | None = None
        while True:
            page = memories.list(status=status, after=after, limit=PAGE, **narrowed)
            found += page
            after = page.next
            if after is None:
                break
    return found


def _shares_a_word(query: str, memory: Memory) -> bool:
    wanted = set(words(screening.plain(query)))
    return not query.strip() or bool(wanted & set(words(screening.plain(memory.content))))


def _scoped(mcr: Any, filters: dict[str, Any]) -> Any:
    """Fill in whose memory it is to be; refuse one that says otherwise."""
    unknown = filters.keys() - {"scope", *OWNERS}
    if unknown:
        raise InvalidInput(f"there is no scope filter {min(unknown)!r:.60}; there are scope, user_id and project_id")
    result = validate_instance("mcr", mcr)
    if not result.ok:
        raise InvalidInput(result.error or "")
    owned = mcr if mcr["scope"] == "global" else {**{name: filters.get(name) for name in OWNERS}, **mcr}
    wrong = [name for name, value in filters.items() if value is not None and owned.get(name, value) != value]
    if wrong:
        raise InvalidInput(f"{wrong[0]} is {owned[wrong[0]]!r:.60}, and scope_filters says {filters[wrong[0]]!r:.60}")
    told = {name: value for name, value in owned.items() if value is not None}
    return {**told, "metadata": times} if (times := given_times(mcr)) else told
