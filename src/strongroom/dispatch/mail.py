"""Mail: conversations that begin with a message, threads that have something to handle, messages that nobody could.

Whoever appends a message for somebody raises a flag in the same commit (see `deliveries`), so it is enough to ask for
the flags of our own names. What that costs depends on the flags that are up, not on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import zip_longest
from typing import Any

from strongroom.codec import encode
from strongroom.errors import NotFound
from strongroom.operations import NOTHING, Operation, Plan, perform
from strongroom.scope import Scope
from strongroom.services.threads.deliveries import DEAD, MAIL, DeadLetter, read_dead_letter
from strongroom.services.threads.payloads import Inert, unseal
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.registry import plan_start
from strongroom.services.threads.threads import AsyncThreads, content_of, limits_told
from strongroom.services.threads.values import Slot
from strongroom.store import Delete, Entry, Expect, Get, Receipt, Record, Scan
from strongroom.values import Listing

PAGE = 100
MOST = 200  # flags that are looked at in one page, however many threads are to be skipped


class Mail:
    """Messages on their way into threads, and those that came to nothing."""

    def __init__(self, threads: AsyncThreads) -> None:
        self._threads = threads
        self._scope = threads.scope

    async def begin(self, payload: Any, *, from_id: str, to_id: str, commit_id: str | None) -> Slot:
        """Begin a conversation with its first message: the chain, the thread and the message, in one commit."""
        return await self.begun(self._threads.entry(payload, from_id=from_id, to_id=to_id), commit_id)

    async def begun(self, entry: Entry, commit_id: str | None) -> Slot:
        """Begin a conversation with a message that is sealed."""
        from_id, to_id = entry.sender or "", entry.receiver or ""

        async def attempt() -> Plan[Slot] | None:
            chain = plan_start(self._scope, (from_id, to_id), None)
            plan = await self._threads.plan({chain.id: (entry,)})
            if plan is None:
                return None
            expects, writes = (*plan.expects, *chain.expects), (*plan.writes, *chain.writes)
            return Plan(expects, writes, lambda receipt: told(chain.id, receipt), encode([chain.id, entry.at]))

        def told(thread_id: str, receipt: Receipt) -> Slot:
            return self._threads.slots(thread_id, (entry,), receipt.versions[0])[0]

        async def replay(receipt: Receipt) -> Slot:
            assert receipt.answer is not None
            thread_id, at = receipt.answer.load()
            return told(thread_id, receipt).made_at(at)

        # Nobody knows the id of a thread before it begins, so all that begin are about the same.
        limits, more_room = limits_told(self._threads)
        target = self._scope.key(THREAD, "new")
        operation = Operation("dispatch.begin", target, content_of((entry,)), commit_id, limits)
        return await perform(self._scope, operation, attempt, replay, more_room)

    async def dead(self, *, handler: str | None, after: str | None, limit: int) -> Listing[DeadLetter]:
        """Return dead letters, oldest first."""
        tags = {} if handler is None else {"handler": handler}
        scan = Scan(self._scope.space, DEAD, tags, after, limit)
        return Listing(*await self._scope.listed(scan, read_dead_letter))

    async def replay(self, letter_id: str, commit_id: str | None) -> Slot:
        """Append a dead letter's message again and forget the letter, in one commit."""
        key = self._scope.key(DEAD, letter_id)

        async def attempt() -> Plan[Slot] | None:
            document = await self._scope.get(Get(key))
            if document is None:
                raise NotFound(f"no dead letter has the id {letter_id!r:.80}; nothing changed", kind=DEAD, id=letter_id)
            letter = read_dead_letter(document)
            entry = self._again(await self._threads.thread(letter.thread_id)[letter.index])
            plan = await self._threads.plan({letter.thread_id: (entry,)})
            if plan is None:
                return None
            return Plan(
                (*plan.expects, Expect(key, document.version)),
                (*plan.writes, Delete(key)),
                lambda receipt: self._threads.slots(letter.thread_id, (entry,), receipt.versions[0])[0],
                # What an erasure leaves of a message, and no more: receipts are not erased with it.
                encode([letter.thread_id, entry.type, entry.at]),
            )

        async def replay(receipt: Receipt) -> Slot:
            assert receipt.answer is not None
            thread_id, type, at = receipt.answer.load()
            index = receipt.versions[0] - 1
            try:
                return await self._threads.thread(thread_id)[index]
            except NotFound:  # the thread has ended since: the message was sent all the same
                gone = Record(index, type, None, 0, at, None, None, None, None, None)
                return Slot(thread_id, gone, self._threads.types)

        limits, more_room = limits_told(self._threads)
        operation = Operation("dispatch.replay", key, NOTHING, commit_id, limits)
        return await perform(self._scope, operation, attempt, replay, more_room)

    def _again(self, slot: Slot) -> Entry:
        body = slot.record.body
        if body is None:
            raise NotFound(
                f"slot {slot.index} of thread {slot.thread_id!r} was erased; nothing changed",
                kind="slot",
                id=slot.thread_id,
            )
        opened = unseal(body)
        payload = Inert(slot.type, type(body)(bytes(opened.payload)))
        return self._threads.entry(payload, opened.metadata, from_id=slot.from_id, to_id=slot.to_id)


async def flagged(
    scope: Scope,
    receivers: Iterable[str],
    *,
    skip: Collection[str] = (),
    limit: int,
    places: dict[str, str] | None = None,
) -> list[str]:
    """Return threads whose flag is up, leaving out the ones to skip.

    They are taken from the receivers in turn, of each the one whose flag has been up for longest: so none waits until
    another has no more.

    What a look costs does not depend on how many are to be skipped. Where those fill the first page of a receiver, its
    next look begins another page as well, and so on to the end: `places` is where, kept from look to look.
    """
    places = {} if places is None else places
    names, size = list(receivers), min(max(PAGE, limit + len(skip)), MOST)
    asked = [(name, after) for name in names for after in dict.fromkeys((None, places.get(name)))]
    pages = await scope.get_all([Scan(scope.space, MAIL, {"receiver": name}, after, size) for name, after in asked])
    free = [
        [id for document in page.documents if (id := document.value.load()["thread_id"]) not in skip] for page in pages
    ]
    found: dict[str, list[str]] = {name: [] for name in names}
    for (name, _), here in zip(asked, free, strict=True):
        found[name] += here
    turns = zip_longest(*found.values())
    chosen = list(dict.fromkeys(id for turn in turns for id in turn if id is not None))[:limit]
    for (name, after), page, here in zip(asked, pages, free, strict=True):
        if after is None and (name in places or here):
            continue  # those behind the first page have a place, or need none
        if here and not set(here) & set(chosen):
            continue  # its turn is yet to come
        if page.next is None:
            places.pop(name, None)
        else:
            places[name] = page.next
    return chosen
