"""Reading checkpoints: listing them, and putting them together with all that they name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite, get_checkpoint_id, writes_sort_key

from strongroom.adapters import large
from strongroom.adapters.langgraph.filters import under
from strongroom.adapters.langgraph.finding import Finding
from strongroom.adapters.langgraph.lines import CHECKPOINT, LINE, Line, Stored, facts_of, look, named
from strongroom.adapters.langgraph.lists import Item, Known, Ranges, places_of, spelled
from strongroom.adapters.langgraph.messages import loaded, loaded_written
from strongroom.errors import NotFound
from strongroom.retry import attempts
from strongroom.services.sessions.layouts import line_id
from strongroom.store import Document, Get, Key, Range, Record, Slice

MISSING = object()
FEW = 16  # checkpoints that a list puts together at once


class Reading(Finding, frozen=True):
    """What is read of checkpoints."""

    async def get(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, or the newest of its line."""
        thread, ns = where(config)
        id, before = get_checkpoint_id(config), None
        for _ in attempts(f"thread {thread!r:.80}"):
            line = await look(self.scope, self.lines.get(line_id(thread, ns)) or named(thread, ns), self.user(config))
            if not line.version:
                self.lines.keep(line)  # what was known of it is no longer so
                return None
            stored = await self.find(line, id) if id else await self.newest(line)
            if stored is None or not line.lists_checkpoint(stored.index):
                return None
            try:
                [made], line = await self.assembled(line, [stored])
            except NotFound:
                now = line.version, line.first, line.length
                if now == before:
                    raise  # nobody has taken anything away since, and still it is not there
                before = now
                continue
            self.lines.keep(line)
            return made
        raise AssertionError("attempts() raises when it is enough")

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
        lines = await self.lines_of(thread, asked.get("checkpoint_ns"), self.user(config))
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
            tuples = await self._those_left(line, several)
            made |= {(line.id, stored.index): one for stored, one in tuples}
        return [made[line.id, stored.index] for line, stored in found if (line.id, stored.index) in made]

    async def _those_left(self, line: Line, found: Sequence[Stored]) -> list[tuple[Stored, CheckpointTuple]]:
        """Put checkpoints together, but for those that were deleted meanwhile."""
        try:
            tuples, _ = await self.assembled(line, found)
            return [*zip(found, tuples, strict=True)]
        except NotFound:
            if len(found) == 1:
                return []
        return [one for stored in found for one in await self._those_left(line, [stored])]

    # ---- putting together -------------------------------------------------------------------------------------------

    async def assembled(self, line: Line, found: Sequence[Stored]) -> tuple[list[CheckpointTuple], Line]:
        """Return checkpoints with all that they name, in one read, and the line with what was learned of its lists.

        If one of them was deleted or pruned since it was seen, that is `NotFound`: what it names may be gone in part.
        """
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
        questions.append(Range(line.key(scope, CHECKPOINT), 0, 0))
        [document], [*answers, end] = await scope.read_all([Get(line.key(scope, LINE))], questions)
        _require_there(line, found, document, end)
        writes, lists, others = split(answers, len(found), len(wanted))
        known = dict(line.lists)
        for (channel, merged), part in zip(wanted.items(), lists, strict=True):
            whole = spelled(sorted(set(places_of(merged))))
            known[channel] = self._learned(line, channel, merged if len(found) == 1 else whole, part)
        held = {stored.index: stored.seen["new"] for stored in found}
        held |= {one.index: one.body.load()["new"] for part in others for one in part.records if one.body is not None}
        parents = await self._parents(line, found)
        items = {channel: dict(zip(places_of(one.ranges), one.items, strict=True)) for channel, one in known.items()}
        made = [
            await self._tuple(line, stored, items, held, await self.pending(part.records), parents)
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

    async def _tuple(
        self, line: Line, stored: Stored, lists: Mapping[str, Any], held: Any, writes: Any, parents: set[str] | None
    ) -> CheckpointTuple:
        rest, metadata = self._opened(stored)
        values: dict[str, Any] = {}
        for channel, at in stored.at.items():
            if isinstance(at, list):
                items = lists[channel]
                values[channel] = [items[place].fresh(self.serde) for place in places_of(at) if place in items]
            else:
                values[channel] = await self._value(held[stored.index if at == -1 else at][channel])
        parent = stored.parent if parents is None or stored.parent in parents else None
        return CheckpointTuple(
            config_of(line, stored.id),
            cast("Checkpoint", {**rest, "channel_values": values}),
            metadata,
            config_of(line, parent) if parent else None,
            writes,
        )

    async def _value(self, blob: Sequence[Any]) -> Any:
        kind, text = blob
        return loaded_written(self.serde, [kind, await large.whole(self.scope, text)])

    async def pending(self, records: Sequence[Record]) -> list[PendingWrite]:
        """Return what tasks wrote, in LangGraph's order."""
        return [(task, channel, await self._value(blob)) for task, channel, blob in winners(records)]

    def _opened(self, stored: Stored) -> tuple[dict[str, Any], Any]:
        """Return a checkpoint without its values, and its metadata, as fresh objects."""
        body = stored.raw.load()
        if "sealed" in body:
            rest, metadata = loaded(self.serde, body["sealed"])
            return rest, metadata
        return body["checkpoint"], body["metadata"]

    def metadata(self, stored: Stored) -> Any:
        return self._opened(stored)[1]

    def _learned(self, line: Line, channel: str, ranges: Ranges, part: Slice) -> Known:
        items = items_of(part.records, is_session=line.is_session(channel))
        # What somebody deleted from the session is no longer in the list either.
        places = [place for place in places_of(ranges) if place in items]
        known = [items[place] for place in places]
        return Known(spelled(places), known, part.length, size=sum([item.size for item in known]))


def _require_there(line: Line, found: Sequence[Stored], document: Document | None, end: Slice) -> None:
    """Raise `NotFound` if a checkpoint is not stored any more, or not listed though it was."""
    gone = line.gone if document is None or document.version == line.version else facts_of(document).gone
    for stored in found:
        newly = line.lists_checkpoint(stored.index) and any(start <= stored.index < stop for start, stop in gone)
        if document is None or stored.index < end.first or newly:
            raise NotFound(f"checkpoint {stored.id!r:.80} was deleted meanwhile", kind=CHECKPOINT, id=stored.id)


def where(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the namespace that a config names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def config_of(line: Line, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": line.thread, "checkpoint_ns": line.ns, "checkpoint_id": id}}


def covering(key: Key, ranges: Ranges) -> Range:
    """Return the question for one stretch that holds all ranges."""
    start = min((start for start, _ in ranges), default=0)
    return Range(key, start, max((stop for _, stop in ranges), default=0))


def items_of(records: Sequence[Record], *, is_session: bool) -> dict[int, Item]:
    """Return the messages that are stored in records, by their places."""
    return {one.index: Item(one if is_session else one.body) for one in records if one.body is not None}


def winners(records: Sequence[Record]) -> list[tuple[str, str, list[Any]]]:
    """Return whose writes count, in LangGraph's order: of two at one place the first, of special ones the last."""
    won: dict[tuple[str, int], tuple[str, str, int, str, list[Any]]] = {}
    for record in records:
        if record.body is None:
            continue
        body = record.body.load()
        for number, channel, *blob in body["writes"]:
            place = (body["task"], number)
            if number < 0 or place not in won:
                won[place] = (body["path"], body["task"], number, channel, blob)
    ordered = sorted(won.values(), key=lambda one: writes_sort_key(one[0], one[1], one[2]))
    return [(task, channel, blob) for _, task, _, channel, blob in ordered]


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(under(metadata, name, MISSING) == value for name, value in (filter or {}).items())


def split(
    answers: Sequence[Slice], first: int, second: int
) -> tuple[Sequence[Slice], Sequence[Slice], Sequence[Slice]]:
    return answers[:first], answers[first : first + second], answers[first + second :]
