"""What changes in a space, told to whoever looks at it: one feed for each space in each worker, for any number of tabs.

Theory of operation
-------------------
A feed says that something changed and which, never how: whoever shows it asks again. What this worker commits is told
at once. What other workers and processes commit is found by looking, once a second while anybody follows: the log of
memories, which holds every change of memories and of the review queue; the newest things of every other kind and the
runs that are active, by their versions and lengths; and the things that a follower names, however old they are. A look
is two reads of a bounded size, whatever the history; while nobody follows there is none. What was told when it was
committed is not told again: a look leaves out the very versions that this worker's commits made. One that somebody else
made after them is another version, and is told.

An event's id is the feed's mark and a number. Whoever comes back with the last one gets what came since; if this feed
does not know (another worker, a restart, too long ago) it is told so, by an event `reset`: look at everything again.

Rejected: a stream of changes that every commit appends to. All writers of a space would meet at its end, and programs
that open the store themselves pay for pages nobody looks at.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import Json
from strongroom.errors import StrongroomError
from strongroom.server.bounded import BoundedStore, fewer
from strongroom.services.files import paths as files
from strongroom.services.memories import keys as memories
from strongroom.services.runs import ledger
from strongroom.services.runs import state as runs
from strongroom.services.sessions import state as sessions
from strongroom.services.threads import deliveries, plans
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Document,
    Get,
    Key,
    Page,
    Range,
    Receipt,
    Scan,
    Slice,
    Tail,
)

log = logging.getLogger("strongroom.server")

LOOK_SECONDS = 1.0
KEEP_SECONDS = 60.0  # that a feed lives on without a follower, so that one who reconnects misses nothing
REMEMBERED = 1_000  # events
NEWEST = 32  # of each kind
LOGGED = 64
ACTIVE = ("BUSY", "WAITING_INPUT")

# How what is stored is shown: its topic, and what the thing is called.
SHOWN: dict[str, tuple[str, str]] = {
    runs.KIND: ("runs", "run"),
    ledger.KIND: ("runs", "run"),
    sessions.SESSION: ("sessions", "session"),
    sessions.MESSAGE: ("sessions", "session"),
    memories.MEMORY: ("memories", "memory"),
    memories.BATCH: ("review", "batch"),
    plans.INFO: ("threads", "thread"),
    plans.THREAD: ("threads", "thread"),
    deliveries.DELIVERY: ("threads", "thread"),
    deliveries.DEAD: ("threads", "letter"),
    files.FILE: ("files", "file"),
}
# Which streams tell that a document's thing has changed, although the document has not.
GROWING = {sessions.SESSION: sessions.MESSAGE, plans.INFO: plans.THREAD}
NAMED = {"run": runs.KIND, "session": sessions.SESSION, "thread": plans.INFO}  # by which a follower names things


class Change(Struct, frozen=True):
    """Something changed. `topic` is a list it stands in, `kind` and `id` say which thing; "" for many at once."""

    topic: str
    kind: str
    id: str
    at: datetime


class Version(Struct, frozen=True):
    """How a thing was when it was looked at: the version of its document, and the length of the stream beside it."""

    document: int
    stream: Key | None = None
    length: int = 0

    def differs(self, before: Version, key: Key, ours: Container[tuple[Key, int]]) -> bool:
        """Tell whether the thing has changed by other commits than ours."""
        written = self.document != before.document and (key, self.document) not in ours
        grown = self.length != before.length and self.stream is not None and (self.stream, self.length) not in ours
        return written or grown


NEVER = Version(0)
GONE = -1  # stands for the version of what was deleted


class _Streams(Struct):
    streams: str


class Feed:
    """The changes of one space, as one worker knows them."""

    def __init__(self, store: BoundedStore, space: str, most_bytes: int) -> None:
        self._store = store
        self._space = space
        self._most_bytes = most_bytes
        self._mark = secrets.token_hex(4)
        self._number = 0
        self._events: deque[Change] = deque(maxlen=REMEMBERED)
        self._news = asyncio.Event()
        self._versions: dict[Key, Version] = {}
        self._told: list[tuple[Key, int]] = []  # the versions this worker made, until a look has surely seen them
        self._logged: int | None = None
        self._named: list[Key] = []
        self.followers = 0
        self.begun = asyncio.Event()  # set once it has looked: from then on nothing is missed

    # ---- who follows ------------------------------------------------------------------------------------------------

    async def follow(self, last: str | None, named: Sequence[Key]) -> AsyncIterator[tuple[str, str, Any]]:
        """Give the id, name and data of each event from now on, or from after the last one seen."""
        self.followers += 1
        self._named += named
        try:
            seen = self._seen(last)
            name = "start" if last is None or seen is not None else "reset"
            seen = self._number if seen is None else seen
            yield f"{self._mark}-{seen}", name, {"topic": name}
            while True:
                news = self._news
                missed = self._number - seen
                if missed > len(self._events):  # slower than what happens
                    seen = self._number
                    yield f"{self._mark}-{seen}", "reset", {"topic": "reset"}
                elif missed:
                    change = self._events[-missed]
                    seen += 1
                    yield f"{self._mark}-{seen}", "change", change
                else:
                    await news.wait()
        finally:
            self.followers -= 1
            for key in named:
                self._named.remove(key)

    def _seen(self, last: str | None) -> int | None:
        """Return the number of an event's id, if this feed gave it and still knows what came after it."""
        mark, _, number = (last or "").partition("-")
        if mark != self._mark or not number.isdecimal() or len(number) > 15:
            return None
        return int(number) if 0 <= self._number - int(number) <= len(self._events) else None

    # ---- what happens -----------------------------------------------------------------------------------------------

    def committed(self, commit: Commit, made: Receipt) -> None:
        """Tell what this worker committed. A repeat did nothing; if nobody was told the first time, a look finds it."""
        if made.repeated:
            return
        told: dict[tuple[str, str, str], None] = {}
        log = memories.log_key(self._space)
        for write, version in zip(commit.writes, made.versions, strict=True):
            if write.key.kind in SHOWN:
                told[(*SHOWN[write.key.kind], write.key.id)] = None
                self._told.append((write.key, GONE if type(write) is Delete else version))
            elif type(write) is Append and write.key == log:
                told |= dict.fromkeys(name for entry in write.entries for name in _of_log(entry.body))
                self._told += [(log, version - back) for back in range(len(write.entries))]
        self._tell(told)

    def _tell(self, changed: Iterable[tuple[str, str, str]]) -> None:
        now = datetime.now(UTC)
        for topic, kind, id in changed:
            self._events.append(Change(topic, kind, id, now))
            self._number += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def look(self) -> None:
        """Find out what others committed since the last look."""
        surely = len(self._told)  # what is committed while we look may be seen or not
        found, noted = await fewer(NEWEST, self._most_bytes, self._look)
        ours = set(self._told)
        del self._told[:surely]
        before, was = self._versions, self._logged
        self._versions, self._logged = found, noted.length
        if was is None:
            return
        changed = [key for key, now in found.items() if now.differs(before.get(key, NEVER), key, ours)]
        fresh = {key.kind for key in found if key not in before}
        # What is missing was deleted, unless it made room for something new of its kind.
        gone = [key for key in before if key not in found and key.kind not in fresh and (key, GONE) not in ours]
        told = dict.fromkeys((*SHOWN[key.kind], key.id) for key in (*changed, *gone))
        log = memories.log_key(self._space)
        news = [length for length in range(was + 1, noted.length + 1) if (log, length) not in ours]
        if news and news[0] <= noted.length - len(noted.records):
            told |= dict.fromkeys([("memories", "memory", ""), ("review", "batch", "")])
        elif news:
            kept = {record.index + 1: record.body for record in noted.records}
            told |= dict.fromkeys(name for length in news for name in _of_log(kept.get(length)))
        if told:
            self._tell(told)

    async def _look(self, limit: int) -> tuple[dict[Key, Version], Slice]:
        space = self._space
        questions: list[AnyQuestion] = [
            Tail(memories.log_key(space), LOGGED),
            *(Scan(space, runs.KIND, {"status": status}, limit=limit, reverse=True) for status in ACTIVE),
            *(
                Scan(space, kind, limit=limit, reverse=True)
                for kind in (runs.KIND, sessions.SESSION, plans.INFO, files.FILE, deliveries.DEAD, deliveries.DELIVERY)
            ),
            *(Get(key) for key in dict.fromkeys(self._named)),
        ]
        noted, *answers = await self._store.read(questions)
        assert type(noted) is Slice
        documents = [document for answer in answers for document in _documents(answer)]
        found = {document.key: Version(document.version) for document in documents}
        streams = {key: document for document in documents if (key := _stream(document)) is not None}
        lengths = await self._store.read([Range(key, 0, 0) for key in streams])
        for (stream, document), length in zip(streams.items(), lengths, strict=True):
            assert type(length) is Slice
            found[document.key] = Version(document.version, stream, length.length)
        return found, noted


def _documents(answer: Any) -> Sequence[Document]:
    return answer.documents if type(answer) is Page else [answer] if type(answer) is Document else []


def _stream(document: Document) -> Key | None:
    """Return the stream that grows while its document stays as it is."""
    key = document.key
    if key.kind == runs.KIND:
        return Key(key.space, ledger.KIND, msgspec.json.decode(document.value, type=_Streams).streams)
    grows = GROWING.get(key.kind)
    return None if grows is None else Key(key.space, grows, key.id)


def _of_log(stored: Json | None) -> list[tuple[str, str, str]]:
    """Return what an entry of the log of memories tells of."""
    body = stored.load() if stored is not None else {}
    batch = [("review", "batch", body["batch_id"])] if body.get("batch_id") else []
    return batch + [("memories", "memory", id) for id in (*body.get("added", ()), *body.get("removed", ()))]


class Changes:
    """The feeds of the spaces that somebody follows."""

    def __init__(self, store: BoundedStore, most_bytes: int) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._feeds: dict[str, Feed] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        store.on_commit = self._committed

    def of(self, space: str) -> Feed:
        """Return the feed of a space, which looks for as long as anybody follows."""
        feed = self._feeds.get(space)
        if feed is None:
            feed = self._feeds[space] = Feed(self._store, space, self._most_bytes)
            self._tasks[space] = asyncio.create_task(self._keep(space, feed), name="strongroom-changes")
        return feed

    def _committed(self, commit: Commit, made: Receipt) -> None:
        if self._feeds and (feed := self._feeds.get(commit.space)) is not None:
            feed.committed(commit, made)

    async def _keep(self, space: str, feed: Feed) -> None:
        alone = 0.0
        while alone < KEEP_SECONDS:
            try:
                await feed.look()
            except StrongroomError as problem:
                log.warning("changes could not be looked for: %s", type(problem).__name__)
            feed.begun.set()
            await asyncio.sleep(LOOK_SECONDS)
            alone = 0.0 if feed.followers else alone + LOOK_SECONDS
        del self._feeds[space], self._tasks[space]

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
