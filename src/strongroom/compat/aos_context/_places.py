"""Where a file's store is, and the stores this process has open.

A working set at `<folder>/<name>.json` is a run in `<folder>/strongroom.db`. Each file name is a space of its own, so
that two files beside each other may hold runs of the same id; the usual name is the default space. A server keeps all
of its runs, and the memories they share, in one store at its root, with the files of each run as copies below it.

Nothing says when a manager is no longer needed, so stores are kept open by use: the least recently used one that
nobody is using is closed once there are too many.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.bridge import Inline
from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput, NotFound, StrongroomError
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.store import Store
from strongroom.tokens import tokenizer

STORE = "strongroom.db"
SPACE = "default"
WORKING_SET = "working_set.v2.1.json"
LEDGER = "run.v2.1.jsonl"
MOST_OPEN = 32

_tokenizer = tokenizer(estimate_tokens)


class Place(Struct, frozen=True):
    """Where a run is kept. Without a `run_id` it is the first one of its space."""

    db: Path
    space: str = SPACE
    run_id: str | None = None

    @property
    def made(self) -> bool:
        """Whether the store is there. Asked without `stat`, which would slow the store's next fsync down."""
        return os.access(self.db, os.F_OK)

    def run(self, ctx: Context) -> Run | None:
        """Return the run of this place, if there is one."""
        if self.run_id is None:
            return next(iter(ctx.runs.list(limit=1)), None)
        try:
            return ctx.runs.get(self.run_id)
        except (NotFound, InvalidInput):
            return None


def of_working_set(path: Path) -> Place:
    """Return where the run of a working-set file is, or is to be."""
    path = path.absolute()
    beside = Place(path.parent / STORE, SPACE if path.name == WORKING_SET else path.name)
    return (_at_root(path, "state") if not beside.made else None) or beside


def of_ledger(path: Path) -> Place:
    """Return where the events of a ledger file are, or are to be: with its run, where files lie as they usually do."""
    path = path.absolute()
    usual = path.parent.name == "ledger"
    return _at_root(path, "ledger") or Place((path.parent.parent / "state" if usual else path.parent) / STORE)


def _at_root(path: Path, folder: str) -> Place | None:
    if path.parent.name != folder or len(path.parents) < 3:
        return None
    place = Place(path.parents[2] / STORE, SPACE, path.parents[1].name)
    if not place.made:
        return None
    with using(place) as ctx:
        return place if place.run(ctx) is not None else None


class _Open:
    """A store in use or kept for the next one who needs it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.users = 0
        self.gone = False


class _Stores:
    """The stores of this process, by path."""

    def __init__(self) -> None:
        self.forget()
        # A store that is open at a fork can not be opened in the child, so those that nobody is using are closed first.
        os.register_at_fork(before=lambda: self.close_idle(0), after_in_child=self.forget)

    def forget(self) -> None:
        self._turn = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def take(self, db: Path) -> _Open:
        name = os.path.realpath(db)
        with self._turn:
            found = self._open.get(name)
            if found is not None and not os.access(name, os.F_OK):
                self._close(self._open.pop(name))
                found = None
            if found is None:
                db.parent.mkdir(parents=True, exist_ok=True)
                found = self._open[name] = _Open(open_store(db))
            found.users += 1
            self._open.move_to_end(name)
        self.close_idle(MOST_OPEN)
        return found

    def close_idle(self, keep: int) -> None:
        """Close stores that nobody is using, the longest unused first, until so many are left."""
        with self._turn:
            for name in [name for name, each in self._open.items() if not each.users]:
                if len(self._open) <= keep:
                    break
                self._close(self._open.pop(name))

    def give_back(self, taken: _Open) -> None:
        with self._turn:
            taken.users -= 1
            if taken.gone:
                self._close(taken)

    def _close(self, old: _Open) -> None:
        """Close a store, or leave that to the last one who uses it."""
        old.gone = True
        if not old.users:
            with suppress(StrongroomError):
                old.store.close()


_stores = _Stores()


@contextmanager
def using(place: Place) -> Iterator[Context]:
    """Offer the context of a place, opening or making its store."""
    taken = _stores.take(place.db)
    try:
        yield Context(AsyncContext(Scope(Inline(taken.store), place.space, tokenizer=_tokenizer)))
    finally:
        _stores.give_back(taken)
