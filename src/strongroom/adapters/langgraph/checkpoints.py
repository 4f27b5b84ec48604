"""Writing checkpoints: each is one commit, which stores what changed and names where the rest is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from strongroom.adapters import large
from strongroom.adapters.exact import is_exact
from strongroom.adapters.langgraph.lines import (
    CHECKPOINT,
    EARLY,
    LINE,
    RUN,
    Line,
    Stored,
    Talk,
    look,
    named,
    require_owner,
    session_id,
)
from strongroom.adapters.langgraph.lists import Known, Ranges, changed
from strongroom.adapters.langgraph.messages import Pair, dumped, is_list, written
from strongroom.adapters.langgraph.reading import Reading, config_of, covering, where
from strongroom.codec import Json, encode
from strongroom.errors import Conflict, NotFound
from strongroom.retry import attempts
from strongroom.services.owning import OWNER
from strongroom.services.sessions.layouts import digest, line_id, owned_by
from strongroom.services.sessions.records import draft
from strongroom.services.sessions.state import SESSION, State, dump, parse
from strongroom.services.sessions.writes import Drafts, appending
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Get, Put, Write, new_id


class Checkpoints(Reading, frozen=True):
    """What is written of checkpoints."""

    async def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint in one commit: what changed, and where the rest is."""
        thread, ns = where(config)
        parent = config["configurable"].get("checkpoint_id")
        told = get_checkpoint_metadata(config, metadata)
        user = self.user(config)
        line, owner = self._remembered(thread, ns, user)
        async with large.Staging(self.scope, line_id(thread, ns)) as staging:
            for _ in attempts(f"thread {thread!r:.80}"):
                if line is None:
                    line = await look(self.scope, named(thread, ns, owner), user)
                try:
                    self.lines.keep(await self._put(line, checkpoint, told, new, parent, staging, user))
                except Conflict:
                    line = None  # what was remembered is no longer so
                    continue
                return config_of(line, checkpoint["id"])
        raise AssertionError("attempts() raises when it is enough")

    async def _put(
        self,
        line: Line,
        checkpoint: Checkpoint,
        metadata: Any,
        new: ChannelVersions,
        parent: str | None,
        staging: large.Staging,
        user: str | None,
    ) -> Line:
        before = await self.find(line, parent) if parent else None
        # One that is not listed any more may be about to go, and what it holds with it.
        if parent and (line.first if before is None else not line.lists_checkpoint(before.index)):
            raise removed(line)
        owner = user or line.owner
        changes = not line.version or owner != line.owner
        line = msgspec.structs.replace(line, owner=owner)
        expects, writes = line.unchanged(self.scope), list[Write]()
        at, held, lists, session = dict[str, Any](), dict[str, Any](), dict(line.lists), line.session
        # A value without a version is kept as well, like by savers that store checkpoints whole.
        unversioned = dict.fromkeys(checkpoint["channel_values"])
        for channel, version in {**unversioned, **checkpoint["channel_versions"]}.items():
            old = None if before is None else before.at.get(channel)
            if (
                before is not None
                and old is not None
                and version is not None
                and channel not in new
                and versions_of(before).get(channel) == version
            ):
                at[channel] = before.index if old == -1 else old
            elif channel in checkpoint["channel_values"]:
                value = checkpoint["channel_values"][channel]
                if not (self._is_open and is_list(value)):
                    at[channel], held[channel] = -1, dumped(self.serde, value)
                    continue
                known = await self._known(line, channel, old if isinstance(old, list) else [])
                change = changed(known, value, self.serde)
                if change.new or line.is_session(channel):
                    more, made, session = await self._storing(line, channel, known, change.known, change.new, session)
                    expects, writes = [*expects, *more], [*writes, *made]
                at[channel], lists[channel] = change.known.ranges, change.known
        id = checkpoint["id"]
        apart = await staging.named(*[text for _, text in held.values()])
        held = {name: [blob[0], text] for (name, blob), text in zip(held.items(), apart.texts, strict=True)}
        expects, writes = [*expects, *apart.expects], [*writes, *apart.writes]
        body = encode(self._body(checkpoint, metadata, parent, at, held))
        ordered, gone = line.ordered and id > line.last, line.gone
        if not ordered and (twice := await self.find(line, id)) is not None and line.lists_checkpoint(twice.index):
            gone = [*gone, [twice.index, twice.index + 1]]  # the one that comes last counts
        changes |= gone is not line.gone or ordered != line.ordered
        if changes:
            writes.append(line.put(self.scope, gone=gone, ordered=ordered))
        run = str(metadata.get("run_id") or "")
        if run and run != line.run:
            key = self.scope.key(RUN, digest(run, line.id))
            writes.append(Put(key, encode([line.thread, line.ns]), {"run": digest(run)}))
        writes.append(Append(line.key(self.scope, CHECKPOINT), (Entry(id, body, at=self.scope.clock()),)))
        receipt = await self.scope.store.commit(Commit(new_id(), tuple(expects), tuple(writes)))
        length = receipt.versions[-1]
        return msgspec.structs.replace(
            line, version=line.version + changes, gone=gone, ordered=ordered, length=length, last=id,
            newest=Stored(length - 1, id, body), lists=lists, run=run, session=session,
            owner=owner if session is None else session.tags.get(OWNER, owner),
        )  # fmt: skip

    def _remembered(self, thread: str, ns: str, user: str | None) -> tuple[Line | None, str | None]:
        """Return what is remembered of a line, unless it was another user's, and whose it was."""
        line = self.lines.get(line_id(thread, ns))
        if line is None or (user is not None and line.owner not in (None, user)):
            return None, user
        return line, line.owner

    @property
    def _is_open(self) -> bool:
        """Whether messages may be kept as such. A serializer of the caller's own (encryption) is never gone round."""
        return type(self.serde) is JsonPlusSerializer

    def _body(self, checkpoint: Checkpoint, metadata: Any, parent: str | None, at: Any, held: Any) -> dict[str, Any]:
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        body = {"parent": parent, "at": at, "new": held}
        if is_exact(rest) and is_exact(metadata):
            return body | {"checkpoint": rest, "metadata": metadata}
        return body | {"sealed": dumped(self.serde, [rest, metadata])}

    async def _known(self, line: Line, channel: str, ranges: Ranges) -> Known:
        """Return a list as the checkpoint before has it."""
        known = line.lists.get(channel)
        if known is not None and known.ranges == ranges:
            return known
        part = await self.scope.get(covering(line.items(self.scope, channel), ranges))
        return self._learned(line, channel, ranges, part)

    async def _storing(
        self, line: Line, channel: str, before: Known, after: Known, new: Sequence[Pair], session: Talk | None
    ) -> tuple[list[Expect], list[Write], Talk | None]:
        """Return what appends messages; those of the outermost graph to a session that shows what the list holds."""
        scope, key, now = self.scope, line.items(self.scope, channel), self.scope.clock()
        expects = [Expect(key, before.length)] if before.length else []
        if not line.is_session(channel):
            entries = tuple([Entry("item", encode(pair), at=now) for pair in new])
            return expects, [Append(key, entries)], session
        id = session_id(line.thread)
        document = scope.key(SESSION, id)
        if session is None:
            found = await scope.get(Get(document))
            session = Talk(0) if found is None else Talk(found.version, parse(found.value), found.tags)
        name = scope.tokenizer.name
        state = State(line.thread, now, name, name) if session.state is None else session.state
        shown = msgspec.structs.replace(state, visible=visible(after))
        # If somebody has given it to another since the line was seen, the line is looked at again.
        require_owner(scope, line.thread, session.tags.get(OWNER), line.owner)
        tags = {"by": "langgraph"} | session.tags | owned_by(line.owner)
        drafts = [draft(said, scope.tokenizer, sidecar=sidecar, named=False) for said, sidecar in new]
        batch = Drafts(tuple(drafts), ids_repeat=True)
        writes = appending(scope, id, shown, scope.tokenizer, batch, before.length, now)
        expects.append(Expect(document, session.version))
        if shown == session.state and tags == session.tags:
            return expects, writes, session
        return expects, [*writes, Put(document, dump(shown), tags)], Talk(session.version + 1, shown, tags)

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Add what a task wrote to a checkpoint, whether or not that is there yet. Never conflicts with others."""
        if not writes:
            return
        told = [
            [WRITES_IDX_MAP.get(channel, number), channel, *written(self.serde, value)]
            for number, (channel, value) in enumerate(writes)
        ]
        id = str(config["configurable"]["checkpoint_id"])
        await self.add_writes(where(config), id, told, task_id, task_path, self.user(config))

    async def add_writes(
        self,
        place: tuple[str, str],
        id: str,
        told: Sequence[Sequence[Any]],
        task_id: str,
        task_path: str,
        user: str | None = None,
    ) -> None:
        """Add what a task wrote, each with its number, its channel and what the serializer made of it."""
        line = self._remembered(*place, user)[0] or await look(self.scope, named(*place), user)
        async with large.Staging(self.scope, line.id) as staging:
            for _ in attempts(f"thread {line.thread!r:.80}"):
                try:
                    apart = await staging.named(*[text for *_, text in told])
                    rows = [[*row[:-1], text] for row, text in zip(told, apart.texts, strict=True)]
                    body = encode({"task": task_id, "path": task_path, "writes": rows})
                    await self._add_writes(line, id, body, apart, user)
                except Conflict:
                    if id <= line.last:
                        raise removed(line) from None
                    line = await look(self.scope, named(*place), user)
                    continue
                return

    async def _add_writes(self, line: Line, id: str, body: Json, apart: large.Named, user: str | None) -> None:
        made: list[Write] = [Append(line.writes(self.scope, id), (Entry("writes", body, at=self.scope.clock()),))]
        if line.last != id:
            made.append(Append(line.key(self.scope, EARLY), (Entry("id", encode(id)),)))
        if not line.version:
            made.append(msgspec.structs.replace(line, owner=user or line.owner).put(self.scope))
        # What is written to a line that was deleted or erased meanwhile, nobody would find again.
        there = (Expect(line.key(self.scope, LINE), EXISTS),) if line.version else ()
        expects = (*there, *apart.expects)
        await self.scope.store.commit(Commit(new_id(), expects, (*made, *apart.writes)))
        if not line.version:
            self.lines.pop(line.id, None)


def removed(line: Line) -> NotFound:
    return NotFound(
        f"what thread {line.thread!r:.80} goes on from was deleted or erased since it was read; nothing changed",
        kind=LINE,
        id=line.id,
    )


def versions_of(stored: Stored) -> Mapping[str, Any]:
    versions: Mapping[str, Any] = stored.seen.get("checkpoint", {}).get("channel_versions", {})
    return versions


def visible(known: Known) -> tuple[tuple[int, int | None], ...]:
    """Return what a session shows of a list: its messages in order of arrival, and what comes next."""
    shown: list[tuple[int, int]] = []
    for start, stop in sorted(known.ranges):
        if shown and start <= shown[-1][1]:  # a list may hold a message twice
            shown[-1] = (shown[-1][0], max(stop, shown[-1][1]))
        else:
            shown.append((start, stop))
    if shown and shown[-1][1] == known.length:
        return (*shown[:-1], (shown[-1][0], None))
    return (*shown, (known.length, None))
