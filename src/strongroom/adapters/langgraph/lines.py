"""A line is what LangGraph calls a thread and a namespace: its checkpoints, one after the other.

Layout. Ids are digests, so that any name of a thread fits.

| kind | shape | holds |
|---|---|---|
| `langgraph_line` | document for each line | the names, which checkpoints are no longer listed, whether ids ascend |
| `langgraph_checkpoint` | stream for each line | a record for each checkpoint; its type is the checkpoint's id |
| `langgraph_writes` | stream for each checkpoint | a record for each `put_writes`; who wins is decided on reading |
| `langgraph_early` | stream for each line | ids of checkpoints that had writes before they came, if they ever did |
| `langgraph_item` | stream for each list of messages | but `messages` of the outermost graph, which are a session's |
| `langgraph_run` | document for each run and line | to find the checkpoints of a run |

A channel's value is stored in the record of the checkpoint that changed it, and later ones name that record. Every put
expects the line as it was seen, so whoever loses a race looks again and the places it names are right.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from strongroom.adapters.langgraph.lists import Known, Ranges
from strongroom.codec import Json, encode
from strongroom.scope import Scope
from strongroom.services.owning import OWNER, to_be_given
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest, is_session, owned_by
from strongroom.services.sessions.state import MESSAGE, SESSION, State
from strongroom.store import MAX_NAME, Document, Expect, Get, Key, Put, Record, Tail

SESSION_PREFIX = f"{layouts.LANGGRAPH}/"
LINE = layouts.LINE
CHECKPOINT = layouts.CHECKPOINT
EARLY = layouts.EARLY
RUN = layouts.RUN


def session_id(thread: str) -> str:
    """Return the id of the session that the messages of a thread are."""
    name = SESSION_PREFIX + thread
    return name if len(name) <= MAX_NAME and name.isprintable() else SESSION_PREFIX + digest(thread)


class Stored:
    """A checkpoint as it is stored."""

    __slots__ = ("_seen", "id", "index", "raw")

    def __init__(self, index: int, id: str, raw: Json) -> None:
        self.index, self.id, self.raw = index, id, raw
        self._seen: dict[str, Any] | None = None

    @classmethod
    def of(cls, record: Record) -> Stored | None:
        """Return the checkpoint of a record; None if it was erased."""
        return None if record.body is None else cls(record.index, record.type, record.body)

    @property
    def seen(self) -> dict[str, Any]:
        """What it says, to look at and not to give away."""
        if self._seen is None:
            self._seen = self.raw.load()
        return self._seen

    @property
    def at(self) -> dict[str, Any]:
        """Where the value of each channel is: the record that holds it (-1: this one), or ranges of a list."""
        at: dict[str, Any] = self.seen["at"]
        return at

    @property
    def parent(self) -> str | None:
        parent: str | None = self.seen["parent"]
        return parent


class Talk(Struct, frozen=True):
    """The document of the session that the messages of a thread are; version 0: there is none."""

    version: int
    state: State | None = None
    tags: dict[str, str] = {}


class Facts(Struct, frozen=True):
    """The value of a line's document."""

    thread: str
    ns: str
    gone: Ranges = []
    ordered: bool = True


class Line(Struct, frozen=True):
    """What is known of a line. A newer one takes its place as a whole, because threads share it."""

    id: str
    thread: str
    ns: str
    version: int = 0  # of its document; 0: there is none
    gone: Ranges = []
    ordered: bool = True
    first: int = 0  # the oldest checkpoint that is still stored
    length: int = 0
    newest: Stored | None = None
    last: str = ""  # the id of the newest checkpoint, also if it was erased
    lists: dict[str, Known] = {}
    run: str = ""
    session: Talk | None = None
    owner: str | None = None  # whose it is, or was when it was seen last

    @property
    def size(self) -> int:
        """How many bytes are stored of what is remembered of it."""
        newest = 0 if self.newest is None else len(self.newest.raw)
        return newest + sum([known.size for known in self.lists.values()])

    def key(self, scope: Scope, kind: str) -> Key:
        return scope.key(kind, self.id)

    def writes(self, scope: Scope, id: str) -> Key:
        return scope.key(layouts.TASK_WRITES, layouts.task_writes_id(self.id, id))

    def is_session(self, channel: str) -> bool:
        return is_session(self.ns, channel)

    def items(self, scope: Scope, channel: str) -> Key:
        if self.is_session(channel):
            return scope.key(MESSAGE, session_id(self.thread))
        return scope.key(layouts.ITEM, layouts.item_id(self.thread, self.ns, channel))

    def lists_checkpoint(self, index: int) -> bool:
        return not any(start <= index < stop for start, stop in self.gone)

    def unchanged(self, scope: Scope) -> list[Expect]:
        """Return what must still be so for what was seen to be true."""
        expects = [Expect(self.key(scope, LINE), self.version)]
        return [*expects, Expect(self.key(scope, CHECKPOINT), self.length)] if self.length else expects

    def put(self, scope: Scope, *, gone: Ranges | None = None, ordered: bool | None = None) -> Put:
        """Return what writes the line's document."""
        facts = Facts(
            self.thread, self.ns, self.gone if gone is None else gone, self.ordered if ordered is None else ordered
        )
        tags = layouts.of_thread(self.thread) | owned_by(self.owner)
        return Put(self.key(scope, LINE), encode(msgspec.to_builtins(facts)), tags)


def named(thread: str, ns: str, owner: str | None = None) -> Line:
    """Return a line of which nothing is known but its name, and whose it was."""
    return Line(layouts.line_id(thread, ns), thread, ns, owner=owner)


def require_owner(scope: Scope, thread: str, owner: str | None, user: str | None) -> None:
    """Refuse a user who names himself where a thread is another's."""
    if user is not None:
        to_be_given(f"thread {thread!r:.80}", scope.key(SESSION, session_id(thread)), owner, user)


async def look(scope: Scope, line: Line, user: str | None = None) -> Line:
    """Return a line as it is now, unless it is of another user than the one who asks. What is remembered of its session
    and its lists is forgotten if somebody has changed the session: messages may have been erased. Else it is checked
    by every put."""
    talk = scope.key(SESSION, session_id(line.thread))
    document, tail, session = await scope.read(
        Get(line.key(scope, LINE)), Tail(line.key(scope, CHECKPOINT), 1), Get(talk)
    )
    owner = next((one.tags[OWNER] for one in (session, document) if one is not None and OWNER in one.tags), None)
    require_owner(scope, line.thread, owner, user)
    owner = owner or line.owner
    if document is None:
        return Line(line.id, line.thread, line.ns, first=tail.first, length=tail.length, owner=owner)
    version, known = 0 if session is None else session.version, line.session
    if known is not None and known.version != version:
        line = msgspec.structs.replace(line, lists={}, session=None)
    facts = facts_of(document)
    newest = tail.records[0] if tail.records else None
    return msgspec.structs.replace(
        line,
        version=document.version,
        gone=facts.gone,
        ordered=facts.ordered,
        first=tail.first,
        length=tail.length,
        newest=None if newest is None else Stored.of(newest),
        last="" if newest is None else newest.type,
        owner=owner,
    )


def facts_of(document: Document) -> Facts:
    return msgspec.json.decode(document.value, type=Facts)
