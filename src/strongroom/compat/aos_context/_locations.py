"""Where the run of a file is kept.

A working set at `<folder>/<name>.json` is a run in `<folder>/strongroom.db`. Each file name is a space of its own, so
that two files beside each other may hold runs of the same id; the usual name is the default space. Below the folder
that `AOS_RUNS_ROOT` names, and below one that a server has used, all runs, and the memories they share, are in the one
store at that root, and the files of each run are copies: what a server, the command line or a class made, the others
see. A run folder that was there before, with a store of its own or without one, is taken in when it is first needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.codec import encode
from strongroom.compat import stores
from strongroom.compat.aos_context.environment import STORE, runs_root
from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.errors import InvalidInput, NotFound
from strongroom.store import Commit, Get, Key, Put, ask, new_id
from strongroom.tokens import tokenizer

SPACE = "default"
WORKING_SET = "working_set.v2.1.json"
LEDGER = "run.v2.1.jsonl"
FILE = "working_set_file"
SAFE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")  # an id that can name a folder

_tokenizer = tokenizer(estimate_tokens)


class Location(Struct, frozen=True):
    """A file's place in a store. `rooted` is that of a run folder, `name`, below a root; a server's have their id."""

    db: Path
    space: str = SPACE
    name: str = WORKING_SET
    rooted: bool = False

    @property
    def made(self) -> bool:
        """Whether the store is there. Asked without `stat`, which would slow the store's next fsync down."""
        return os.access(self.db, os.F_OK)

    def run(self, ctx: Context) -> Run | None:
        """Return the run that the file shows: the one chosen last, or the one that was always there."""
        chosen = ask(ctx.store, Get(self._key))
        if chosen is None and not self.rooted:
            return next(iter(ctx.runs.list(limit=1)), None)
        try:
            return ctx.runs.get(self.name if chosen is None else chosen.value.load()["run_id"])
        except (NotFound, InvalidInput):
            return None

    def choose(self, ctx: Context, run: Run) -> None:
        """Let the file show this run from now on."""
        shown = self.run(ctx)
        if shown is None or shown.id != run.id:
            ctx.store.commit(Commit(new_id(), (), (Put(self._key, encode({"run_id": run.id})),)))

    @property
    def _key(self) -> Key:
        # Hashed, because a file's name may hold what a key may not.
        return Key(self.space, FILE, sha256(self.name.encode(errors="surrogateescape")).hexdigest())


def of_working_set(path: Path) -> Location:
    """Return where the run of a working-set file is, or is to be."""
    path = path.absolute()
    own = Location(path.parent / STORE, SPACE if path.name == WORKING_SET else path.name, path.name)
    usual = path.name == WORKING_SET and path.parent.name == "state"
    return (_at_root(path) if usual else None) or own


def beside(folder: Path) -> Location:
    """Return where the run of a run folder is, or was, if it is in no store at a root."""
    return Location(folder.absolute() / "state" / STORE)


def of_ledger(path: Path) -> Location:
    """Return where the events of a ledger file are, or are to be: with its run, where files lie as they usually do."""
    path = path.absolute()
    usual = path.parent.name == "ledger"
    own = beside(path.parents[1]) if usual else Location(path.parent / STORE)
    found = _at_root(path) if usual else None
    if found is None or not found.made:
        return own
    with using(found) as ctx:
        return own if found.run(ctx) is None else found


def _at_root(path: Path) -> Location | None:
    if len(path.parents) < 3:
        return None
    location = Location(path.parents[2] / STORE, SPACE, path.parents[1].name, rooted=True)
    named = runs_root()
    return location if location.made or (named is not None and named.absolute() == path.parents[2]) else None


@contextmanager
def using(location: Location) -> Iterator[Context]:
    """Offer the context of a location, opening or making its store."""
    with stores.using(str(location.db), location.space, _tokenizer) as ctx:
        yield ctx
