"""Where a file's store is.

A working set at `<folder>/<name>.json` is a run in `<folder>/strongroom.db`. Each file name is a space of its own, so
that two files beside each other may hold runs of the same id; the usual name is the default space. A server keeps all
of its runs, and the memories they share, in one store at its root, with the files of each run as copies below it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.compat import stores
from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.errors import InvalidInput, NotFound
from strongroom.tokens import tokenizer

STORE = "strongroom.db"
SPACE = "default"
WORKING_SET = "working_set.v2.1.json"
LEDGER = "run.v2.1.jsonl"

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


@contextmanager
def using(place: Place) -> Iterator[Context]:
    """Offer the context of a place, opening or making its store."""
    with stores.using(str(place.db), place.space, _tokenizer) as ctx:
        yield ctx
