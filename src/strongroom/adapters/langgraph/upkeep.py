"""Whole threads: deleting, pruning, copying; and the history of delta channels.

A delta channel is rebuilt from what tasks wrote to earlier checkpoints, back to one that holds its value. So whatever
is dropped, the checkpoints that a kept one is rebuilt from stay, with their writes: they are no longer listed, and go
with the last one that needs them.

What is dropped is no longer listed after the first commit, which removes some of it. If it is much, the rest follows in
commits of their own: one that removes all of it would keep every other writer waiting. First what would not be found
without the checkpoints, which go last; so whatever a kill leaves is removed by the next one who prunes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, get_checkpoint_id

from strongroom.adapters import large
from strongroom.adapters.langgraph.checkpoints import Checkpoints, visible
from strongroom.adapters.langgraph.finding import PAGE
from strongroom.adapters.langgraph.lines import (
    CHECKPOINT,
    EARLY,
    RUN,
    Line,
    Stored,
    look,
    named,
    require_owner,
    session_id,
)
from strongroom.adapters.langgraph.lists import Known, outside, places_of, spelled
from strongroom.adapters.langgraph.reading import covering, items_of, where
from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound, Unavailable
from strongroom.operations import committed, of_several
from strongroom.retry import attempts
from strongroom.services.owning import OWNER
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.erasure import delete
from strongroom.services.sessions.layouts import digest, owned_by
from strongroom.services.sessions.records import draft
from strongroom.services.sessions.state import SESSION, State, dump
from strongroom.services.sessions.writes import Drafts, appending
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Truncate,
    Write,
    new_id,
)

Removal = tuple[int, Write]  # how many things it removes

COUNTERS = "counters_since_delta_snapshot"
AT_ONCE = 500  # checkpoints, streams of writes and large values that one commit removes


class Upkeep(Checkpoints, frozen=True):
    """What is done to whole threads."""

    async def delete_thread(self, thread: str) -> None:
        """Remove all lines of a thread, and the session that its messages are."""
        if self.user_id is not None:
            await look(self.scope, named(thread, ""), self.user_id)
        with of_several():
            await Taking(self.scope).of_session(session_id(thread))
            try:
                await delete(self.scope, session_id(thread), None)
            except NotFound:
                pass

    async def delete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Drop the checkpoints that runs made."""
        with of_several():
            for run in map(str, run_ids):
                await self._drop_run(run)

    async def _drop_run(self, run: str) -> None:
        found = Scan(self.scope.space, RUN, {"run": digest(run)}, limit=PAGE)
        documents = [document async for page in self.scope.pages(found) for document in page]
        for document in documents:
            thread, ns = document.value.load()
            await self._keep(thread, ns, lambda line, stored: self._not_of(run, stored))
        for step in _steps(_each([Delete(document.key) for document in documents])):
            await self._commit([], step)

    def _not_of(self, run: str, stored: Sequence[Stored]) -> set[int]:
        return {one.index for one in stored if str(self.metadata(one).get("run_id")) != run}

    async def prune(self, threads: Sequence[str], strategy: str) -> None:
        """Keep the newest checkpoint of each line, or nothing."""
        if isinstance(threads, str):
            raise TypeError("thread_ids must be a sequence of ids, not one string")
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r:.40}")
        with of_several():
            for thread in map(str, threads):
                if strategy == "delete":
                    await self.delete_thread(thread)
                    continue
                for line in await self.lines_of(thread, user=self.user_id):
                    await self._keep(thread, line.ns, _newest)

    async def _keep(self, thread: str, ns: str, choose: Any) -> None:
        """List only the chosen ones of a line's checkpoints, and remove what none of them needs."""
        for _ in attempts(f"thread {thread!r:.80}"):
            line = await look(self.scope, named(thread, ns))
            if not line.version:
                return
            stored = [one async for one in self.walk(line)]
            kept = {index for index in choose(line, stored) if line.lists_checkpoint(index)}
            try:
                await self._remove(line, stored, kept)
                return
            except Conflict:
                continue

    async def _remove(self, line: Line, stored: Sequence[Stored], kept: set[int]) -> None:
        """Remove what is not listed any more. What lies between things that are needed is erased by whoever may; a
        server lets a writer do without: it stays, unlisted, until those before it go."""
        scope = self.scope
        needed = self._needed(stored, kept)
        by_index = {one.index: one for one in stored}
        channels = {channel for one in stored for channel, at in one.at.items() if isinstance(at, list)}
        lists = sorted(channels)
        ends = await scope.get_all([Range(line.items(scope, channel), 0, 0) for channel in lists])
        first = min(needed, default=line.length)
        key = line.key(scope, CHECKPOINT)
        dropped = {one.id for one in stored if one.index not in needed} - {by_index[index].id for index in needed}
        unnamed = await self._unnamed(line, stored, [by_index[index] for index in sorted(needed)])
        going = [Delete(line.writes(scope, id)) for id in sorted(dropped)]
        removals = _each([*going, *large.dropping(scope, unnamed)])
        erasures: list[Write] = [Erase(key, start, stop) for start, stop in outside(needed, first, line.length)]
        for channel, end in zip(lists, ends, strict=True):
            places = {place for index in needed for place in _indexes(by_index[index], channel)}
            items = line.items(scope, channel)
            oldest = end.first
            if not line.is_session(channel):
                oldest = min(places, default=end.length)
                removals += _truncating(items, end.first, oldest)
            erasures += [Erase(items, start, stop) for start, stop in outside(places, oldest, end.length)]
        removals += _truncating(key, line.first, first)
        unlisted = line.put(scope, gone=outside(kept, line.first, line.length))
        begin, *rest = _steps([(0, unlisted), *removals])
        await self._commit(line.unchanged(scope), begin)
        self.lines.pop(line.id, None)
        for step in rest:
            await self._commit([], step)
        try:
            for step in _steps(_each(erasures)):
                await self._commit([], step)
        except Unavailable as refusal:
            if refusal.reason != "permission":
                raise

    async def _unnamed(self, line: Line, stored: Sequence[Stored], needed: Sequence[Stored]) -> list[str]:
        """Return the large values of a line that none of the needed checkpoints names, nor what was written to them, or
        to checkpoints that are still to come."""
        owned = await large.owned(self.scope, line.id)  # first: what is named from now on is not among them
        if not owned:
            return []
        early = await self.scope.get(Range(line.key(self.scope, EARLY)))
        told = {record.body.load() for record in early.records if record.body is not None}
        to_come = told - {one.id for one in stored}
        ids = sorted(to_come | {one.id for one in needed})
        parts = await self.scope.get_all([Range(line.writes(self.scope, id)) for id in ids])
        bodies = [record.body.load() for part in parts for record in part.records if record.body is not None]
        named = large.ids_in([*bodies, *[one.seen["new"] for one in needed]])
        return [id for id in owned if id not in named]

    def _needed(self, stored: Sequence[Stored], kept: set[int]) -> set[int]:
        """Return the kept ones, those that their delta channels are rebuilt from, and those that hold their values."""
        by_id = {one.id: one for one in stored}
        by_index = {one.index: one for one in stored}
        needed = set(kept)
        for index in kept:
            one = by_index[index]
            left = set(self.metadata(one).get(COUNTERS) or {}) - one.at.keys()
            chain = {index}
            while left and (parent := by_id.get(one.parent or "")) is not None and parent.index not in chain:
                chain.add(parent.index)
                one = parent
                left -= one.at.keys()
            needed |= chain
        holding = {at for index in needed for at in by_index[index].at.values() if isinstance(at, int) and at >= 0}
        return needed | (holding & by_index.keys())

    # ---- copying ----------------------------------------------------------------------------------------------------

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy all lines of a thread, each in one commit, for the same user. What the target has already stays."""
        for line in await self.lines_of(source, user=self.user_id):
            for _ in attempts(f"thread {target!r:.80}"):
                there = await look(self.scope, named(target, line.ns, line.owner), line.owner)
                try:
                    async with AsyncExitStack() as staged:
                        await self._copy(line, there, staged)
                    break
                except Conflict:
                    continue

    async def _copy(self, line: Line, target: Line, staged: AsyncExitStack) -> None:
        scope = self.scope
        stored = [one async for one in self.walk(line)][::-1]
        moved = {one.index: target.length + number for number, one in enumerate(stored)}
        expects, writes = target.unchanged(scope), list[Write]()
        places: dict[str, dict[int, int]] = {}
        for channel in sorted({channel for one in stored for channel, at in one.at.items() if isinstance(at, list)}):
            there, more, made = await self._copied_items(line, target, channel, stored)
            places[channel] = there
            expects, writes = [*expects, *more], [*writes, *made]
        entries = []
        for one in stored:
            body = one.raw.load()
            body["at"] = {channel: _moved(at, moved, places.get(channel, {})) for channel, at in body["at"].items()}
            apart = await self._apart(staged, target, [text for _, text in body["new"].values()])
            body["new"] = {
                channel: [blob[0], text] for (channel, blob), text in zip(body["new"].items(), apart.texts, strict=True)
            }
            expects, writes = [*expects, *apart.expects], [*writes, *apart.writes]
            entries.append(Entry(one.id, encode(body), at=scope.clock()))
        parts = await scope.get_all([Range(line.writes(scope, one.id)) for one in stored])
        for one, part in zip(stored, parts, strict=True):
            again = list[Entry]()
            for record in part.records:
                body = {"task": "", "path": "", "writes": []} if record.body is None else record.body.load()
                apart = await self._apart(staged, target, [text for *_, text in body["writes"]])
                body["writes"] = [[*row[:-1], text] for row, text in zip(body["writes"], apart.texts, strict=True)]
                again.append(Entry(record.type, encode(body), at=record.at))
                expects, writes = [*expects, *apart.expects], [*writes, *apart.writes]
            if again:
                writes.append(Append(target.writes(scope, one.id), tuple(again)))
        gone = spelled(sorted(moved[one.index] for one in stored if not line.lists_checkpoint(one.index)))
        ordered = line.ordered and target.ordered and not (stored and stored[0].id <= target.last)
        writes.append(target.put(scope, gone=[*target.gone, *gone], ordered=ordered))
        if entries:
            writes.append(Append(target.key(scope, CHECKPOINT), tuple(entries)))
        await self._commit(expects, writes)
        self.lines.pop(target.id, None)

    async def _apart(self, staged: AsyncExitStack, target: Line, texts: Sequence[Any]) -> large.Named:
        """Return texts for a copy, which has large ones of its own."""
        if not large.ids_in(list(texts)):
            return large.Named(list(texts))
        staging = await staged.enter_async_context(large.Staging(self.scope, target.id))
        return await staging.named(*[await large.whole(self.scope, text) for text in texts])

    async def _copied_items(
        self, line: Line, target: Line, channel: str, stored: Sequence[Stored]
    ) -> tuple[dict[int, int], list[Expect], list[Write]]:
        """Return where each message of a list will stand, and what puts it there."""
        scope, key = self.scope, target.items(self.scope, channel)
        wanted = sorted({place for one in stored for place in _indexes(one, channel)})
        part, end = await scope.read(covering(line.items(scope, channel), spelled(wanted)), Range(key, 0, 0))
        items = items_of(part.records, is_session=line.is_session(channel))
        kept = [place for place in wanted if place in items]
        there = {place: end.length + number for number, place in enumerate(kept)}
        expects = [Expect(key, end.length)] if end.length else []
        pairs, now = [items[place].pair() for place in kept], scope.clock()
        if not line.is_session(channel):
            return there, expects, [Append(key, tuple(Entry("item", encode(pair), at=now) for pair in pairs))]
        newest = next((one for one in reversed(stored) if line.lists_checkpoint(one.index)), None)
        shown = [there[place] for place in _indexes(newest, channel) if place in there] if newest else []
        name, id = scope.tokenizer.name, session_id(target.thread)
        known = Known(spelled(shown), (), end.length + len(pairs))
        state = State(target.thread, now, name, name, visible=visible(known))
        batch = Drafts(tuple(draft(one, scope.tokenizer, sidecar=beside, named=False) for one, beside in pairs))
        document, source = await scope.read(
            Get(scope.key(SESSION, id)), Get(scope.key(SESSION, session_id(line.thread)))
        )
        expects.append(Expect(scope.key(SESSION, id), 0 if document is None else document.version))
        require_owner(scope, target.thread, None if document is None else document.tags.get(OWNER), target.owner)
        like = document or source  # a copy is of the same user
        tags = {"by": "langgraph"} | ({} if like is None else like.tags) | owned_by(target.owner)
        session = Put(scope.key(SESSION, id), dump(state), tags)
        return there, expects, [*appending(scope, id, state, scope.tokenizer, batch, end.length, now), session]

    # ---- delta channels ---------------------------------------------------------------------------------------------

    async def delta_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels before a checkpoint, back to their last stored values."""
        if not channels:
            return {}
        thread, ns = where(config)
        line = await look(self.scope, named(thread, ns), self.user(config))
        id = get_checkpoint_id(config)
        one = await self.find(line, id) if id else await self.newest(line)
        told: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        left, chain = set(channels), list[tuple[Stored, set[str]]]()
        met = set[str]()  # whoever puts a checkpoint again below its own child makes a circle of them
        while one is not None and left and one.parent and one.parent not in met:
            met.add(one.parent)
            one = await self.find(line, one.parent)
            if one is not None:
                chain.append((one, set(left)))
                left -= one.at.keys()
        parts = await self.scope.get_all([Range(line.writes(self.scope, one.id)) for one, _ in chain])
        for (one, wanted), part in zip(chain, parts, strict=True):
            written = await self.pending(part.records)
            for channel in wanted:
                told[channel]["writes"][:0] = [write for write in written if write[1] == channel]
            seeds = wanted & one.at.keys()
            if seeds:
                [whole], _ = await self.assembled(line, [one])
                for channel in seeds:
                    told[channel]["seed"] = whole.checkpoint["channel_values"][channel]
        return told

    async def _commit(self, expects: Sequence[Expect], writes: Sequence[Write]) -> None:
        await committed(self.scope, Commit(new_id(), tuple(expects), tuple(writes)))


def _each(writes: Sequence[Write]) -> list[Removal]:
    return [(1, write) for write in writes]


def _truncating(stream: Key, first: int, stop: int) -> list[Removal]:
    """Return what removes the oldest records of a stream, as many at a time as one commit should."""
    places = range(first, stop, AT_ONCE)
    return [(min(AT_ONCE, stop - place), Truncate(stream, min(place + AT_ONCE, stop))) for place in places]


def _steps(removals: Iterable[Removal]) -> list[list[Write]]:
    """Return what each commit removes, in the order given."""
    steps, room = list[list[Write]](), 0
    for count, write in removals:
        if count > room or not steps:
            steps.append([])
            room = AT_ONCE
        steps[-1].append(write)
        room -= count
    return steps


def _newest(line: Line, stored: Sequence[Stored]) -> set[int]:
    """Choose the checkpoint with the greatest id; of two with one id, the one put last."""
    listed = [one for one in stored if line.lists_checkpoint(one.index)]
    return {max(listed, key=lambda one: (one.id, one.index)).index} if listed else set()


def _indexes(stored: Stored, channel: str) -> Iterable[int]:
    at = stored.at.get(channel)
    return places_of(at) if isinstance(at, list) else ()


def _moved(at: Any, checkpoints: Mapping[int, int], items: Mapping[int, int]) -> Any:
    """Return where a value is in the copy."""
    if isinstance(at, list):
        return spelled(items[place] for place in places_of(at) if place in items)
    return at if at == -1 else checkpoints[at]
