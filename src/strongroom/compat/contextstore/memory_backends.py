"""Conversations in memory and in a file: ContextStore's methods over `ctx.sessions`.

A message that came without an id is shown with one of 36 characters, as ContextStore gives them. A session names such a
message by its place, so that nothing is stored or looked up for an id nobody chose; here that name is written as a UUID
of version 8: 48 bits that no other session has, and the place. It is the same at each load and can be turned back.
Random ids were tried first: each cost a document of its own, a quarter of an append.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import strongroom
from strongroom.arguments import MOST
from strongroom.codec import encode
from strongroom.compat import importing_contextstore
from strongroom.compat.contextstore.interfaces import MemoryBackend
from strongroom.compat.interactions import shaped
from strongroom.context import AsyncContext
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError, Unavailable
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import Naming
from strongroom.services.sessions.values import Message

_FORM = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4})-8000-([89ab][0-9a-f]{3})-([0-9a-f]{12})")
_VARIANT = 0b10 << 62


class _StoreMemory(MemoryBackend):
    """Conversations in a Strongroom store."""

    def _context(self) -> AsyncContext:
        raise NotImplementedError

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        if isinstance(k, int):
            if k <= 0:
                return []  # as the older system has it, where a session refuses to be asked for none
            k = min(int(k), MOST)
        try:
            session = await self._context().sessions.get(session_id)
            return [*map(Ids(session).shown, await session.load(k))]
        except NotFound:
            return []

    async def save_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        made = shaped(context)
        encoded = [encode(one) for one in made]  # before a session is made for what cannot be stored
        session = await self._context().sessions.open(session_id)
        ids = Ids(session)
        kept = [encode(ids.shown(one)) for one in await session.load()]
        if kept and kept == encoded[: len(kept)]:
            # The usual loop of loading, adding and saving. Replacing would write the whole history at every turn, and
            # keep the hidden copies.
            await _append(session, made[len(kept) :])
        else:
            await session.replace([*map(ids.given, made)])

    async def append_context(self, session_id: str, context: list[dict[str, Any]]) -> None:
        await _append(await self._session(session_id), shaped(context))

    async def delete_session(self, session_id: str) -> None:
        session = await self._session(session_id)
        try:
            await session.delete()
        except NotFound:
            raise _missing(session_id) from None

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        session = await self._session(session_id)
        try:
            await session.truncate_from(Ids(session).known(interaction_id))
        except NotFound:
            raise InvalidInput(
                f"Interaction {interaction_id!r:.80} not found in session {session_id!r:.80}; nothing changed"
            ) from None

    async def _session(self, session_id: str) -> AsyncSession:
        try:
            return await self._context().sessions.get(session_id)
        except NotFound:
            raise _missing(session_id) from None


class InMemoryMemory(_StoreMemory):
    """Conversations in this process's memory."""

    def __init__(self) -> None:
        self._opened = strongroom.open("memory://").awaitable
        weakref.finalize(self, _let_go, self._opened, os.getpid())

    def _context(self) -> AsyncContext:
        return self._opened


class SQLiteMemory(_StoreMemory):
    """Conversations in one file, shared by any number of tasks, threads and processes.

    A file that ContextStore wrote is left as it is: what it holds is brought into a store beside it the first time.
    """

    def __init__(self, db_path: str | os.PathLike[str], create_db: bool = True) -> None:
        self.db_path = os.fspath(db_path)
        self._create = create_db
        self._lock = threading.Lock()
        self._opened: AsyncContext | None = None
        self._pid = 0
        if create_db:
            # Made now, so that a wrong path is told now; opened again at first use, so that a process may still fork.
            self._context()
            self.close()

    async def _init_db(self) -> None:
        self._create = True
        self._context()

    def close(self) -> None:
        """Let go of the file. It is opened again when it is needed."""
        with self._lock:
            if self._opened is not None:
                _let_go(self._opened, self._pid)
            self._opened = None

    def _context(self) -> AsyncContext:
        # Neither a path nor a store belongs to an event loop, so one object serves any number of asyncio.run() calls.
        with self._lock:
            if self._opened is None or self._pid != os.getpid():
                self._opened = strongroom.open(self._address()).awaitable
                self._pid = os.getpid()
                weakref.finalize(self, _let_go, self._opened, self._pid)
            return self._opened

    def _address(self) -> str:
        if self.db_path == ":memory:":
            return "memory://"
        if self._create:
            Path(self.db_path).absolute().parent.mkdir(parents=True, exist_ok=True)
        address = importing_contextstore.adopted(Path(self.db_path))
        if not self._create and not address.exists():
            raise Unavailable(f"there is no file {self.db_path!r} and create_db is False", reason="missing")
        return str(address)


class Ids:
    """The ids of one session, as it knows them and as they are shown. Any other id is left as it is."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._naming = Naming(session.id)

    @cached_property
    def _mark(self) -> str:
        # The time is in it so that a message copied from another store's session of this name keeps an id of its own.
        name = f"{self._session.created_at.isoformat()} {self._session.id}"
        mark = blake2b(name.encode(), digest_size=6).hexdigest()
        return f"{mark[:8]}-{mark[8:]}"

    def shown(self, message: Message) -> dict[str, Any]:
        """Return a message as a dict of its own, with its id."""
        index = self._naming.index(message.id)
        return {**message, "id": message.id if index is None else self._dashed(index)}

    def known(self, message_id: Any) -> Any:
        """Return an id as the session knows it."""
        form = _FORM.fullmatch(message_id) if isinstance(message_id, str) else None
        if form is None or form[1] != self._mark:
            return message_id
        return self._naming.id(int(form[2] + form[3], 16) - _VARIANT)

    def given(self, message: Mapping[str, Any]) -> Any:
        """Return a message with its id, if it brought one, as the session knows it."""
        return {**message, "id": self.known(message["id"])} if "id" in message else dict(message)

    def _dashed(self, index: int) -> str:
        place = f"{_VARIANT + index:016x}"
        return f"{self._mark}-8000-{place[:4]}-{place[4:]}"


async def _append(session: AsyncSession, made: list[dict[str, Any]]) -> None:
    try:
        await session.append([*map(Ids(session).given, made)])
    except NotFound:
        raise _missing(session.id) from None
    except Conflict as problem:
        raise InvalidInput(str(problem)) from None


def _let_go(context: AsyncContext, pid: int) -> None:
    store: Any = context.store
    if pid == os.getpid():  # a forked child leaves its parent's store alone
        with suppress(StrongroomError):  # nobody is left to tell, and an acknowledged write is durable already
            store.blocking.close()


def _missing(session_id: str) -> InvalidInput:
    return InvalidInput(f"Session {session_id!r:.80} does not exist; nothing changed")
