"""The sessions of a space: open, find, list, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strongroom.arguments import Count, checked
from strongroom.codec import encode
from strongroom.embedders import Embedder
from strongroom.errors import Damaged
from strongroom.meant import Meant
from strongroom.operations import Operation, Plan, perform
from strongroom.retrieval import Reranker
from strongroom.scope import Scope
from strongroom.services.owning import OWNER, owned, to_be_given
from strongroom.services.sessions.erasure import delete, remove_some
from strongroom.services.sessions.handle import found, info
from strongroom.services.sessions.search import Finder, Mode
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import COUNT, MESSAGE, SESSION, State, beginning, dump, parse
from strongroom.services.sessions.values import ErasedMessages, Hits, SessionInfo
from strongroom.services.sessions.vectors import Meaning
from strongroom.services.sessions.view import both, view_of
from strongroom.services.sessions.writes import Decision, counting_anew
from strongroom.store import Expect, Get, Put, Range, Receipt, Scan, new_id
from strongroom.tokens import Tokenizer
from strongroom.tokens.counting import Absent, AnyTokenizer, counter, remembered
from strongroom.values import Listing


@checked
class AsyncSessions(Meant):
    """The sessions of one space.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.sessions.open("support-7")
    ...         return [session.id for session in await ctx.sessions.list()]
    >>> asyncio.run(main())
    ['support-7']
    """

    def __init__(self, scope: Scope, *, embedder: Embedder | None = None) -> None:
        self._scope = scope
        self._meaning = None if embedder is None else Meaning(embedder, scope.threads)

    def __repr__(self) -> str:
        return f"<sessions of space {self._scope.space!r}>"

    def using(self, *, embedder: Embedder | Callable[..., Any]) -> AsyncSessions:
        """Return the same sessions with an embedder, for searches by meaning."""
        made = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
        return AsyncSessions(self._scope, embedder=made)

    async def open(
        self,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        tokenizer: AnyTokenizer | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        commit_id: str | None = None,
    ) -> AsyncSession:
        """Open a session, creating it if there is none of that id.

        `user_id` says whose it is: `list` finds it by that, and `ctx.erase` erases it. It is kept as the tag `user_id`;
        a session without one gets it, one of somebody else's is a `Conflict`.
        A `tokenizer` other than the session's own becomes its own; messages already there are counted anew by the calls
        that follow. Title, metadata and other tags are for a new session and leave an old one as it is.
        """
        chosen = None if tokenizer is None else remembered(tokenizer)
        scope, facts, kept = self._scope, dict(metadata or {}), owned(tags, user_id)
        owner = kept.get(OWNER)  # the tag alone names one as well: it is all that a server is told
        wanted = session_id if session_id is not None else new_id()
        key, stream = scope.key(SESSION, wanted), scope.key(MESSAGE, wanted)
        said = {"session_id": session_id, "tokenizer": chosen and chosen.name, "title": title or session_id}
        content = encode({**said, "metadata": facts, "tags": kept})

        created = False

        async def attempt() -> Plan[AsyncSession]:
            nonlocal created
            document, end, counts = await scope.read(*both(scope, wanted), Range(scope.key(COUNT, wanted), 0, 0))
            created = document is None
            if document is None:
                name = remembered(chosen or scope.tokenizer).name
                state = State(title or wanted, scope.clock(), name, name, beginning(end), metadata=facts)
                # One who opens, appends and deletes while we decide leaves the stream longer than we saw it.
                made = Decision([Put(key, dump(state), kept)], [Expect(key, 0), Expect(stream, end.length)])
            else:
                view = view_of(scope, wanted, document, end, Absent)
                state, made = counting_anew(view, chosen.name if chosen else view.state.tokenizer, counts.length)
                made = Decision(made.writes, [Expect(key, document.version), *made.expects])
                if owner and to_be_given(f"session {wanted!r}", key, document.tags.get(OWNER), owner):
                    given = {**document.tags, OWNER: owner}
                    others = [write for write in made.writes if write.key != key]
                    made = Decision([Put(key, dump(state), given), *others], made.expects)
            version = None if document is None or made.writes else document.version

            def opened(receipt: Receipt) -> AsyncSession:
                return self._session(wanted, state, version if document is not None else receipt.versions[0], chosen)

            return Plan(made.expects, made.writes, opened, encode([wanted, state.life]))

        async def replay(receipt: Receipt) -> AsyncSession:
            assert receipt.answer is not None
            return self._session(*await found(scope, *receipt.answer.load()), chosen)

        # Whoever asks for any new session asks for another one than whoever names it.
        target = key if session_id is not None else scope.key(SESSION, "*")
        opened = await perform(scope, Operation("sessions.open", target, content, commit_id), attempt, replay)
        if created:  # often enough, and never when somebody only goes on
            await remove_some(scope)
        return opened

    async def get(self, session_id: str) -> AsyncSession:
        """Open a session that must exist, or raise `NotFound`."""
        return self._session(*await found(self._scope, session_id), None)

    async def _handle(self, session_id: str, life: str = "") -> AsyncSession:
        """Return a handle on a session as it was in this life, if one is named. It may have been deleted since: what
        was done before can still be told again."""
        document = await self._scope.get(Get(self._scope.key(SESSION, session_id)))
        name = self._scope.tokenizer.name
        state = State(session_id, 0, name, name) if document is None else parse(document.value)
        version = None if document is None else document.version
        if life not in ("", state.life):
            state, version = state.in_life(life), None
        return self._session(session_id, state, version, None)

    async def delete(self, session_id: str, *, commit_id: str | None = None) -> None:
        """Remove a session and its messages for good, or raise `NotFound`. See `Session.delete`."""
        await delete(self._scope, session_id, commit_id)

    async def erase(self, session_id: str, *, commit_id: str | None = None) -> ErasedMessages:
        """Leave nothing of a session but its name, or raise `NotFound`. See `Session.erase`: this is its `all`, and can
        be repeated when there is no session to get any more."""
        return await (await self._handle(session_id)).erase(all=True, commit_id=commit_id)

    def _session(self, id: str, state: State, version: int | None, chosen: Tokenizer | None) -> AsyncSession:
        return AsyncSession(self._scope, id, state, () if chosen is None else (chosen,), self._meaning, version)

    async def list(
        self,
        *,
        user_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: Count = 50,
        reverse: bool = False,
    ) -> Listing[SessionInfo]:
        """Return a page of sessions in order of creation, those of a user and those that carry all of `tags`."""
        scan = Scan(self._scope.space, SESSION, owned(tags, user_id), after, limit, reverse)
        found, following, damaged = await self._scope.listed(scan, lambda document: (document, parse(document.value)))
        ends = await self._scope.get_sound([Range(self._scope.key(MESSAGE, one.key.id), 0, 0) for one, _ in found])
        infos, bad = list[SessionInfo](), [*damaged]
        for (document, _), end in zip(found, ends, strict=True):
            if isinstance(end, Damaged):
                bad.append(document.key.id)
            else:
                infos.append(info(document, end))
        return Listing(infos, following, tuple(bad))

    async def search(
        self, query: str, *, k: Count = 5, mode: Mode | None = None, rerank: Reranker | None = None
    ) -> Hits:
        """Return the messages of all sessions that answer a query best, best first."""
        known = {self._scope.tokenizer.name: self._scope.tokenizer}
        finder = Finder(self._scope, lambda name: counter(name, known), self._meaning)
        return await finder.search(query, k, mode, rerank=rerank)
