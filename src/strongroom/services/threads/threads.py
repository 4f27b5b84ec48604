"""Threads: append-only message buffers, one stream each.

One append is one record and one commit: the payload's canonical bytes, who sent it and who should get it. Indexes are
gapless and unique however many processes write, because the store counts them; limits are checked by the store inside
the same commit. Nothing is edited or forgotten silently: deletion, expiry and archiving leave a tombstone, and a thread
that comes back goes on counting where it ended.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strongroom.arguments import Count, checked
from strongroom.codec import Json, encode, pack
from strongroom.errors import BudgetExceeded, Damaged, InvalidInput
from strongroom.meant import Meant
from strongroom.operations import Operation, Plan, Prepared, Undecided, perform
from strongroom.scope import Scope
from strongroom.services.threads.endings import Endings
from strongroom.services.threads.erasure import chosen, erase
from strongroom.services.threads.payloads import (
    CHAIN,
    Inert,
    PayloadTypes,
    is_name,
    seal,
    type_name,
    unseal,
)
from strongroom.services.threads.plans import (
    INFO,
    THREAD,
    Birth,
    Info,
    Writes,
    plan_appends,
    plan_more,
)
from strongroom.services.threads.reading import AsyncThread, live, look
from strongroom.services.threads.values import (
    NO_LIMITS,
    ErasedSlots,
    Limits,
    Slot,
    State,
    ThreadInfo,
    ThreadStats,
)
from strongroom.store import (
    MAX_NAME,
    Document,
    Entry,
    Expect,
    Range,
    Receipt,
    Record,
    Scan,
    Slice,
    require_name,
)
from strongroom.values import Listing, moment

T = TypeVar("T", bound=type)
D = TypeVar("D", bound=dict[Any, Any])

_KEPT = 10_000
LATE = 1_000_000  # microseconds between a call and its commit, as in a long turn, after which the time is told anew


@checked
class AsyncThreads(Meant):
    """The threads of one space. `limited()` gives a view with limits; `register()` names the types to bring back.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.threads.append("planner", {"task": "call the carrier"}, from_id="support")
    ...         return [slot.payload async for slot in await ctx.threads.get("planner")]
    >>> asyncio.run(main())
    [{'task': 'call the carrier'}]
    """

    def __init__(self, scope: Scope, *, limits: Limits = NO_LIMITS, types: PayloadTypes | None = None) -> None:
        self.scope = scope
        self.limits = limits
        self.types = types or PayloadTypes()
        self.births: dict[str, Birth] = {}  # as last seen, so that whoever minds a limit need not look each time

    def __repr__(self) -> str:
        return f"<threads of space {self.scope.space!r}>"

    def limited(
        self,
        *,
        max_slots_per_thread: int | None = None,
        max_threads: int | None = None,
        ttl_seconds: float | None = None,
        archive: Callable[[str, bytes], None] | None = None,
    ) -> AsyncThreads:
        """Return the same threads under limits, checked by the store in the commit that would pass them."""
        limits = Limits(
            max_slots_per_thread=max_slots_per_thread,
            max_threads=max_threads,
            ttl_seconds=ttl_seconds,
            archive=archive,
        )
        return AsyncThreads(self.scope, limits=limits, types=self.types)

    def register(self, cls: T) -> T:
        """Let payloads of this class come back as themselves. Returns it, so it can be a decorator."""
        return self.types.register(cls)

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def append(
        self,
        thread_id: str,
        payload: Any,
        *,
        from_id: str,
        to_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        commit_id: str | None = None,
    ) -> Slot:
        """Add one message to a thread and return its slot. The thread begins with its first message.

        `metadata` is any JSON object, and comes back as `slot.metadata`. `commit_id` makes a repeat safe: the second
        call returns the first one's slot.
        """
        if metadata and CHAIN in metadata:
            raise InvalidInput("only a dispatcher says along which chain a message came; nothing changed", path=CHAIN)
        entry = self.entry(payload, metadata, from_id=from_id, to_id=to_id)
        [slot] = await perform(self.scope, *self._appending("threads.append", thread_id, (entry,), commit_id))
        return slot

    async def append_many(
        self, thread_id: str, payloads: Iterable[Any], *, from_id: str, to_id: str = "", commit_id: str | None = None
    ) -> tuple[Slot, ...]:
        """Add several messages in one commit: all of them, next to each other, or none."""
        at = self.scope.clock()
        entries = tuple([self.entry(payload, from_id=from_id, to_id=to_id, at=at) for payload in payloads])
        return await perform(self.scope, *self._appending("threads.append_many", thread_id, entries, commit_id))

    def entry(
        self,
        payload: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        from_id: str,
        to_id: str,
        at: int | None = None,
    ) -> Entry:
        """Turn a message into what is stored, or raise `InvalidInput`."""
        if not (is_name(from_id) and (to_id == "" or is_name(to_id))):
            raise InvalidInput(
                f"from_id and to_id must be up to {MAX_NAME} printable characters, not {from_id!r:.80} and "
                f"{to_id!r:.80}; nothing changed"
            )
        body, native = seal(payload, metadata), payload
        if type(payload) is Inert:
            require_name(payload.type, "a payload's type")
            native = None
        now = self.scope.clock() if at is None else at
        return Entry(type_name(payload), body, 0, now, from_id, to_id or None, None, None, native)

    def _appending(
        self, name: str, thread_id: str, entries: tuple[Entry, ...], commit_id: str | None
    ) -> Prepared[tuple[Slot, ...]]:
        """Say how messages are added."""
        key = self.scope.key(THREAD, thread_id)
        # Usually the thread is there and all that matters is known: look only after having been told otherwise.
        blind = self.limits.max_slots_per_thread is None or thread_id in self.births

        async def attempt() -> Plan[tuple[Slot, ...]] | None:
            nonlocal blind, entries
            if not entries:
                return Plan((Expect(key, (await self.scope.get(Range(key, 0, 0))).length),), (), told)
            if (now := self.scope.clock()) - entries[0].at > LATE:  # a thread is as old as its last message
                entries = tuple([replace(entry, at=now) for entry in entries])
            if blind:
                planned: Writes | None = plan_more(key, entries, self.births.get(thread_id, Birth()), self.limits)
            else:
                planned = await self.plan({thread_id: entries})
            blind = False
            # One answer's worth: a repeat knows everything else that the first call stored, only not when that was.
            answer = None if commit_id is None else encode(entries[0].at)
            return None if planned is None else Plan(planned.expects, planned.writes, told, answer)

        def told(receipt: Receipt) -> tuple[Slot, ...]:
            return self.slots(thread_id, entries, receipt.versions[0]) if entries else ()

        async def replay(receipt: Receipt) -> tuple[Slot, ...]:
            if receipt.answer is None:  # of a call that named no id, and does not know how it ended
                stop = receipt.versions[0] if entries else 0
                return tuple(await self.thread(thread_id).slice(stop - len(entries), stop)) or told(receipt)
            return tuple([slot.made_at(receipt.answer.load()) for slot in told(receipt)])

        limits, more_room = limits_told(self)
        operation = Operation(name, key, content_of(entries), commit_id, limits)
        return Prepared(operation, attempt, replay, more_room)

    async def plan(self, batches: Mapping[str, Sequence[Entry]]) -> Writes | None:
        """Say what to write so that these messages are in their threads. None: room was made, plan again."""
        keys = [self.scope.key(THREAD, thread_id) for thread_id in batches]
        threads, count = await look(self.scope, keys)
        for thread in threads:
            if thread.length:
                kept(self.births)[thread.key.id] = thread.birth
        wanted = list(zip(threads, batches.values(), strict=True))
        try:
            return plan_appends(wanted, count, limits=self.limits, now=self.scope.clock())
        except BudgetExceeded:
            if self.limits.archive is None or await self.make_room() is None:
                raise
            return None

    def slots(self, thread_id: str, entries: Sequence[Entry], length: int) -> tuple[Slot, ...]:
        """Return the slots of messages that made a thread this long."""
        numbered = enumerate(entries, start=length - len(entries))
        return tuple([Slot(thread_id, _record(index, entry), self.types) for index, entry in numbered])

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def get(self, thread_id: str) -> AsyncThread:
        """Return a handle on a thread. It reads when asked; a thread nobody has written to is empty."""
        return self.thread(thread_id)

    def follow(self, thread_id: str, *, after: int = -1, idle_seconds: float | None = None) -> AsyncIterator[Slot]:
        """Yield the slots with index > `after`, then each new one as it is appended, by whatever process.

        Ends only if `idle_seconds` pass without a new slot.
        """
        return self.thread(thread_id).follow(after=after, idle_seconds=idle_seconds)

    async def list(self, *, after: str | None = None, limit: Count = 50, state: State = "live") -> Listing[ThreadInfo]:
        """Return threads in order of creation: the live ones, or the tombstones of those that ended."""
        scan = Scan(self.scope.space, INFO, {"state": state}, after, limit)
        found, following, damaged = await self.scope.listed(scan, _stored)
        slices = await self.scope.get_sound([Range(self.scope.key(THREAD, id), 0, 0) for id, _ in found])
        threads, bad = list[ThreadInfo](), [*damaged]
        for (id, stored), here in zip(found, slices, strict=True):
            if isinstance(here, Damaged):
                bad.append(id)
            else:
                threads.append(_info(id, stored, here))
        return Listing(threads, following, tuple(bad))

    async def stats(self) -> ThreadStats:
        """Count the live threads and their slots, as far as they can be read."""
        threads = slots = 0
        async for keys in live(self.scope):
            for here in await self.scope.get_sound([Range(key, 0, 0) for key in keys]):
                if not isinstance(here, Damaged):
                    threads += 1
                    slots += here.length - here.first
        return ThreadStats(threads, slots, self.limits.max_threads, self.limits.max_slots_per_thread)

    # ---- endings ----------------------------------------------------------------------------------------------------

    async def delete(self, thread_id: str, *, commit_id: str | None = None) -> bool:
        """Remove a thread's slots for good and leave a tombstone. False if there was nothing to remove."""
        return await Endings(self.scope, self.limits, self.types).delete(thread_id, commit_id)

    async def erase(
        self,
        thread_id: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        before: datetime | None = None,
        commit_id: str | None = None,
    ) -> ErasedSlots:
        """Remove the content of slots for good: start <= index < stop, or all that were appended `before` a time.

        `start=0` is the whole thread as it is now. Places, types and times stay; senders and receivers, dead letters
        and the reasons of failures go too. What nobody has handled yet is not delivered any more. Nothing brings them
        back. Calling again finishes an interrupted erasure.
        """
        return await erase(self.scope, thread_id, chosen(start, stop, before), commit_id)

    async def sweep(self, *, ttl_seconds: float | None = None, commit_id: str | None = None) -> tuple[str, ...]:
        """End the threads nobody has appended to for `ttl_seconds` (default: the limit's) and return their ids.

        Each is archived first if the limits name an archive. One that is appended to meanwhile stays.
        """
        ttl = self.limits.ttl_seconds if ttl_seconds is None else ttl_seconds
        if ttl is None:
            raise InvalidInput("sweep needs ttl_seconds, in the call or in the limits; nothing changed")
        if not 0 <= ttl < math.inf:
            raise InvalidInput(f"ttl_seconds must be a number, 0 or more, not {ttl!r:.40}; nothing changed")
        return await Endings(self.scope, self.limits, self.types).sweep(float(ttl), commit_id)

    async def make_room(self, *, commit_id: str | None = None) -> str | None:
        """Archive the thread that has waited longest for a message, and return its id. None if there is no thread."""
        if self.limits.archive is None:
            raise InvalidInput("make_room needs an archive in the limits; nothing changed")
        return await Endings(self.scope, self.limits, self.types).make_room(commit_id)

    def thread(self, thread_id: str) -> AsyncThread:
        """Return a handle on a thread."""
        return AsyncThread(self.scope, self.types, self.scope.key(THREAD, thread_id))


def content_of(entries: Iterable[Entry]) -> Json:
    """Return what a caller asked to append: the sealed messages, by whom and for whom."""
    said = [[entry.type, Raw(entry.body), entry.sender, entry.receiver] for entry in entries]
    return pack({"entries": said})


def entries_of(threads: AsyncThreads, said: Sequence[Sequence[Any]]) -> tuple[Entry, ...]:
    """Return the messages that a caller sealed, as they are stored here."""
    made = []
    for type, body, from_id, to_id in said:
        try:
            opened = unseal(encode(body, depth=-1))
        except Damaged as problem:
            raise InvalidInput(
                f"a message is sealed as a payload and its metadata: {problem}; nothing changed"
            ) from None
        if CHAIN in opened.metadata:
            raise InvalidInput("only a dispatcher says along which chain a message came; nothing changed")
        payload = Inert(type, Json(opened.payload))
        made.append(threads.entry(payload, opened.metadata, from_id=from_id, to_id=to_id or ""))
    return tuple(made)


def limits_told(threads: AsyncThreads) -> tuple[Json | None, Callable[[], Awaitable[Json]] | None]:
    """Return what a server is told of limits, and how room is made where it asks for more."""
    limits = threads.limits
    if limits == NO_LIMITS:
        return None, None
    most = {"max_slots_per_thread": limits.max_slots_per_thread, "max_threads": limits.max_threads}
    told = encode({**most, "makes_room": limits.archive is not None})

    async def more_room() -> Json:
        await threads.make_room()
        return told

    return told, None if limits.archive is None else more_room


def limits_of(told: Mapping[str, Any] | None) -> Limits:
    """Return the limits that a caller told. Only the caller can make room, so where it is needed it is asked to."""

    def archive(thread_id: str, pack: bytes) -> None:
        raise Undecided

    if told is None:
        return Limits()
    makes_room = told.get("makes_room")
    return Limits(
        max_slots_per_thread=told.get("max_slots_per_thread"),
        max_threads=told.get("max_threads"),
        archive=archive if makes_room else None,
    )


def kept(known: D) -> D:
    """Forget everything before what is remembered becomes too much."""
    if len(known) >= _KEPT:
        known.clear()
    return known


def _record(index: int, entry: Entry) -> Record:
    return Record(
        index, entry.type, entry.body, 0, entry.at, entry.sender, entry.receiver, None, None, None, entry.native
    )


def _stored(document: Document) -> tuple[str, Info]:
    return document.key.id, msgspec.json.decode(document.value, type=Info)


def _info(id: str, stored: Info, here: Slice) -> ThreadInfo:
    return ThreadInfo(
        id,
        stored.state,
        moment(stored.created_at),
        None if stored.ended_at is None else moment(stored.ended_at),
        here.first if here.length else stored.first,
        here.length or stored.first,
    )
