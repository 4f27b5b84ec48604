"""StrongroomMemoryService: what was said in earlier sessions, found by its words.

A document for each event, under its user. Whatever was deleted leaves a mark, so that the next `add_session_to_memory`
of the same session does not bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

import strongroom.retrieval as retrieval
from strongroom.adapters.adk.sessions import spoken
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.bridge import can_search
from strongroom.codec import encode
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest, owned_by
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Commit, Delete, Document, Find, Found, Get, Key, Put, Scan, Write, new_id

KIND = layouts.ADK_MEMORY
DELETED = layouts.ADK_MEMORY_DELETED
MOST = 10  # a tool of ADK puts all of them into a prompt
POOL = 200
PAGE = 500
NO_SESSION = ""


class StrongroomMemoryService(BaseMemoryService, Closing):
    """Keep what was said in a Strongroom store: `Runner(memory_service=StrongroomMemoryService("agent.db"), ...)`."""

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _scope(self) -> Any:
        return self.opened.awaitable

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember a session as it is now, in the place of what was remembered of it."""
        tags = self._tags(session.app_name, session.user_id, session.id)
        old = [
            one.key async for page in self._scope.pages(Scan(self._scope.space, KIND, tags, limit=PAGE)) for one in page
        ]
        new = await self._puts(session.app_name, session.user_id, session.id, session.events)
        kept = {write.key for write in new}
        await self._commit([*(Delete(key) for key in old if key not in kept), *new])

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember events besides what is remembered of their session."""
        puts = await self._puts(app_name, user_id, session_id or NO_SESSION, events)
        there = await self._scope.get_all([Get(put.key) for put in puts])
        await self._commit([put for put, old in zip(puts, there, strict=True) if old is None])

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return at most ten memories, those that answer the query best first."""
        wanted = tuple(dict.fromkeys(words(query)))[:MOST_WORDS]
        if not wanted:
            return SearchMemoryResponse(memories=[])
        tags = {"user": digest(app_name, user_id)}
        if can_search(self._scope.store):
            found: Found = await self._scope.store.search(Find(self._scope.space, KIND, wanted, tags=tags, limit=POOL))
            documents = [match.document for match in found.matches if match.document is not None]
            total, counts = found.total, found.counts
        else:
            scan = Scan(self._scope.space, KIND, tags, limit=PAGE)
            every = [one async for page in self._scope.pages(scan) for one in page]
            documents = [one for one in every if set(wanted) & set(words(one.text or ""))]
            counts = {word: sum(word in words(one.text or "") for one in documents) for word in wanted}
            total = len(every)
        scores = retrieval.bm25(wanted, [words(one.text or "") for one in documents], total, counts)
        ranked = sorted(zip(scores, documents, strict=True), key=lambda pair: (-pair[0], pair[1].key.id))
        return SearchMemoryResponse(memories=[entry_of(one) for _, one in ranked[:MOST]])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget an event, whichever session it is of, for good."""
        if not memory_id:
            return
        tags = {"user": digest(app_name, user_id), "event": digest(memory_id)}
        scan = Scan(self._scope.space, KIND, tags, limit=PAGE)
        found = [one.key async for page in self._scope.pages(scan) for one in page]
        if found:
            mark = Put(self._deleted(app_name, user_id, memory_id), encode({}), owned_by(user_id))
            await self._commit([*map(Delete, found), mark])

    def _tags(self, app: str, user: str, session: str) -> dict[str, str]:
        return {"user": digest(app, user)} | layouts.remembered_of(digest(app, user, session))

    def _deleted(self, app: str, user: str, event: str) -> Key:
        key: Key = self._scope.key(DELETED, digest(app, user, event))
        return key

    async def _puts(self, app: str, user: str, session: str, events: Sequence[Event]) -> list[Put]:
        """Return what remembers events that say something and were not deleted."""
        said = {event.id: event for event in events if event.content and event.content.parts}
        marks = await self._scope.get_all([Get(self._deleted(app, user, id)) for id in said])
        puts = []
        for (id, event), mark in zip(said.items(), marks, strict=True):
            if mark is None and event.content is not None:
                told = {
                    "id": id,
                    "author": event.author,
                    "at": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
                    "content": event.content.model_dump_json(exclude_none=True),
                }
                tags = self._tags(app, user, session) | {"event": digest(id)} | owned_by(user)
                key = self._scope.key(KIND, digest(app, user, session, id))
                puts.append(Put(key, encode(told), tags, spoken(event).replace("\0", "") or None))
        return puts

    async def _commit(self, writes: Sequence[Write]) -> None:
        if writes:
            await self._scope.store.commit(Commit(new_id(), (), tuple(writes)))


def entry_of(document: Document) -> MemoryEntry:
    value = document.value.load()
    content = MemoryEntry.model_fields["content"].annotation
    assert content is not None
    return MemoryEntry(
        id=value["id"],
        author=value["author"],
        timestamp=value["at"],
        content=content.model_validate_json(value["content"]),
    )
