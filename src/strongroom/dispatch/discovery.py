"""Finding the threads that have something for our functions."""

from __future__ import annotations

from collections.abc import Collection

from strongroom.errors import Damaged
from strongroom.services.threads.deliveries import DELIVERY, MAIL, due, read_delivery, start
from strongroom.services.threads.plans import INFO
from strongroom.services.threads.thread import read_slice
from strongroom.services.threads.threads import AsyncThreads
from strongroom.store import Get, Range, Scan

PAGE = 100


class Discovery:
    """Looks for mail. What it remembers is only what not to read twice."""

    def __init__(self, threads: AsyncThreads, receivers: Collection[str]) -> None:
        self._threads = threads
        self._scope = threads.scope
        self._receivers = receivers
        self._seen: dict[str, int] = {}

    async def flagged(self, *, skip: Collection[str], limit: int) -> list[str]:
        """Return threads whose flag is up, those waiting longest first, leaving out the ones to skip."""
        chosen: dict[str, None] = {}
        cursors: dict[str, str | None] = dict.fromkeys(self._receivers)
        while cursors and len(chosen) < limit:
            pages = await self._scope.store.read(
                [Scan(self._scope.space, MAIL, {"receiver": name}, after, PAGE) for name, after in cursors.items()]
            )
            for name, page in zip(list(cursors), pages, strict=True):
                waiting = [document.value.load()["thread_id"] for document in page.documents]
                chosen |= dict.fromkeys(thread_id for thread_id in waiting if thread_id not in skip)
                if page.next is None:
                    del cursors[name]
                else:
                    cursors[name] = page.next
        return list(chosen)[:limit]

    async def any_flag(self) -> bool:
        """Say whether any flag is up for our functions."""
        pages = await self._scope.store.read(
            [Scan(self._scope.space, MAIL, {"receiver": name}, limit=1) for name in self._receivers]
        )
        return any(page.documents for page in pages)

    async def sweep(self, *, skip: Collection[str]) -> list[str]:
        """Return the live threads that hold something for us although nobody raised a flag."""
        chosen: list[str] = []
        after: str | None = None
        while True:
            [page] = await self._scope.store.read([Scan(self._scope.space, INFO, {"state": "live"}, after, PAGE)])
            waiting = [document.key.id for document in page.documents if document.key.id not in skip]
            chosen += await self._with_mail(waiting)
            after = page.next
            if after is None:
                return chosen

    async def _with_mail(self, thread_ids: list[str]) -> list[str]:
        states = await self._scope.store.read([Get(self._scope.key(DELIVERY, thread_id)) for thread_id in thread_ids])
        deliveries = [read_delivery(document) for document in states]
        begins = [
            max(start(delivery, self._receivers), self._seen.get(thread_id, 0))
            for thread_id, delivery in zip(thread_ids, deliveries, strict=True)
        ]
        asked = [
            Range(self._threads.key(thread_id), begin, None, PAGE)
            for thread_id, begin in zip(thread_ids, begins, strict=True)
        ]
        chosen = []
        try:
            slices = await self._scope.store.read(asked)
        except Damaged:
            slices = [await read_slice(self._scope.store, question) for question in asked]
        for thread_id, delivery, here in zip(thread_ids, deliveries, slices, strict=True):
            if due(delivery, here.records, self._receivers):
                chosen.append(thread_id)
            elif here.records:
                # Not for us. Without this every sweep would read the same records again.
                self._seen[thread_id] = here.records[-1].index + 1
        return chosen
