"""StrongroomConversationStore: the conversations of Pydantic AI, each an ordinary session.

| kind | shape | holds |
|---|---|---|
| `pydantic_ai_conversation` | document for each conversation | its record; whoever writes expects what was read |
| `pydantic_ai_entry` | document for each entry of a conversation | where it stands, and the entry before it |
| `message` | stream for each conversation | the messages: an ordinary session, with the entry as a sidecar |

Theory of operation
-------------------
A save is one commit: the record, and the entries that it adds. The history of an entry stands in the same stream as the
entry and before it, so it is read from there backward, a page at a time; entries of branches that were left are passed
over. The session shows the history of the head. A fork gets a copy of the history that it begins with, under the same
entry ids: so deleting a conversation removes all that is its own, and asks no other conversation.

A conversation whose session was deleted is gone; a message that was erased is missing in its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from strongroom.adapters.extras import without

try:
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
except ModuleNotFoundError as missing:
    raise without(missing, "pydantic-ai") from None
from msgspec import Struct, structs
from pydantic import TypeAdapter

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.pydantic_ai.entries import EntryPosition, Found, drafted, entries_of, follow
from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.owning import OWNER, is_anothers
from strongroom.services.sessions import layouts
from strongroom.services.sessions.erasure import delete
from strongroom.services.sessions.layouts import digest, owned_by, session_name
from strongroom.services.sessions.state import MESSAGE, SESSION, State, dump, joined, parse, show
from strongroom.services.sessions.writes import Drafts, appending
from strongroom.store import (
    Commit,
    Document,
    Expect,
    Get,
    Put,
    Range,
    Scan,
    Slice,
    Tail,
    Write,
    new_id,
)

KIND = layouts.CONVERSATION
ENTRY = layouts.CONVERSATION_ENTRY
FRAMEWORK = layouts.PYDANTIC_AI
CODEC = "pydantic_ai.ConversationRecord/1"
PAGE = 500

_records = TypeAdapter(ConversationRecord)


class Stored(Struct, frozen=True):
    """What the store has of a conversation: it is there if both documents are."""

    name: str
    record: Document | None
    session: Document | None
    end: Slice

    @property
    def conversation(self) -> ConversationRecord | None:
        return None if self.record is None or self.session is None else record_of(self.record)

    @property
    def revision(self) -> str | None:
        there = self.conversation
        return None if there is None else there.revision

    def is_anothers(self, scope: str | None) -> bool:
        """Tell whether the session is of another user than a record's scope names."""
        return scope is not None and self.session is not None and is_anothers(self.session.tags.get(OWNER), scope)


class Line(Struct, frozen=True):
    """The history of an entry: the session that it stands in, and its entries there, the oldest first."""

    name: str
    found: list[Found]


class StrongroomConversationStore(ConversationStore, Closing):
    """Keep conversations in a Strongroom store: `store = StrongroomConversationStore("agent.db")`.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address. Use it from any event loop; a
    conversation is also `ctx.sessions.get("pydantic_ai/<conversation_id>")`, of the user that is its `scope`.
    """

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _scope(self) -> Scope:
        return self.opened.awaitable

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return (await self._stored(conversation_id)).conversation

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> list[ConversationRecord]:
        tags = {} if scope is None else {"scope": digest(scope)}
        found: list[ConversationRecord] = []
        async for page in self._scope.pages(Scan(self._scope.space, KIND, tags, limit=PAGE)):
            sessions = await self._scope.get_all([Get(self._scope.key(SESSION, one.key.id)) for one in page])
            found += [record_of(one) for one, session in zip(page, sessions, strict=True) if session is not None]
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and the entries that it adds in one commit, or raise `ConversationConflict`."""
        for _ in attempts(f"conversation {record.conversation_id!r:.80}"):
            stored = await self._stored(record.conversation_id)
            if stored.revision != expected_revision or stored.is_anothers(record.scope):
                raise ConversationConflict(record.conversation_id)
            try:
                commit = await self._saving(stored, record, new_entries)
            except LookupError:  # a head that nobody has: what a fork began with was deleted meanwhile
                raise ConversationConflict(record.conversation_id) from None
            try:
                await self._scope.store.commit(commit)
            except Conflict:
                continue
            return

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Remove a conversation with all its entries for good: as a session is deleted. Its forks have their own."""
        for _ in attempts(f"conversation {conversation_id!r:.80}"):
            stored = await self._stored(conversation_id)
            if stored.record is None or record_of(stored.record).revision != expected_revision:
                raise ConversationConflict(conversation_id)
            try:
                await delete(self._scope, stored.name, None, stored.record.version)
            except (Conflict, NotFound):
                continue
            return

    async def delete(self, conversation_id: str, *, scope: str | None = None) -> None:
        """Remove a conversation, or what is left of one whose removal broke off."""
        await super().delete(conversation_id, scope=scope)
        stored = await self._stored(conversation_id)
        if stored.conversation is None and (stored.record is None or scope in (None, record_of(stored.record).scope)):
            # Gone, or begun anew: then it is somebody else's.
            with suppress(Conflict, NotFound):
                await delete(self._scope, stored.name, None, 0 if stored.record is None else stored.record.version)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        line = await self._line(entry_id, limit=1)
        if not line.found or line.found[0].id != entry_id:
            raise LookupError(f"entry {entry_id!r:.80} was erased")
        return entries_of(line.found)[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        return entries_of((await self._line(head_id, limit=limit)).found)

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def _stored(self, conversation_id: str) -> Stored:
        scope, name = self._scope, session_name(FRAMEWORK, conversation_id)
        [end], [record, session] = await scope.read_all(
            [Range(scope.key(MESSAGE, name), 0, 0)], [Get(scope.key(KIND, name)), Get(scope.key(SESSION, name))]
        )
        return Stored(name, record, session, end)

    async def _place(self, entry_id: str, near: str) -> EntryPosition:
        """Return where an entry stands: in a certain session, or else in any. Forks have the same entry."""
        scope = self._scope
        some = await scope.get(Scan(scope.space, ENTRY, {"entry": digest(entry_id)}, limit=PAGE))
        places = sorted([EntryPosition(**one.value.load()) for one in some.documents], key=lambda one: one.name != near)
        there = [Range(scope.key(MESSAGE, one.name), one.index, one.index + 1) for one in places]
        parts, sessions = await scope.read_all(there, [Get(scope.key(SESSION, one.name)) for one in places])
        for place, part, session in zip(places, parts, sessions, strict=True):
            if part.records and session is not None:  # those of a session that was deleted are gone, or about to go
                return place
        raise LookupError(f"there is no entry {entry_id!r:.80}")

    async def _line(self, head_id: str | None, *, near: str = "", limit: int | None = None) -> Line:
        """Return the history of an entry, or the newest `limit` entries of it. Erased ones are left out."""
        wanted, name, found = head_id, near, list[Found]()
        while wanted is not None and (limit is None or len(found) < limit):
            place = await self._place(wanted, name)
            name, before, on = place.name, place.index + 1, True
            while on and (limit is None or len(found) < limit):
                count = PAGE if limit is None else min(PAGE, limit - len(found))
                part = await self._scope.get(Tail(self._scope.key(MESSAGE, name), count, before=before))
                if not part.records:
                    raise LookupError(f"there is no entry {wanted!r:.80}")
                more, wanted, on = follow(part.records, wanted, place)
                found += more
                before = part.records[0].index
        return Line(name, found[::-1])

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def _saving(self, stored: Stored, record: ConversationRecord, new: Sequence[ConversationEntry]) -> Commit:
        """Return the commit of a record with new entries, which go to the end of its session."""
        scope, name, length = self._scope, stored.name, stored.end.length
        key, stream = scope.key(KIND, name), scope.key(MESSAGE, name)
        before, now = stored.conversation, scope.clock()
        entries, expects, writes = list(new), list[Expect](), list[Write]()
        tags = owned_by(record.scope) | ({"by": FRAMEWORK} if stored.session is None else stored.session.tags)
        if before is None or stored.session is None or not goes_on(before.head_id, new, record.head_id):
            state, line = await self._rewritten(stored, record, new)
            if line.name != name:  # a fork; what is deleted while it is copied must not come back
                source = await scope.get(Get(scope.key(SESSION, line.name)))
                if source is None:
                    raise LookupError(f"{line.name} was deleted")
                expects.append(Expect(source.key, source.version))
                entries = [*linked(entries_of(line.found)), *new]
            writes.append(Put(scope.key(SESSION, name), dump(state), tags))
        else:
            state = parse(stored.session.value)
        for document, at in ((stored.record, key), (stored.session, scope.key(SESSION, name))):
            expects.append(Expect(at, 0 if document is None else document.version))
        expects.append(Expect(stream, length))  # places are told by numbers
        made = Drafts(tuple(drafted(entry, scope.tokenizer) for entry in entries), ids_repeat=True)
        writes += appending(scope, name, state, scope.tokenizer, made, length, now)
        writes += [placing(scope, name, index, entry) for index, entry in enumerate(entries, length)]
        whose = {OWNER: tags[OWNER]} if OWNER in tags else {}  # as the session says
        whose |= {} if record.scope is None else {"scope": digest(record.scope)}
        text = _records.dump_json(record).decode()
        return Commit(new_id(), tuple(expects), (*writes, Put(key, encode({"codec": CODEC, "json": text}), whose)))

    async def _rewritten(
        self, stored: Stored, record: ConversationRecord, new: Sequence[ConversationEntry]
    ) -> tuple[State, Line]:
        """Return the state of a session that shows another history than before, and the part of it that is stored."""
        scope, name, length = self._scope, stored.name, stored.end.length
        fresh, last, shown = {entry.id: entry for entry in new}, record.head_id, set[str]()
        while last is not None and last in fresh:
            shown.add(last)
            last = fresh[last].parent_id
        line = await self._line(last, near=name)
        copied = 0 if line.name == name else len(line.found)
        indexes = [one.index for one in line.found] if not copied else list(range(length, length + copied))
        indexes += [index for index, entry in enumerate(new, length + copied) if entry.id in shown]
        visible = show(((length + copied + len(new), None),), list(joined((one, one + 1) for one in indexes)))
        if stored.session is not None:
            return structs.replace(parse(stored.session.value), visible=visible), line
        counter, source = scope.tokenizer.name, None if record.forked_from is None else line.name
        title = record.conversation_id
        return State(title, scope.clock(), counter, counter, visible, forked_from=source), line


def record_of(document: Document) -> ConversationRecord:
    return _records.validate_json(document.value.load()["json"])


def goes_on(head: str | None, new: Sequence[ConversationEntry], then: str | None) -> bool:
    """Tell whether new entries follow one another from one head to the next."""
    for entry in new:
        if entry.parent_id != head:
            return False
        head = entry.id
    return head == then


def linked(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    """Return a history in which each entry follows the one before it, also where some between were erased."""
    parents = [None, *(entry.id for entry in entries)]
    return [replace(entry, parent_id=parent) for entry, parent in zip(entries, parents, strict=False)]


def placing(scope: Scope, name: str, index: int, entry: ConversationEntry) -> Put:
    """Return what tells where an entry stands."""
    key = scope.key(ENTRY, digest(entry.id, name))
    value = {"name": name, "index": index, "parent": entry.parent_id}
    return Put(key, encode(value), {"entry": digest(entry.id)} | layouts.of_conversation(name))
