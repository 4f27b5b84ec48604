"""Checkpoints of a line: putting, finding, listing, and putting them together again.

Written once, in `async def`, awaiting nothing but the port; `saver.py` drives it for blocking and for async code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from msgspec import Struct

from strongroom.adapters.exact import is_exact
from strongroom.adapters.langgraph.lines import (
    CHECKPOINT,
    EARLY,
    LINE,
    RUN,
    Line,
    Stored,
    digest,
    facts_of,
    look,
    named,
    session_id,
)
from strongroom.adapters.langgraph.lists import Item, Known, Ranges, changed, is_list, places_of, spelled
from strongroom.adapters.langgraph.messages import Pair, dumped, loaded
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions.records import draft
from strongroom.services.sessions.state import SESSION, State, dump, parse
from strongroom.services.sessions.writes import Batch, appending
from strongroom.store import (
    Append,
    Commit,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Record,
    Scan,
    Slice,
    Tail,
    Write,
    new_id,
)

MOST_LINES = 1000
PAGE = 100
FEW = 16  # checkpoints that a list puts together at once
THREAD_TAG = "thread"


class Lines(dict[str, Line]):
    """The lines seen last, shared by whoever uses one saver."""

    def keep(self, line: Line) -> None:
        if len(self) >= MOST_LINES:
            self.clear()
        self[line.id] = line


class Checkpoints(Struct, frozen=True):
    """The checkpoints of a space, seen with one serializer."""

    scope: Scope
    serde: SerializerProtocol
    lines: Lines

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint in one commit: what changed, and where the rest is."""
        thread, ns = where(config)
        parent = config["configurable"].get("checkpoint_id")
        told = get_checkpoint_metadata(config, metadata)
        line = self.lines.get(digest(thread, ns))
        for _ in attempts(f"thread {thread!r:.80}"):
            if line is None:
                line = await look(self.scope, named(thread, ns))
            try:
                self.lines.keep(await self._put(line, checkpoint, told, new, parent))
            except Conflict:
                line = None  # what was remembered is no longer so
                continue
            return config_of(line, checkpoint["id"])
        raise AssertionError("attempts() raises when it is enough")

    async def _put(
        self, line: Line, checkpoint: Checkpoint, metadata: Any, new: ChannelVersions, parent: str | None
    ) -> Line:
        before = await self.find(line, parent) if parent else None
        expects, writes = line.unchanged(self.scope), list[Write]()
        at, held, lists, session = dict[str, Any](), dict[str, Any](), dict(line.lists), line.session
        for channel, version in checkpoint["channel_versions"].items():
            old = None if before is None else before.at.get(channel)
            if (
                before is not None
                and old is not None
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
        body = encode(self._body(checkpoint, metadata, parent, at, held))
        ordered, gone = line.ordered and id > line.last, line.gone
        if not ordered and (twice := await self.find(line, id)) is not None and line.lists_checkpoint(twice.index):
            gone = [*gone, [twice.index, twice.index + 1]]  # the one that comes last counts
        changes = not line.version or gone is not line.gone or ordered != line.ordered
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
        )  # fmt: skip

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

    def _learned(self, line: Line, channel: str, ranges: Ranges, part: Slice) -> Known:
        items = items_of(part.records, is_session=line.is_session(channel))
        # What somebody deleted from the session is no longer in the list either.
        places = [place for place in places_of(ranges) if place in items]
        return Known(spelled(places), [items[place] for place in places], part.length)

    async def _storing(
        self, line: Line, channel: str, before: Known, after: Known, new: Sequence[Pair], session: Any
    ) -> tuple[list[Expect], list[Write], Any]:
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
            session = (0, None) if found is None else (found.version, parse(found.value))
        version, state = session
        name = scope.tokenizer.name
        state = State(line.thread, now, name, name) if state is None else state
        shown = msgspec.structs.replace(state, visible=visible(after))
        drafts = [draft(said, scope.tokenizer, sidecar=sidecar, named=False) for said, sidecar in new]
        batch = Batch(tuple(drafts), ids_repeat=True)
        writes = appending(scope, id, shown, scope.tokenizer, batch, before.length, now)
        expects.append(Expect(document, version))
        if version and shown == state:
            return expects, writes, session
        return expects, [*writes, Put(document, dump(shown), {"by": "langgraph"})], (version + 1, shown)

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Add what a task wrote to a checkpoint, whether or not that is there yet. Never conflicts."""
        if not writes:
            return
        thread, ns = where(config)
        id = str(config["configurable"]["checkpoint_id"])
        line = self.lines.get(digest(thread, ns)) or await look(self.scope, named(thread, ns))
        told = [
            [WRITES_IDX_MAP.get(channel, number), channel, *dumped(self.serde, value)]
            for number, (channel, value) in enumerate(writes)
        ]
        body = encode({"task": task_id, "path": task_path, "writes": told})
        made: list[Write] = [Append(line.writes(self.scope, id), (Entry("writes", body, at=self.scope.clock()),))]
        if line.last != id:
            made.append(Append(line.key(self.scope, EARLY), (Entry("id", encode(id)),)))
        if not line.version:
            made.append(line.put(self.scope))
        await self.scope.store.commit(Commit(new_id(), (), tuple(made)))
        if not line.version:
            self.lines.pop(line.id, None)

    # ---- finding ----------------------------------------------------------------------------------------------------

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
            [record] = (await self.scope.get(Range(key, middle, middle + 1))).records
            if record.type == id:
                return Stored.of(record)
            low, high = (middle + 1, high) if record.type < id else (low, middle)
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

    async def get(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, or the newest of its line."""
        thread, ns = where(config)
        line = await look(self.scope, self.lines.get(digest(thread, ns)) or named(thread, ns))
        if not line.version:
            return None
        id = get_checkpoint_id(config)
        stored = await self.find(line, id) if id else await self.newest(line)
        if stored is None or not line.lists_checkpoint(stored.index):
            return None
        [made], line = await self.assembled(line, [stored])
        self.lines.keep(line)
        return made

    async def lines_of(self, thread: str | None, ns: str | None = None) -> list[Line]:
        """Return the lines of a thread, or all of them."""
        if thread is not None and ns is not None:
            line = await look(self.scope, named(thread, ns))
            return [line] if line.version else []
        tags = {} if thread is None else {THREAD_TAG: digest(thread)}
        found = []
        async for page in self.scope.pages(Scan(self.scope.space, LINE, tags, limit=PAGE)):
            for facts in map(facts_of, page):
                found.append(await look(self.scope, named(facts.thread, facts.ns)))
        return found

    async def select(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Meet checkpoints, the greatest id first, a few at a time."""
        asked = config["configurable"] if config else {}
        thread = str(asked["thread_id"]) if "thread_id" in asked else None
        edge, id = get_checkpoint_id(before) if before else None, get_checkpoint_id(config) if config else None
        lines = await self.lines_of(thread, asked.get("checkpoint_ns"))
        waiting: list[tuple[Line, Stored]] = []
        count = 0
        async for line, stored in self._merged(lines, edge):
            if limit is not None and count >= limit:
                break
            if (id is not None and stored.id != id) or not matches(self._opened(stored)[1], filter):
                continue
            count += 1
            waiting.append((line, stored))
            if len(waiting) >= FEW:
                for made in await self._several(waiting):
                    yield made
                waiting = []
        for made in await self._several(waiting):
            yield made

    async def _merged(self, lines: Sequence[Line], before: str | None) -> AsyncIterator[tuple[Line, Stored]]:
        walks = [(line, self.listed(line, before)) for line in lines]
        heads = [(line, walk, await anext(walk, None)) for line, walk in walks]
        heads = [head for head in heads if head[2] is not None]
        while heads:
            best = max(range(len(heads)), key=lambda place: cast("Stored", heads[place][2]).id)
            line, walk, stored = heads[best]
            assert stored is not None
            yield line, stored
            following = await anext(walk, None)
            if following is None:
                del heads[best]
            else:
                heads[best] = (line, walk, following)

    async def _several(self, found: Sequence[tuple[Line, Stored]]) -> Sequence[CheckpointTuple]:
        by_line: dict[str, tuple[Line, list[Stored]]] = {}
        for line, stored in found:
            by_line.setdefault(line.id, (line, []))[1].append(stored)
        made: dict[tuple[str, int], CheckpointTuple] = {}
        for line, several in by_line.values():
            tuples, _ = await self.assembled(line, several)
            made |= {(line.id, stored.index): one for stored, one in zip(several, tuples, strict=True)}
        return [made[line.id, stored.index] for line, stored in found]

    # ---- putting together -------------------------------------------------------------------------------------------

    async def assembled(self, line: Line, found: Sequence[Stored]) -> tuple[list[CheckpointTuple], Line]:
        """Return checkpoints with all that they name, in one read, and the line with what was learned of its lists."""
        scope = self.scope
        ranges: dict[str, Ranges] = {}
        lacking: set[int] = set()
        for stored in found:
            for channel, at in stored.at.items():
                if isinstance(at, list):
                    ranges[channel] = ranges.get(channel, []) + at
                elif at >= 0:
                    lacking.add(at)
        wanted = {channel: merged for channel, merged in ranges.items() if not self._is_known(line, channel, merged)}
        lacking -= {stored.index for stored in found}
        questions = [Range(line.writes(scope, stored.id)) for stored in found]
        questions += [covering(line.items(scope, channel), merged) for channel, merged in wanted.items()]
        questions += [Range(line.key(scope, CHECKPOINT), index, index + 1) for index in sorted(lacking)]
        answers = await scope.get_all(questions)
        writes, lists, others = split(answers, len(found), len(wanted))
        known = dict(line.lists)
        for (channel, merged), part in zip(wanted.items(), lists, strict=True):
            whole = spelled(sorted(set(places_of(merged))))
            known[channel] = self._learned(line, channel, merged if len(found) == 1 else whole, part)
        held = {stored.index: stored.seen["new"] for stored in found}
        held |= {part.records[0].index: part.records[0].body.load()["new"] for part in others if part.records[0].body}
        parents = await self._parents(line, found)
        made = [
            self._tuple(line, stored, known, held, pending(part.records, self.serde), parents)
            for stored, part in zip(found, writes, strict=True)
        ]
        return made, msgspec.structs.replace(line, lists=known) if len(found) == 1 else line

    def _is_known(self, line: Line, channel: str, ranges: Ranges) -> bool:
        known = line.lists.get(channel)
        return known is not None and known.ranges == ranges

    async def _parents(self, line: Line, found: Sequence[Stored]) -> set[str] | None:
        """Return which parents are listed, if some checkpoints of the line are not."""
        if not line.gone and not line.first:
            return None
        parents = [await self.find(line, stored.parent) for stored in found if stored.parent]
        return {one.id for one in parents if one is not None and line.lists_checkpoint(one.index)}

    def _tuple(
        self, line: Line, stored: Stored, lists: Mapping[str, Known], held: Any, writes: Any, parents: set[str] | None
    ) -> CheckpointTuple:
        rest, metadata = self._opened(stored)
        values: dict[str, Any] = {}
        for channel in rest["channel_versions"]:
            at = stored.at.get(channel)
            if isinstance(at, list):
                known = lists[channel]
                items = dict(zip(places_of(known.ranges), known.items, strict=True))
                values[channel] = [items[place].fresh(self.serde) for place in places_of(at) if place in items]
            elif at is not None:
                values[channel] = loaded(self.serde, held[stored.index if at == -1 else at][channel])
        parent = stored.parent if parents is None or stored.parent in parents else None
        return CheckpointTuple(
            config_of(line, stored.id),
            cast("Checkpoint", {**rest, "channel_values": values}),
            metadata,
            config_of(line, parent) if parent else None,
            writes,
        )

    def _opened(self, stored: Stored) -> tuple[dict[str, Any], Any]:
        """Return a checkpoint without its values, and its metadata, as fresh objects."""
        body = stored.raw.load()
        if "sealed" in body:
            rest, metadata = loaded(self.serde, body["sealed"])
            return rest, metadata
        return body["checkpoint"], body["metadata"]

    def metadata(self, stored: Stored) -> Any:
        return self._opened(stored)[1]


def where(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the namespace that a config names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def config_of(line: Line, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": line.thread, "checkpoint_ns": line.ns, "checkpoint_id": id}}


def versions_of(stored: Stored) -> Mapping[str, Any]:
    versions: Mapping[str, Any] = stored.seen.get("checkpoint", {}).get("channel_versions", {})
    return versions


def visible(known: Known) -> tuple[tuple[int, int | None], ...]:
    """Return what a session shows of a list: its messages in order of arrival, and what comes next."""
    shown: list[tuple[int, int | None]] = [(a, b) for a, b in spelled(sorted(places_of(known.ranges)))]
    if shown and shown[-1][1] == known.length:
        return (*shown[:-1], (shown[-1][0], None))
    return (*shown, (known.length, None))


def covering(key: Key, ranges: Ranges) -> Range:
    """Return the question for one stretch that holds all ranges."""
    start = min((start for start, _ in ranges), default=0)
    return Range(key, start, max((stop for _, stop in ranges), default=0))


def items_of(records: Sequence[Record], *, is_session: bool) -> dict[int, Item]:
    """Return the messages that are stored in records, by their places."""
    return {one.index: Item(one if is_session else one.body) for one in records if one.body is not None}


def pending(records: Sequence[Record], serde: SerializerProtocol) -> list[PendingWrite]:
    """Return what tasks wrote, in LangGraph's order. Of two at one place the first counts, of special ones the last."""
    won: dict[tuple[str, int], tuple[str, str, int, str, list[str]]] = {}
    for record in records:
        if record.body is None:
            continue
        body = record.body.load()
        for number, channel, *blob in body["writes"]:
            place = (body["task"], number)
            if number < 0 or place not in won:
                won[place] = (body["path"], body["task"], number, channel, blob)
    ordered = sorted(won.values(), key=lambda one: writes_sort_key(one[0], one[1], one[2]))
    return [(task, channel, loaded(serde, blob)) for _, task, _, channel, blob in ordered]


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(name in metadata and metadata[name] == value for name, value in (filter or {}).items())


def split(
    answers: Sequence[Slice], first: int, second: int
) -> tuple[Sequence[Slice], Sequence[Slice], Sequence[Slice]]:
    return answers[:first], answers[first : first + second], answers[first + second :]
