"""What every adapter is given: a context that somebody opened, or the address of a store to open."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import strongroom
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.scope import Scope
from strongroom.services.owning import to_be_given
from strongroom.services.sessions.handle import owner_of
from strongroom.services.sessions.state import SESSION

Where = Context | str | os.PathLike[str]


class Opened:
    """A store for blocking and async code at once, from any thread and any event loop."""

    def __init__(self, where: Where, options: dict[str, Any]) -> None:
        if isinstance(where, AsyncContext):
            raise InvalidInput("an adapter serves blocking code too: pass strongroom.open(...), or an address")
        self.is_ours = not isinstance(where, Context)
        if isinstance(where, Context):
            if options:
                raise InvalidInput(f"a context is open already and takes no {', '.join(sorted(options))}")
            self.ctx = where
        elif isinstance(where, str) and where.startswith(("http://", "https://")):
            self.ctx = strongroom.connect(where, **options)
        else:
            self.ctx = strongroom.open(where, **options)

    @property
    def blocking(self) -> Scope:
        return Scope(Inline(self.ctx.store), self.ctx.space)

    @property
    def awaitable(self) -> Scope:
        return self.ctx.awaitable.scope

    async def require_own(self, session_id: str, user_id: str | None) -> None:
        """Refuse a session of another user than the one an adapter was made for; one of nobody's may become theirs.

        Asked after a session was read, so that one which changed hands meanwhile is not shown.
        """
        if user_id is not None:
            key, owner = self.awaitable.key(SESSION, session_id), await owner_of(self.awaitable, session_id)
            to_be_given(f"session {session_id!r:.80}", key, owner, user_id)

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self.is_ours:
            self.ctx.close()


class Closing:
    """An adapter as a context manager, blocking and async."""

    opened: Opened

    def close(self) -> None:
        """Close the store, if the adapter opened it."""
        self.opened.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
