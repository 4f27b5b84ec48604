"""The stores that the drop-in classes share: opened when first needed, closed when too many are idle, and never forked.

Nothing says when an object of these classes is no longer needed, so stores are kept open by use: the least recently
used one that nobody is using is closed once there are too many. A database that is open at a fork cannot be used in the
child, so a fork waits until calls that are under way have ended, and closes everything; parent and child open again
what they need.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext
from strongroom.errors import StrongroomError
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.store import Store
from strongroom.tokens import Tokenizer, tokenizer

MOST_OPEN = 32
FORK_WAITS_SECONDS = 30.0
DEFAULT_TOKENIZER = tokenizer("default")

# The one lock of what the drop-in classes keep in this process, so that a fork can wait for it: a child would find any
# other one locked for ever.
LOCK = threading.RLock()


class OpenStore:
    """A store in use, or kept for the next one who needs it. Its contexts are made once, by space and tokenizer."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.users = 0
        self.gone = False
        self._contexts: dict[tuple[str, Tokenizer], Context] = {}

    def context(self, space: str, counted_by: Tokenizer) -> Context:
        known = self._contexts.get((space, counted_by))
        if known is None:
            scope = Scope(Inline(self.store), space, tokenizer=counted_by)
            known = self._contexts[space, counted_by] = Context(AsyncContext(scope))
        return known


class Stores:
    """The stores of this process, by address."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
        )

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._open: OrderedDict[str, OpenStore] = OrderedDict()
        self._busy = 0
        self._forking = False
        self._mine = threading.local()

    def _before_fork(self) -> None:
        self._changed.acquire()
        self._forking = True
        # What this thread is using itself cannot end while it forks: the child is told so when it uses that.
        self._changed.wait_for(lambda: self._busy <= self._depth, FORK_WAITS_SECONDS)
        self._close_idle(0)
        LOCK.acquire()  # last, because a call that is waited for may need it

    def _after_fork_in_child(self) -> None:
        LOCK.release()
        self._begin()

    def _after_fork(self) -> None:
        LOCK.release()
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    @property
    def _depth(self) -> int:
        return getattr(self._mine, "depth", 0)

    def take(self, address: str) -> OpenStore:
        """Return an open store, for one user more."""
        is_file = "://" not in address
        name = os.path.realpath(address) if is_file else address
        with self._changed:
            # Whoever waits to fork goes first, except for a call inside of a call that it waits for.
            self._changed.wait_for(lambda: not self._forking or self._depth > 0)
            found = self._open.get(name)
            # Asked without `stat`, which would slow the store's next fsync down.
            if found is not None and is_file and not os.access(name, os.F_OK):
                self._close(self._open.pop(name))
                found = None
            if found is None:
                if is_file:
                    os.makedirs(os.path.dirname(name), exist_ok=True)  # noqa: PTH103, PTH120
                found = self._open[name] = OpenStore(open_store(address))
            found.users += 1
            self._busy += 1
            self._mine.depth = self._depth + 1
            self._open.move_to_end(name)
            self._close_idle(MOST_OPEN)
        return found

    def give_back(self, taken: OpenStore) -> None:
        """Say that one user has ended."""
        with self._changed:
            taken.users -= 1
            self._busy -= 1
            self._mine.depth = self._depth - 1
            if taken.gone:
                self._close(taken)
            self._changed.notify_all()

    def close(self, address: str) -> None:
        """Close a store now, or when the last one who uses it has ended."""
        name = address if "://" in address else os.path.realpath(address)
        with self._changed:
            found = self._open.pop(name, None)
            if found is not None:
                self._close(found)

    def _close_idle(self, keep: int) -> None:
        for name in [name for name, each in self._open.items() if not each.users]:
            if len(self._open) <= keep:
                break
            self._close(self._open.pop(name))

    def _close(self, old: OpenStore) -> None:
        old.gone = True
        if not old.users:
            with suppress(StrongroomError):
                old.store.close()


_stores = Stores()
close = _stores.close


@contextmanager
def using(address: str, space: str = "default", counted_by: Tokenizer = DEFAULT_TOKENIZER) -> Iterator[Context]:
    """Offer the context of an address, opening or making its store."""
    taken = _stores.take(address)
    try:
        yield taken.context(space, counted_by)
    finally:
        _stores.give_back(taken)
