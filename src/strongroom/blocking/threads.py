"""Threads and Thread: the blocking twins of AsyncThreads and AsyncThread."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import TypeVar, overload

from strongroom.arguments import got_by
from strongroom.bridge import blocking, iterate, plain, run
from strongroom.meant import Meant, Unsettable
from strongroom.services.threads.in_process import InProcess
from strongroom.services.threads.reading import AsyncThread
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.threads.values import Limits, Slot

T = TypeVar("T", bound=type)


@got_by("`ctx.threads.get(thread_id)`", lambda given: isinstance(given, AsyncThread))
class Thread(Unsettable):
    """A handle on one thread. It holds nothing: every call asks the store.

    >>> ctx = strongroom.open("memory://")
    >>> for task in ("call the carrier", "write to Ana"):
    ...     _ = ctx.threads.append("planner", {"task": task}, from_id="support")
    >>> thread = ctx.threads.get("planner")
    >>> len(thread), thread[-1].payload["task"], len(thread.sent_by("support"))
    (2, 'write to Ana', 2)
    """

    def __init__(self, thread: AsyncThread) -> None:
        self._async = thread

    @property
    def id(self) -> str:
        """The thread's name in its space."""
        return self._async.id

    def __repr__(self) -> str:
        return f"Thread({self.id!r})"

    @overload
    def __getitem__(self, place: int) -> Slot: ...
    @overload
    def __getitem__(self, place: builtins.slice) -> list[Slot]: ...
    def __getitem__(self, place: int | builtins.slice) -> Slot | list[Slot]:
        found: Slot | list[Slot] = run(self._async[place])  # type: ignore[assignment]
        return found

    def __len__(self) -> int:
        return run(self._async.length())

    slice = blocking(AsyncThread.slice)
    by_type = blocking(AsyncThread.by_type)
    sent_by = blocking(AsyncThread.sent_by)
    length = blocking(AsyncThread.length)
    indexes = blocking(AsyncThread.indexes)

    def __iter__(self) -> Iterator[Slot]:
        return iterate(aiter(self._async))

    def follow(self, *, after: int = -1, idle_seconds: float | None = None) -> Iterator[Slot]:
        """Yield the slots with index > `after`, then each new one as it is appended, by whatever process.

        Ends only if `idle_seconds` pass without a new slot.
        """
        return iterate(self._async.follow(after=after, idle_seconds=idle_seconds))


@got_by("`ctx.threads`", lambda given: isinstance(given, AsyncThreads))
class Threads(Meant):
    """The threads of one space. `limited()` gives a view with limits; `register()` names the types to bring back.

    >>> ctx = strongroom.open("memory://")
    >>> ctx.threads.append("planner", {"task": "call the carrier"}, from_id="support", to_id="planner").index
    0
    >>> ctx.threads.get("planner")[0].payload
    {'task': 'call the carrier'}
    """

    def __init__(self, threads: AsyncThreads) -> None:
        self._async = threads
        store = getattr(threads.scope.store, "blocking", None)
        if hasattr(store, "extend"):
            # Not `self.append = ...`, which type checkers would take for a second kind of append.
            vars(self)["append"] = InProcess(threads, store=store, otherwise=self.append).append

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def limits(self) -> Limits:
        """What these threads may hold."""
        return self._async.limits

    def limited(
        self,
        *,
        max_slots_per_thread: int | None = None,
        max_threads: int | None = None,
        ttl_seconds: float | None = None,
        archive: Callable[[str, bytes], None] | None = None,
    ) -> Threads:
        """Return the same threads under limits, checked by the store in the commit that would pass them."""
        plain("archive", archive, writes=False)
        return Threads(
            self._async.limited(
                max_slots_per_thread=max_slots_per_thread,
                max_threads=max_threads,
                ttl_seconds=ttl_seconds,
                archive=archive,
            )
        )

    def register(self, cls: T) -> T:
        """Let payloads of this class come back as themselves. Returns it, so it can be a decorator."""
        return self._async.register(cls)

    append = blocking(AsyncThreads.append)
    append_many = blocking(AsyncThreads.append_many)
    get = blocking(AsyncThreads.get, wrap=Thread)
    list = blocking(AsyncThreads.list)
    stats = blocking(AsyncThreads.stats)
    delete = blocking(AsyncThreads.delete)
    erase = blocking(AsyncThreads.erase)
    sweep = blocking(AsyncThreads.sweep)
    make_room = blocking(AsyncThreads.make_room)

    def follow(self, thread_id: str, *, after: int = -1, idle_seconds: float | None = None) -> Iterator[Slot]:
        """Yield the slots with index > `after`, then each new one as it is appended, by whatever process.

        Ends only if `idle_seconds` pass without a new slot.
        """
        return iterate(self._async.follow(thread_id, after=after, idle_seconds=idle_seconds))
