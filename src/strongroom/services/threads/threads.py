"""Threads: append-only message buffers, one stream each.

One append is one record and one commit: the payload's canonical bytes, who sent it and who should get it. Indexes are
gapless and unique however many processes write, because the store counts them; limits are checked by the store inside
the same commit. Nothing is edited or forgotten silently: deletion, expiry and archiving leave a tombstone, and a thread
that comes back goes on counting where it ended.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from strongroom.arguments import checked
from strongroom.errors import BudgetExceeded, Conflict, Damaged, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.services.threads.packs import pack_thread
from strongroom.services.threads.payloads import (
    NO_META,
    Inert,
    Meta,
    PayloadTypes,
    seal,
    type_name,
)
from strongroom.services.threads.plans import (
    INFO,
    THREAD,
    Info,
    ceiling,
    count_key,
    found,
    plan_appends,
    plan_end,
    questions,
)
from strongroom.services.threads.thread import PAGE, AsyncThread
from strongroom.services.threads.values import (
    Limits,
    Slot,
    State,
    ThreadInfo,
    ThreadPage,
    ThreadStats,
    moment,
)
from strongroom.store import (
    EXISTS,
    MAX_NAME,
    Append,
    Commit,
    Document,
    Entry,
    Expect,
    Get,
    Key,
    Range,
    Record,
    Scan,
    Slice,
    Tail,
    new_id,
)

T = TypeVar("T", bound=type)

_KEPT = 10_000


@checked
class AsyncThreads:
    """The threads of one space. `limited()` gives a view with limits; `register()` names the types to bring back."""

    def __init__(self, scope: Scope, *, limits: Limits = Limits(), types: PayloadTypes | None = None) -> None:
        self.scope = scope
        self.limits = limits
        self.types = types or PayloadTypes()
        # What was checked once: see `thread_here` for who is in such a hurry.
        self.keys: dict[str, Key] = {}
        self.firsts: dict[str, int] = {}
        self.names: set[str] = set()

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
        own_name: str | None = None,
        is_self_call: bool = False,
        usage_instructions: str = "",
        todo_nudge: str = "",
        commit_id: str | None = None,
    ) -> Slot:
        """Add one message to a thread and return its slot. The thread begins with its first message.

        `commit_id` makes a repeat safe after `CommitUnknown`: the second call returns the first one's slot.
        """
        meta = meta_of(own_name, is_self_call, usage_instructions, todo_nudge)
        return (await self._append(thread_id, (self.entry(payload, meta, from_id=from_id, to_id=to_id),), commit_id))[0]

    async def append_many(
        self, thread_id: str, payloads: Iterable[Any], *, from_id: str, to_id: str = "", commit_id: str | None = None
    ) -> tuple[Slot, ...]:
        """Add several messages in one commit: all of them, next to each other, or none."""
        entries = tuple([self.entry(payload, from_id=from_id, to_id=to_id) for payload in payloads])
        return await self._append(thread_id, entries, commit_id) if entries else ()

    def entry(self, payload: Any, meta: Meta = NO_META, *, from_id: str, to_id: str) -> Entry:
        """Turn a message into what is stored, or raise `InvalidInput`."""
        self._check_names(from_id, to_id)
        body = seal(payload, meta)
        native = None if type(payload) is Inert else payload
        return Entry(type_name(payload), body, 0, self.scope.clock(), from_id, to_id or None, None, None, native)

    def _check_names(self, from_id: str, to_id: str) -> None:
        if not (_is_name(from_id) and (to_id == "" or _is_name(to_id))):
            raise InvalidInput(
                f"from_id and to_id must be up to {MAX_NAME} printable characters, not {from_id!r:.80} and "
                f"{to_id!r:.80}; nothing changed"
            )
        if len(self.names) >= _KEPT:
            self.names.clear()
        self.names.update((from_id, to_id))

    async def _append(self, thread_id: str, entries: tuple[Entry, ...], commit_id: str | None) -> tuple[Slot, ...]:
        key = self.key(thread_id)
        id = new_id() if commit_id is None else commit_id
        while True:
            limit = ceiling(self.firsts.get(thread_id, 0), self.limits)
            try:
                receipt = await self.scope.store.commit(
                    Commit(id, (Expect(key, EXISTS),), (Append(key, entries, limit),))
                )
                break
            except Conflict:
                pass
            except BudgetExceeded:
                if not await self._learned(thread_id):
                    raise
                continue
            length = await self._begin(thread_id, entries, id)
            if length is not None:
                return await self._appended(thread_id, entries, length, commit_id)
        return await self._appended(thread_id, entries, receipt.versions[0], commit_id)

    async def _appended(
        self, thread_id: str, entries: tuple[Entry, ...], length: int, commit_id: str | None
    ) -> tuple[Slot, ...]:
        """Return the slots of an append. It may be a repeat: then what is there is what the first one said."""
        if commit_id is not None:
            there = await self.thread(thread_id).slice(max(0, length - len(entries)), length)
            if there:
                return tuple(there)
        return self._slots(thread_id, entries, length)

    async def _begin(self, thread_id: str, entries: tuple[Entry, ...], id: str) -> int | None:
        """Bring a thread to life with its first messages. None: somebody else just did."""
        key = self.key(thread_id)
        while True:
            *state, count = await self.scope.store.read([*questions([key]), Get(count_key(self.scope.space))])
            thread = found([key], state)[0]
            self.firsts[thread_id] = thread.first
            if thread.length:
                return None
            try:
                plan = plan_appends([(thread, entries)], count, limits=self.limits, now=self.scope.clock())
            except BudgetExceeded:
                if self.limits.archive is None:
                    raise
                await self.make_room()
                continue
            try:
                receipt = await self.scope.store.commit(Commit(id, plan.expects, plan.writes))
            except Conflict:
                continue
            return receipt.versions[0]

    async def _learned(self, thread_id: str) -> bool:
        """Look where the thread's count went on from; True if that is news, so that the limit is worth another try."""
        known = self.firsts.get(thread_id, 0)
        key = self.key(thread_id)
        self.firsts[thread_id] = found([key], await self.scope.store.read(questions([key])))[0].first
        return self.firsts[thread_id] != known

    def _slots(self, thread_id: str, entries: tuple[Entry, ...], length: int) -> tuple[Slot, ...]:
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

    async def list(self, *, after: str | None = None, limit: int = 50, state: State = "live") -> ThreadPage:
        """Return threads in order of creation: the live ones, or the tombstones of those that ended."""
        page = await self._page(state, after, limit)
        slices = await self.scope.store.read([Range(self.key(doc.key.id), 0, 0) for doc in page[0]])
        return ThreadPage(tuple(map(_info, page[0], slices)), page[1])

    async def stats(self) -> ThreadStats:
        """Count the live threads and their slots."""
        threads = [thread async for thread in self._live()]
        return ThreadStats(
            len(threads),
            sum(thread.length - thread.first for thread in threads),
            self.limits.max_threads,
            self.limits.max_slots_per_thread,
        )

    # ---- endings ----------------------------------------------------------------------------------------------------

    async def delete(self, thread_id: str) -> bool:
        """Remove a thread's slots for good and leave a tombstone. False if there was nothing to remove."""
        while True:
            try:
                return await self._end(thread_id, "deleted")
            except Conflict:
                continue

    async def sweep(self, *, ttl_seconds: float | None = None) -> tuple[str, ...]:
        """End the threads nobody has appended to for `ttl_seconds` (default: the limit's) and return their ids.

        Each is archived first if the limits name an archive. One that is appended to meanwhile stays.
        """
        ttl = self.limits.ttl_seconds if ttl_seconds is None else ttl_seconds
        if ttl is None:
            raise InvalidInput("sweep needs ttl_seconds, in the call or in the limits; nothing changed")
        if not 0 <= ttl < math.inf:
            raise InvalidInput(f"ttl_seconds must be a number, 0 or more, not {ttl!r:.40}; nothing changed")
        edge = self.scope.clock() - int(ttl * 1_000_000)
        ended = []
        for last, thread_id in await self._by_use():
            if last < edge and await self._leave(thread_id, "expired"):
                ended.append(thread_id)
        return tuple(ended)

    async def make_room(self) -> str | None:
        """Archive the thread that has waited longest for a message, and return its id."""
        assert self.limits.archive is not None
        for _, thread_id in await self._by_use():
            if await self._leave(thread_id, "archived"):
                return thread_id
        return None

    async def _leave(self, thread_id: str, state: State) -> bool:
        handle = self.thread(thread_id)
        length = None
        if self.limits.archive is not None:
            slots = [slot async for slot in handle]
            length = slots[-1].index + 1 if slots else 0
            self.limits.archive(thread_id, pack_thread(thread_id, slots))
        try:
            return await self._end(thread_id, state, length)
        except Conflict:
            return False

    async def _end(self, thread_id: str, state: State, length: int | None = None) -> bool:
        key = self.key(thread_id)
        *answers, count = await self.scope.store.read([*questions([key]), Get(count_key(self.scope.space))])
        thread = found([key], answers)[0]
        if length is not None and thread.length != length:
            return False
        try:
            plan = plan_end(thread, count, state=state, now=self.scope.clock())
        except NotFound:
            return False
        await self.scope.store.commit(Commit(new_id(), plan.expects, plan.writes))
        return True

    async def _by_use(self) -> Sequence[tuple[int, str]]:
        """List the live threads with the time of their newest slot, the one unused for longest first."""
        used = []
        async for batch in self._batches():
            asked = [Tail(self.key(doc.key.id), 1) for doc in batch]
            try:
                slices = await self.scope.store.read(asked)
            except Damaged:
                slices = [await self._newest(tail) for tail in asked]
            used += [(here.records[0].at, doc.key.id) for doc, here in zip(batch, slices, strict=True) if here.records]
        return sorted(used)

    async def _newest(self, tail: Tail) -> Slice:
        try:
            [here] = await self.scope.store.read([tail])
            return here  # type: ignore[no-any-return]
        except Damaged:
            return Slice(0, 0, ())  # what can not be read is not thrown away either

    async def _live(self) -> AsyncIterator[ThreadInfo]:
        async for batch in self._batches():
            slices = await self.scope.store.read([Range(self.key(doc.key.id), 0, 0) for doc in batch])
            for doc, here in zip(batch, slices, strict=True):
                yield _info(doc, here)

    async def _batches(self) -> AsyncIterator[tuple[Document, ...]]:
        after: str | None = None
        while True:
            documents, after = await self._page("live", after, PAGE)
            if documents:
                yield documents
            if after is None:
                return

    async def _page(self, state: State, after: str | None, limit: int) -> tuple[tuple[Document, ...], str | None]:
        [page] = await self.scope.store.read([Scan(self.scope.space, INFO, {"state": state}, after, limit)])
        return page.documents, page.next

    def thread(self, thread_id: str) -> AsyncThread:
        """Return a handle on a thread."""
        return AsyncThread(self.scope, self.types, self.key(thread_id))

    def key(self, thread_id: str) -> Key:
        """Return a thread's key. Kept, because checking a name costs more than appending to it in memory."""
        key = self.keys.get(thread_id)
        if key is None:
            if len(self.keys) >= _KEPT:
                self.keys.clear()
            key = self.keys[thread_id] = self.scope.key(THREAD, thread_id)
        return key


def _record(index: int, entry: Entry) -> Record:
    return Record(
        index, entry.type, entry.body, 0, entry.at, entry.sender, entry.receiver, None, None, None, entry.native
    )


def _info(document: Document, here: Slice) -> ThreadInfo:
    stored = msgspec.json.decode(document.value, type=Info)
    return ThreadInfo(
        document.key.id,
        stored.state,
        moment(stored.created_at),
        None if stored.ended_at is None else moment(stored.ended_at),
        here.first if here.length else stored.first,
        here.length or stored.first,
    )


def meta_of(own_name: str | None, is_self_call: bool, usage_instructions: str, todo_nudge: str) -> Meta:
    """Make a slot's metadata; the usual empty one costs nothing."""
    if own_name is None and not (is_self_call or usage_instructions or todo_nudge):
        return NO_META
    return Meta(own_name, is_self_call, usage_instructions, todo_nudge)


def _is_name(name: object) -> bool:
    return type(name) is str and 0 < len(name) <= MAX_NAME and name.isprintable()
