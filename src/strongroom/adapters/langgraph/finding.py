"""Finding checkpoints: by id, the newest of a line, all of a line, all lines of a thread.

Written once, in `async def`, awaiting nothing but the port; `saver.py` drives it for blocking and for async code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from threading import Lock

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from strongroom.adapters.langgraph.lines import CHECKPOINT, LINE, Line, Stored, facts_of, look, named
from strongroom.scope import Scope
from strongroom.services.owning import is_anothers
from strongroom.services.sessions.layouts import of_thread
from strongroom.store import Range, Scan, Tail

MOST_LINES = 1000
MOST_BYTES = 16_000_000  # of what is stored of them
PAGE = 100


class Lines:
    """The lines seen last, shared by whoever uses one saver: so many, and so much of them, that the oldest go. One is
    always kept, however long it is."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}  # the one that was kept last stands last
        self._size = 0
        self._lock = Lock()

    def get(self, id: str) -> Line | None:
        return self._lines.get(id)

    def keep(self, line: Line) -> None:
        with self._lock:
            self._drop(line.id)
            self._lines[line.id] = line
            self._size += line.size
            while len(self._lines) > MOST_LINES or (self._size > MOST_BYTES and len(self._lines) > 1):
                self._drop(next(iter(self._lines)))

    def pop(self, id: str, default: None = None) -> None:
        """Forget a line, if it is known."""
        with self._lock:
            self._drop(id)

    def _drop(self, id: str) -> None:
        line = self._lines.pop(id, None)
        if line is not None:
            self._size -= line.size


class Finding(Struct, frozen=True):
    """The checkpoints of a space, seen with one serializer."""

    scope: Scope
    serde: SerializerProtocol
    lines: Lines
    user_id: str | None = None  # whose the threads are, if a config does not say

    def user(self, config: RunnableConfig | None) -> str | None:
        """Return the user who a config, or else the saver, says that it is for."""
        user = (config or {}).get("configurable", {}).get("user_id", self.user_id)
        return None if user is None else str(user) or None

    async def find(self, line: Line, id: str) -> Stored | None:
        """Return a checkpoint, listed or not."""
        if line.newest is not None and line.newest.id == id:
            return line.newest
        if not line.ordered:
            async for one in self.walk(line):
                if one.id == id:
                    return one
            return None
        key = line.key(self.scope, CHECKPOINT)
        near = await self.scope.get(Tail(key, 2))  # as a rule it is one of the last
        for record in near.records:
            if record.type == id:
                return Stored.of(record)
        low, high = near.first, line.length
        while low < high:
            middle = (low + high) // 2
            there = (await self.scope.get(Range(key, middle, middle + 1))).records
            if there and there[0].type == id:
                return Stored.of(there[0])
            # What is not there was removed meanwhile, with all that came before it.
            low, high = (middle + 1, high) if not there or there[0].type < id else (low, middle)
        return None

    async def walk(self, line: Line) -> AsyncIterator[Stored]:
        """Meet all checkpoints that were not erased, the one put last first."""
        before: int | None = None
        while True:
            part = await self.scope.get(Tail(line.key(self.scope, CHECKPOINT), PAGE, None, before))
            for record in reversed(part.records):
                stored = Stored.of(record)
                if stored is not None:
                    yield stored
            if not part.records:
                return
            before = part.records[0].index

    async def listed(self, line: Line, before: str | None = None) -> AsyncIterator[Stored]:
        """Meet the listed checkpoints, the greatest id first."""
        if line.ordered:
            async for one in self.walk(line):
                if line.lists_checkpoint(one.index) and (before is None or one.id < before):
                    yield one
            return
        found = [one async for one in self.walk(line) if line.lists_checkpoint(one.index)]
        for one in sorted(found, key=lambda one: one.id, reverse=True):
            if before is None or one.id < before:
                yield one

    async def newest(self, line: Line) -> Stored | None:
        if line.ordered and line.newest is not None and line.lists_checkpoint(line.newest.index):
            return line.newest
        async for one in self.listed(line):
            return one
        return None

    async def lines_of(self, thread: str | None, ns: str | None = None, user: str | None = None) -> list[Line]:
        """Return the lines of a thread, which may not be another user's, or all that are not."""
        if thread is not None and ns is not None:
            line = await look(self.scope, named(thread, ns), user)
            return [line] if line.version else []
        tags = {} if thread is None else of_thread(thread)
        found = []
        async for page in self.scope.pages(Scan(self.scope.space, LINE, tags, limit=PAGE)):
            for facts in map(facts_of, page):
                line = await look(self.scope, named(facts.thread, facts.ns), None if thread is None else user)
                if user is None or not is_anothers(line.owner, user):
                    found.append(line)
        return found
