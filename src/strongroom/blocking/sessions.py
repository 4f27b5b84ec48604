"""Sessions and Session: the blocking twins of AsyncSessions and AsyncSession."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from strongroom.arguments import got_by
from strongroom.bridge import blocking, iterate, run
from strongroom.embedders import Embedder
from strongroom.meant import Meant, Unsettable
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.values import Message
from strongroom.tokens import Tokenizer


@got_by("`ctx.sessions.open(session_id)`", lambda given: isinstance(given, AsyncSession))
class Session(Unsettable):
    """One conversation. Made by `ctx.sessions.open`.

    >>> ctx = strongroom.open("memory://")
    >>> chat = ctx.sessions.open("support-7", user_id="ana")
    >>> _ = chat.append([{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello, Ana."}])
    >>> [message["content"] for message in chat.load(k=1)]
    ['Hello, Ana.']
    >>> len(chat)
    2
    """

    _GOT_BY = " (`ctx.sessions.get(...)`)"  # see `AsyncSession`

    def __init__(self, session: AsyncSession) -> None:
        self._async = session

    def __repr__(self) -> str:
        return repr(self._async).replace("Async", "", 1)

    def __len__(self) -> int:
        """How many messages are visible."""
        return self.info().messages

    def __bool__(self) -> bool:
        return True  # a session without messages is still one

    def __iter__(self) -> Iterator[Message]:
        """Meet every visible message once, the oldest first."""
        return iterate(aiter(self._async))

    @property
    def id(self) -> str:
        """The session's name in its space."""
        return self._async.id

    @property
    def created_at(self) -> datetime:
        """When it was opened first."""
        return self._async.created_at

    @property
    def tokenizer(self) -> Tokenizer:
        """Who counts the session's tokens, as this handle knows it."""
        return self._async.tokenizer

    append = blocking(AsyncSession.append)
    replace = blocking(AsyncSession.replace)
    replace_from = blocking(AsyncSession.replace_from)
    pop = blocking(AsyncSession.pop)
    truncate_from = blocking(AsyncSession.truncate_from)
    restore = blocking(AsyncSession.restore)
    erase = blocking(AsyncSession.erase)
    delete = blocking(AsyncSession.delete)
    rename = blocking(AsyncSession.rename)
    set_metadata = blocking(AsyncSession.set_metadata)
    pin = blocking(AsyncSession.pin)
    unpin = blocking(AsyncSession.unpin)
    count_with = blocking(AsyncSession.count_with)
    load = blocking(AsyncSession.load)
    page = blocking(AsyncSession.page)
    get = blocking(AsyncSession.get)
    info = blocking(AsyncSession.info)
    window = blocking(AsyncSession.window)
    search = blocking(AsyncSession.search)
    backlog = blocking(AsyncSession.backlog)
    wait = blocking(AsyncSession.wait)

    def fork(
        self,
        at: str | None = None,
        *,
        session_id: str | None = None,
        title: str | None = None,
        commit_id: str | None = None,
    ) -> Session:
        """Copy the visible messages, up to and including message `at`, into a new session, in one commit.

        Ids that callers chose are kept; the others are named anew. The two go their own ways from here.
        """
        return Session(run(self._async.fork(at, session_id=session_id, title=title, commit_id=commit_id)))


@got_by("`ctx.sessions`", lambda given: isinstance(given, AsyncSessions))
class Sessions(Meant):
    """The sessions of one space.

    >>> ctx = strongroom.open("memory://")
    >>> _ = ctx.sessions.open("support-7").append({"role": "user", "content": "My order is late."})
    >>> [hit.session_id for hit in ctx.sessions.search("order")]
    ['support-7']
    """

    def __init__(self, sessions: AsyncSessions) -> None:
        self._async = sessions

    def __repr__(self) -> str:
        return repr(self._async)

    def using(self, *, embedder: Embedder | Callable[..., Any]) -> Sessions:
        """Return the same sessions with an embedder, for searches by meaning."""
        return Sessions(self._async.using(embedder=embedder))

    open = blocking(AsyncSessions.open, wrap=Session)
    get = blocking(AsyncSessions.get, wrap=Session)
    delete = blocking(AsyncSessions.delete)
    erase = blocking(AsyncSessions.erase)
    list = blocking(AsyncSessions.list)
    search = blocking(AsyncSessions.search)
