"""Finding the threads that have something for our functions.

Whoever appends a message for somebody raises a flag in the same commit (see `deliveries`), so it is enough to ask for
the flags of our own names. What that costs depends on the flags that are up, not on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Collection

from strongroom.scope import Scope
from strongroom.services.threads.deliveries import MAIL
from strongroom.store import Scan

PAGE = 100


class Discovery:
    """Looks for mail. It remembers nothing."""

    def __init__(self, scope: Scope, receivers: Collection[str]) -> None:
        self._scope = scope
        self._receivers = receivers

    async def flagged(self, *, skip: Collection[str] = (), limit: int) -> list[str]:
        """Return threads whose flag is up, those waiting longest first, leaving out the ones to skip."""
        chosen: dict[str, None] = {}
        cursors: dict[str, str | None] = dict.fromkeys(self._receivers)
        while cursors and len(chosen) < limit:
            pages = await self._scope.get_all(
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
