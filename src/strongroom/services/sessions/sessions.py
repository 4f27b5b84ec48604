"""The sessions of a space: open, find, list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strongroom.arguments import checked
from strongroom.codec import encode
from strongroom.embedders import Embedder
from strongroom.errors import Conflict, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions.handle import TRIES, AnyTokenizer, contended, info
from strongroom.services.sessions.search import Finder, Mode
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import MESSAGE, SESSION, State, beginning, dump
from strongroom.services.sessions.values import Hits, SessionInfo
from strongroom.services.sessions.vectors import Meaning
from strongroom.store import Commit, Expect, Get, Put, Range, Scan, Slice, new_id
from strongroom.tokens import tokenizer as find_tokenizer
from strongroom.values import Listing


@checked
class AsyncSessions:
    """The sessions of one space."""

    def __init__(self, scope: Scope, *, embedder: Embedder | None = None, threads: bool = True) -> None:
        self._scope = scope
        self._embedder = embedder
        self._threads = threads
        self._meaning = None if embedder is None else Meaning(embedder, threads)

    def using(self, *, embedder: Embedder | Callable[..., Any]) -> AsyncSessions:
        """Return the same sessions with an embedder, for searches by meaning."""
        made = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
        return AsyncSessions(self._scope, embedder=made, threads=self._threads)

    def inline(self) -> AsyncSessions:
        """Return the same sessions for code without an event loop: nothing is moved to another thread."""
        return AsyncSessions(self._scope, embedder=self._embedder, threads=False)

    async def open(
        self,
        session_id: str | None = None,
        *,
        tokenizer: AnyTokenizer | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> AsyncSession:
        """Open a session, creating it if there is none of that id.

        A `tokenizer` other than the session's own becomes its own; messages already there are counted anew by the calls
        that follow. Title, metadata and tags are for a new session and leave an old one as it is.
        """
        chosen = None if tokenizer is None else find_tokenizer(tokenizer)
        wanted = session_id if session_id is not None else new_id()
        key = self._scope.key(SESSION, wanted)
        for _ in range(TRIES):
            document, end = await self._scope.store.read([Get(key), Range(self._scope.key(MESSAGE, wanted), 0, 0)])
            if document is not None:
                session = AsyncSession(self._scope, document, chosen, self._meaning)
                if chosen is not None:
                    await session.count_with(chosen)
                return session
            counter = chosen or self._scope.tokenizer
            facts = dict(metadata or {})
            encode(facts)
            name = counter.name
            state = State(title or wanted, self._scope.clock(), name, name, beginning(end), metadata=facts)
            creation = Commit(new_id(), (Expect(key, 0),), (Put(key, dump(state), _tags(tags)),))
            try:
                await self._scope.store.commit(creation)
            except Conflict:
                continue
        raise contended(wanted)

    async def get(self, session_id: str) -> AsyncSession:
        """Open a session that must exist, or raise `NotFound`."""
        (document,) = await self._scope.store.read([Get(self._scope.key(SESSION, session_id))])
        if document is None:
            raise NotFound(f"there is no session {session_id!r:.80}; nothing changed", kind=SESSION, id=session_id)
        return AsyncSession(self._scope, document, None, self._meaning)

    async def list(
        self,
        *,
        tags: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = 50,
        reverse: bool = False,
    ) -> Listing[SessionInfo]:
        """Return a page of sessions in order of creation, those that carry all of `tags`."""
        (page,) = await self._scope.store.read([Scan(self._scope.space, SESSION, _tags(tags), after, limit, reverse)])
        ends: Sequence[Slice] = await self._scope.store.read(
            [Range(self._scope.key(MESSAGE, document.key.id), 0, 0) for document in page.documents]
        )
        return Listing((info(document, end) for document, end in zip(page.documents, ends, strict=True)), page.next)

    async def search(self, query: str, *, k: int = 5, mode: Mode = "hybrid") -> Hits:
        """Return the messages of all sessions that answer a query best, best first."""
        return await Finder(self._scope, lambda _: self._scope.tokenizer, self._meaning).search(query, k, mode)


def _tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    return dict(tags or {})
