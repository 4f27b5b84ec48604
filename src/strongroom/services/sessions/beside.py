"""What adapters keep of a session beside it, for whoever deletes or erases it: their frameworks need not be there.

The conversations of an adapter are ordinary sessions whose ids begin with the adapter's name. Some adapters keep more
of one than its messages, under kinds of their own. Whoever takes a session away takes that along, and first of all: so
whatever a kill leaves is still found by the session. Doing so again does nothing more. What an adapter knows a session
by (`its_own`) goes in one commit with the session, as it was seen: nobody begins one of that name anew between the two.

* LangGraph: checkpoints, what tasks wrote to them, lists of messages of inner graphs. They hold what was said in forms
  that only the framework can read, so erasing one message takes them all.
* ADK: the state of the session; and, when it is erased, what was remembered of it and its artifacts.
* Pydantic AI: the record of the conversation, and where its entries stand (`positions`), which go with the messages.
* LlamaIndex: how far it is archived.

Whoever may write can put anything under these kinds, so nothing that stands there is believed to be what an adapter
writes: what is of another shape leads nowhere, and keeps nobody from deleting or erasing the rest.

What belongs to a person and to no session bears the tag of its owner: ADK's state of a user, memories and artifacts,
and threads of LangGraph that hold no messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from msgspec import Struct

from strongroom.errors import Conflict, Damaged
from strongroom.operations import committed, traces
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import of_conversation, of_thread, owned_by
from strongroom.services.sessions.state import MESSAGE, NEVER
from strongroom.store import (
    MAX_NAME,
    Commit,
    Delete,
    Expect,
    Get,
    Key,
    Range,
    Scan,
    Truncate,
    Write,
    new_id,
)

AT_ONCE = 500  # things that one commit takes away
PAGE = 100


async def positions(scope: Scope, session_id: str, stop: int, most: int) -> tuple[list[Expect], list[Write]]:
    """Return what takes away where entries of a conversation of Pydantic AI stand, of those before a place in the
    stream, and what that expects. One more than `most` says that there are more.

    A later conversation of that name may have some too, even the same ones at other places; whoever places an entry
    changes the record.
    """
    if layouts.framework_of(session_id) != layouts.PYDANTIC_AI:
        return [], []
    key, gone = scope.key(layouts.CONVERSATION, session_id), list[Write]()
    record = await scope.get(Get(key))
    async for page in scope.pages(Scan(scope.space, layouts.CONVERSATION_ENTRY, of_conversation(session_id))):
        gone += [Delete(one.key) for one in page if not _is_after(one.value.load(), stop)]
        if len(gone) > most:
            break
    return [Expect(key, 0 if record is None else record.version)] if gone else [], gone[: most + 1]


def _is_after(entry: Any, stop: int) -> bool:
    index = entry.get("index") if isinstance(entry, dict) else None
    return isinstance(index, int) and index >= stop


async def its_own(scope: Scope, session_id: str, length: int) -> tuple[list[Expect], list[Write]]:
    """Return what goes in one commit with a session whose stream was seen with a length, and what that expects."""
    framework = layouts.framework_of(session_id)
    if framework == layouts.LANGGRAPH:  # whoever has begun its thread anew has said something
        return [Expect(scope.key(MESSAGE, session_id), length)], []
    if framework not in layouts.DOCUMENTS:
        return [], []
    key = scope.key(layouts.DOCUMENTS[framework], session_id)
    document = await scope.get(Get(key))
    return ([Expect(key, 0)], []) if document is None else ([Expect(key, document.version)], [Delete(key)])


class Taking(Struct, frozen=True):
    """How things are taken away: deleted, or, with a stream that it is noted with, erased."""

    scope: Scope
    erases: Key | None = None

    async def of_session(self, session_id: str, *, whole: bool = True) -> int:
        """Take away what adapters keep of a session, or of some of its messages; return how much that was."""
        framework = layouts.framework_of(session_id)
        if framework == layouts.LANGGRAPH:
            return await self._lines(session_id.partition("/")[2])
        if framework == layouts.ADK and self.erases is not None:
            return await self._adk_copies(session_id, whole)
        return 0

    async def lines_of(self, user_id: str) -> list[Key]:
        """Return the threads of LangGraph that bear the tag of their owner."""
        return await self._found(layouts.LINE, owned_by(user_id))

    async def of_owner(self, user_id: str) -> int:
        """Take away what else bears the tag of its owner; return how much that was."""
        count = 0
        for kind in layouts.OF_OWNER:
            count += await self._all(await self._found(kind, owned_by(user_id)))
        return count

    async def _adk_copies(self, session_id: str, whole: bool) -> int:
        """Take away what was remembered of an ADK session, and with the whole of it its artifacts."""
        here = layouts.adk_place(session_id)
        found = await self._found(layouts.ADK_MEMORY, layouts.remembered_of(here))
        if whole:
            found += await self._found(layouts.ADK_ARTIFACT, layouts.artifacts_of(here))
        return await self._all(found)

    async def _all(self, keys: Sequence[Key]) -> int:
        await self._in_steps([Delete(one) for one in keys if one.kind != layouts.ADK_ARTIFACT])
        for one in keys:
            if one.kind == layouts.ADK_ARTIFACT:
                await self.artifact(one)
        return len(keys)

    async def artifact(self, key: Key) -> None:
        """Take away an artifact of ADK with all its versions, also one that is saved meanwhile."""
        versions = self.scope.key(layouts.ADK_ARTIFACT_VERSION, key.id)
        for _ in attempts(f"{key.kind} {key.id!r}"):
            try:
                document = await self.scope.get(Get(key))
                if document is None:
                    return
                gone = [Delete(key), Truncate(versions, NEVER), *await self._large(key.id)]
                await self.commit(gone, [Expect(key, document.version)])
            except Damaged:  # whatever it is by now: nobody can save a version of it either
                await self.commit([Delete(key), Delete(versions), *await self._large(key.id)])
            except Conflict:
                continue
            return

    # ---- LangGraph --------------------------------------------------------------------------------------------------

    async def _lines(self, thread: str) -> int:
        """Take away the checkpoints of a thread, whose name is that of the session, or too long for it."""
        count = 0
        for tags in (of_thread(thread), {layouts.THREAD: thread}):
            for key in await self._found(layouts.LINE, tags):
                count += await self.line(key)
        return count

    async def line(self, line: Key) -> int:
        """Take away a thread of LangGraph, or an inner one, whatever is put into it meanwhile; it counts as one."""
        written = set[Key]()
        for _ in attempts(f"{line.kind} {line.id!r}"):
            try:
                written |= await self._line(line.id)
                await self._late(line, sorted(written, key=lambda one: one.id))
            except Conflict:
                continue  # somebody has put another checkpoint, written to one, or begun the line anew
            break
        return 1

    async def _line(self, id: str) -> set[Key]:
        """Take away a line; return the streams that its tasks wrote to."""
        key = self.scope.key
        document, end, early = await self.scope.read(
            Get(key(layouts.LINE, id)),
            Range(key(layouts.CHECKPOINT, id), 0, 0),
            Range(key(layouts.EARLY, id), 0, 0),
        )
        if document is None:
            return set()
        facts, checkpoints, channels = _texts(document.value.load()), set[str](), set[str]()
        thread, inner = facts.get("thread", ""), facts.get("ns", "")
        async for name, body in self._records(key(layouts.CHECKPOINT, id)):
            checkpoints.add(name)
            places = body.get("at") if isinstance(body, dict) else None
            if isinstance(places, dict):
                channels |= {channel for channel, at in places.items() if isinstance(at, list)}
        async for _, name in self._records(key(layouts.EARLY, id)):
            if isinstance(name, str):
                checkpoints.add(name)
        names = (layouts.task_writes_id(id, name) for name in sorted(checkpoints))
        written = [key(layouts.TASK_WRITES, name) for name in names if len(name) <= MAX_NAME]
        await self._in_steps([Delete(one) for one in written])
        await self._in_steps(await self._large(id))
        items = [
            Truncate(key(layouts.ITEM, layouts.item_id(thread, inner, channel)), NEVER)
            for channel in sorted(channels)
            if not layouts.is_session(inner, channel)
        ]
        # Truncated, not deleted: a deleted stream does not tell where the next record will stand.
        gone: list[Write] = [
            Truncate(key(layouts.CHECKPOINT, id), NEVER),
            *items,
            Delete(key(layouts.EARLY, id)),
        ]
        # Who writes to a checkpoint that is not there yet says so in the stream of early ones.
        expects = [Expect(document.key, document.version), Expect(key(layouts.EARLY, id), early.length)]
        if end.length:
            expects.append(Expect(key(layouts.CHECKPOINT, id), end.length))
        await self.commit([*gone, Delete(document.key)], expects)
        return set(written)

    async def _late(self, line: Key, written: Sequence[Key]) -> None:
        """Take away what was written to a line between what was taken away before it and the line itself.

        Nothing more is from now on; if the line is begun anew, that is a conflict.
        """
        ends = await self.scope.get_all([Range(one, 0, 0) for one in written])
        late = [Delete(one) for one, end in zip(written, ends, strict=True) if end.length > end.first]
        await self._in_steps(late, [Expect(line, 0)])
        await self._in_steps(await self._large(line.id), [Expect(line, 0)])

    async def _records(self, stream: Key) -> AsyncIterator[tuple[str, Any]]:
        """Give the type and the content of each record, as many at once as one read may hold."""
        start = 0
        while (part := await self.scope.some(Range(stream, start, None, PAGE))).records:
            for record in part.records:
                yield record.type, None if record.body is None else record.body.load()
            start = part.records[-1].index + 1

    async def _large(self, owner: str) -> list[Write]:
        """Return what takes away texts that are too large for a record, which adapters keep in pieces.

        One that is only staged may be about to begin anew what is deleted; whoever erases takes it too.
        """
        staged = None if self.erases is not None else layouts.STAGED
        found = await self._found(layouts.LARGE, layouts.named_by(owner), besides=staged)
        return [Delete(self.scope.key(kind, one.id)) for one in found for kind in (layouts.LARGE, layouts.LARGE_PIECE)]

    # ---- small parts ------------------------------------------------------------------------------------------------

    async def _found(self, kind: str, tags: dict[str, str], besides: dict[str, str] | None = None) -> list[Key]:
        """Return the keys of all documents that carry these tags, also of those that are damaged, but for those with
        the tags `besides`. No more than the keys: there may be any number of documents, and each may be large."""
        found = list[Key]()
        if not tags:
            return found
        pages = self.scope.pages(
            Scan(self.scope.space, kind, tags, limit=PAGE),
            lambda damage: found.append(self.scope.key(kind, damage.id)),
        )
        async for page in pages:
            found += [one.key for one in page if besides is None or not one.tags.items() >= besides.items()]
        return found

    async def _in_steps(self, writes: Sequence[Write], expects: Sequence[Expect] = ()) -> None:
        for start in range(0, len(writes), AT_ONCE):
            await self.commit(writes[start : start + AT_ONCE], expects)

    async def commit(self, writes: Iterable[Write], expects: Iterable[Expect] = ()) -> None:
        """Make one step. One of an erasure owes the store's files what the last one pays."""
        owes = self.erases is not None
        if self.erases is not None:
            writes = [*writes, traces(self.erases)]
        await committed(self.scope, Commit(new_id(), tuple(expects), tuple(writes), owes=owes))


def _texts(value: Any) -> dict[str, str]:
    """Return the fields of a value that are text, if it has any."""
    return {name: one for name, one in value.items() if isinstance(one, str)} if isinstance(value, dict) else {}
