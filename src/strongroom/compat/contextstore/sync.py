"""The same calls for programs without an event loop: `from strongroom.compat.contextstore.sync import SQLiteMemory`.

Each class stands over its async namesake, which does the work, and may be called from anywhere, also from a function
that a running event loop has called. Any `MemoryBackend` of your own can be wrapped too: `Memory(backend)`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from strongroom.compat.contextstore import memory_backends, retrieval, session_store
from strongroom.compat.contextstore.embedding import EmbedFn
from strongroom.compat.contextstore.interfaces import MemoryBackend
from strongroom.compat.contextstore.retrieval import RetrievalBackend, RetrievedItem
from strongroom.compat.contextstore.session_store import Messages, SessionStoreConfig

__all__ = ["InMemoryMemory", "Memory", "SQLiteMemory", "SessionStore", "SessionStoreConfig", "retrieve_relevant"]

T = TypeVar("T")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. A loop that is running here must not be entered again: another thread has none."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class _Conversations:
    """The five calls that a memory and a session store have in common."""

    def __init__(self, inner: MemoryBackend | session_store.SessionStore) -> None:
        self._inner = inner

    def load_context(self, session_id: str, k: int | None = None) -> Messages:
        return _run(self._inner.load_context(session_id, k))

    def save_context(self, session_id: str, context: Messages) -> None:
        _run(self._inner.save_context(session_id, context))

    def append_context(self, session_id: str, context: Messages) -> None:
        _run(self._inner.append_context(session_id, context))

    def delete_session(self, session_id: str) -> None:
        _run(self._inner.delete_session(session_id))

    def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        _run(self._inner.delete_interaction(session_id, interaction_id))


class Memory(_Conversations):
    """Any async memory, blocking."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.backend = backend


class InMemoryMemory(Memory):
    """Conversations in this process's memory."""

    def __init__(self) -> None:
        super().__init__(memory_backends.InMemoryMemory())


class SQLiteMemory(Memory):
    """Conversations in one file."""

    def __init__(self, db_path: str | os.PathLike[str], create_db: bool = True) -> None:
        super().__init__(memory_backends.SQLiteMemory(db_path, create_db))


class SessionStore(_Conversations):
    """Conversations that can be searched by meaning. Background work runs on threads."""

    def __init__(
        self,
        memory: Memory | MemoryBackend,
        retrieval: RetrievalBackend | None = None,
        config: SessionStoreConfig | None = None,
    ) -> None:
        backend = memory.backend if isinstance(memory, Memory) else memory
        self._store = session_store.SessionStore(backend, retrieval, config)
        super().__init__(self._store)
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="contextstore-embedding")
        self._started: list[Future[None]] = []

    def add_message_embedding(
        self, session_id: str, message_id: str, text: str, metadata: dict[str, Any] | None = None
    ) -> None:
        _run(self._store.add_message_embedding(session_id, message_id, text, metadata))

    def spawn_background_embedding(
        self, session_id: str, message_id: str, text: str, metadata: dict[str, Any] | None = None
    ) -> Future[None]:
        """Start `add_message_embedding` and go on. `wait_for_embeddings` tells of it if it fails."""
        started = self._pool.submit(self.add_message_embedding, session_id, message_id, text, metadata)
        self._started.append(started)
        return started

    def wait_for_embeddings(self) -> None:
        """Wait until nothing is being embedded, then raise the first failure there was."""
        started, self._started = self._started, []
        wait(started)
        for one in started:
            one.result()

    def retrieve_relevant(self, session_id: str, query: str, k: int = 5) -> list[RetrievedItem]:
        return _run(self._store.retrieve_relevant(session_id, query, k))


def retrieve_relevant(
    session_id: str, query: str, embed_fn: EmbedFn, store: RetrievalBackend, k: int = 5
) -> list[RetrievedItem]:
    """Return the messages of a session that are nearest to a query, best first."""
    return _run(retrieval.retrieve_relevant(session_id, query, embed_fn, store, k))
