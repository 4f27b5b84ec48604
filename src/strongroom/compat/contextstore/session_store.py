"""SessionStore: a memory and an index of it, kept in step.

Messages are embedded in batches after they were written: an embedder that raises is its caller's to see, and the
messages are kept. What it failed at is embedded by the next save. A message that is deleted or replaced leaves the
index too, or, if an index cannot forget, is left out of what is found.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from strongroom.compat.contextstore.embedding import EmbedFn, embedded
from strongroom.compat.contextstore.interfaces import MemoryBackend
from strongroom.compat.contextstore.retrieval import RetrievalBackend, RetrievedItem, retrieve_relevant
from strongroom.compat.contextstore.truncation import text_of
from strongroom.compat.interactions import messages
from strongroom.errors import InvalidInput

Messages = list[dict[str, Any]]


@dataclass
class SessionStoreConfig:
    """Whether messages are embedded as they are saved, and how."""

    auto_embed: bool = False
    embed_fn: EmbedFn | None = None


class SessionStore:
    """Conversations that can be searched by meaning."""

    def __init__(
        self,
        memory: MemoryBackend,
        retrieval: RetrievalBackend | None = None,
        config: SessionStoreConfig | None = None,
    ) -> None:
        self.memory = memory
        self.retrieval = retrieval
        self.config = config or SessionStoreConfig()
        if self.config.auto_embed and self.config.embed_fn is None:
            raise InvalidInput("auto_embed requires embed_fn to be set in config")
        if self.config.auto_embed and retrieval is None:
            raise InvalidInput("auto_embed requires a retrieval backend")
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone: set[tuple[str, str]] = set()
        # Texts may be embedded under an id that no message has; these are not found by looking at the messages.
        self._embedded: dict[str, set[str]] = {}

    async def load_context(self, session_id: str, k: int | None = None) -> Messages:
        return await self.memory.load_context(session_id, k)

    async def save_context(self, session_id: str, context: Messages) -> None:
        before = await self._texts(session_id)
        context = messages(context) if self.config.auto_embed else context
        await self.memory.save_context(session_id, context)
        after = await self._texts(session_id)
        await self._forget(session_id, {one for one, text in before.items() if after.get(one) != text})
        await self._embed_messages(session_id, context)

    async def append_context(self, session_id: str, context: Messages) -> None:
        context = messages(context) if self.config.auto_embed else context
        await self.memory.append_context(session_id, context)
        await self._embed_messages(session_id, context)

    async def delete_session(self, session_id: str) -> None:
        before = await self._texts(session_id)
        await self.memory.delete_session(session_id)
        await self._forget(session_id, before.keys() | self._embedded.pop(session_id, set()))
        remove_session = getattr(self.retrieval, "remove_session", None)
        if remove_session is not None:
            await remove_session(session_id)

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        before = await self._texts(session_id)
        await self.memory.delete_interaction(session_id, interaction_id)
        await self._forget(session_id, before.keys() - (await self._texts(session_id)).keys())

    async def add_message_embedding(
        self, session_id: str, message_id: str, text: str, metadata: dict[str, Any] | None = None
    ) -> None:
        """Embed a text under a message's id, unless that id has been embedded already."""
        retrieval, embed_fn = self._searchable()
        if not await self._has(retrieval, session_id, message_id):
            [vector] = await embedded(embed_fn, [text])
            await self._add(retrieval, session_id, message_id, vector, {"text": text, **(metadata or {})})

    def spawn_background_embedding(
        self, session_id: str, message_id: str, text: str, metadata: dict[str, Any] | None = None
    ) -> asyncio.Task[None]:
        """Start `add_message_embedding` and go on. `wait_for_embeddings` tells of it if it fails."""
        self._searchable()
        task = asyncio.ensure_future(self.add_message_embedding(session_id, message_id, text, metadata))
        self._tasks.add(task)
        return task

    async def wait_for_embeddings(self) -> None:
        """Wait until nothing is being embedded, then raise the first failure there was."""
        failures: list[BaseException] = []
        while self._tasks:
            tasks, self._tasks = self._tasks, set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            failures += [one for one in found if isinstance(one, BaseException)]
        if failures:
            for other in failures[1:]:
                failures[0].add_note(f"another embedding failed too: {type(other).__name__}: {other}")
            raise failures[0]

    async def retrieve_relevant(self, session_id: str, query: str, k: int = 5) -> list[RetrievedItem]:
        """Return the messages nearest to a query, best first, none of which has been deleted."""
        retrieval, embed_fn = self._searchable()
        hidden = sum(1 for session, _ in self._gone if session == session_id)
        found = await retrieve_relevant(session_id, query, embed_fn, retrieval, k + hidden if k > 0 else k)
        return [one for one in found if (session_id, one.message_id) not in self._gone][: max(k, 0)]

    async def _embed_messages(self, session_id: str, context: Messages) -> None:
        """Embed the messages that the index does not have: new ones, and those that say something else now."""
        if not self.config.auto_embed:
            return
        retrieval, embed_fn = self._searchable()
        missing = [
            message
            for message in context
            if text_of(message) and not await self._has(retrieval, session_id, str(message["id"]))
        ]
        vectors = await embedded(embed_fn, [text_of(message) for message in missing]) if missing else []
        for message, vector in zip(missing, vectors, strict=True):
            role = {"role": message["role"]} if message.get("role") else {}
            told = {"text": text_of(message), **role, **(message.get("metadata") or {})}
            await self._add(retrieval, session_id, str(message["id"]), vector, told)

    async def _add(
        self, retrieval: RetrievalBackend, session_id: str, one: str, vector: list[float], told: dict[str, Any]
    ) -> None:
        await retrieval.add(session_id, one, vector, told)
        self._gone.discard((session_id, one))
        self._embedded.setdefault(session_id, set()).add(one)

    async def _has(self, retrieval: RetrievalBackend, session_id: str, one: str) -> bool:
        return (session_id, one) not in self._gone and await retrieval.has_embedding(session_id, one)

    async def _forget(self, session_id: str, ids: set[str]) -> None:
        self._embedded.get(session_id, set()).difference_update(ids)
        remove = getattr(self.retrieval, "remove", None)
        for one in sorted(ids):
            if remove is None:
                self._gone.add((session_id, one))
            else:
                await remove(session_id, one)

    async def _texts(self, session_id: str) -> dict[str, str]:
        """Return what each message of a session says, if there is an index that has to follow it."""
        if self.retrieval is None:
            return {}
        found = await self.memory.load_context(session_id) or []
        return {str(message["id"]): text_of(message) for message in found if message.get("id") is not None}

    def _searchable(self) -> tuple[RetrievalBackend, EmbedFn]:
        if self.retrieval is None:
            raise InvalidInput("No retrieval backend configured")
        if self.config.embed_fn is None:
            raise InvalidInput("No embed_fn configured")
        return self.retrieval, self.config.embed_fn
