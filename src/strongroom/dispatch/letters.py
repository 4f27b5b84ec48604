"""Letters: posting a message so that it is found, and what became of those nobody could handle."""

from __future__ import annotations

from typing import Any

from strongroom.errors import BudgetExceeded, Conflict, NotFound
from strongroom.services.threads.deliveries import DEAD, DeadLetterPage, raise_flag, read_dead_letter
from strongroom.services.threads.payloads import NO_META, Inert, unseal
from strongroom.services.threads.plans import count_key, found, plan_appends, questions
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Slot
from strongroom.store import Commit, Delete, Entry, Expect, Get, Record, Scan, Write, new_id


class Letters:
    """Messages on their way into threads, and those that came to nothing."""

    def __init__(self, threads: AsyncThreads) -> None:
        self._threads = threads
        self._scope = threads.scope

    async def post(self, thread_id: str, payload: Any, *, from_id: str, to_id: str) -> Slot:
        """Append a message and raise its receiver's flag, in one commit."""
        entry = self._threads.entry(payload, from_id=from_id, to_id=to_id)
        return await self._post(thread_id, entry, to_id)

    async def dead(self, *, handler: str | None, after: str | None, limit: int) -> DeadLetterPage:
        """Return dead letters, oldest first."""
        tags = {} if handler is None else {"handler": handler}
        [page] = await self._scope.store.read([Scan(self._scope.space, DEAD, tags, after, limit)])
        return DeadLetterPage(tuple(map(read_dead_letter, page.documents)), page.next)

    async def replay(self, letter_id: str) -> Slot:
        """Append a dead letter's message again and forget the letter, in one commit."""
        key = self._scope.key(DEAD, letter_id)
        [document] = await self._scope.store.read([Get(key)])
        if document is None:
            raise NotFound(f"no dead letter has the id {letter_id!r:.80}; nothing changed", kind=DEAD, id=letter_id)
        letter = read_dead_letter(document)
        slot = await self._threads.thread(letter.thread_id)[letter.index]
        body = slot.record.body
        assert body is not None, "a slot that can be read has a body"
        opened = unseal(body)
        meta = NO_META if opened.meta == NO_META else opened.meta
        payload = Inert(slot.type, type(body)(bytes(opened.payload)))
        entry = self._threads.entry(payload, meta, from_id=slot.from_id, to_id=slot.to_id)
        still = (Expect(key, document.version),)
        return await self._post(letter.thread_id, entry, letter.handler, still, (Delete(key),))

    async def _post(
        self,
        thread_id: str,
        entry: Entry,
        receiver: str,
        expects: tuple[Expect, ...] = (),
        writes: tuple[Write, ...] = (),
    ) -> Slot:
        key = self._threads.key(thread_id)
        flag = raise_flag(self._scope.space, thread_id=thread_id, receiver=receiver)
        while True:
            *state, count = await self._scope.store.read([*questions([key]), Get(count_key(self._scope.space))])
            try:
                plan = plan_appends(
                    [(found([key], state)[0], (entry,))],
                    count,
                    limits=self._threads.limits,
                    now=self._scope.clock(),
                )
                commit = Commit(new_id(), (*plan.expects, *expects), (*plan.writes, flag, *writes))
                receipt = await self._scope.store.commit(commit)
            except Conflict as conflict:
                if any(conflict.key == expect.key for expect in expects):
                    raise NotFound("this dead letter was replayed already; nothing changed", kind=DEAD) from None
                continue
            except BudgetExceeded:
                if self._threads.limits.archive is None or await self._threads.make_room() is None:
                    raise
                continue
            record = Record(
                receipt.versions[0] - 1, entry.type, entry.body, 0, entry.at, entry.sender, entry.receiver,
                None, None, None, entry.native,
            )  # fmt: skip
            return Slot(thread_id, record, self._threads.types)
