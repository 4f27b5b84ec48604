"""Deliberately broken stores. Whatever is checked in this folder must fail on one of them."""

from __future__ import annotations

from pathlib import Path

import apsw

from strongroom.errors import StoreError
from strongroom.store import Commit, Receipt
from tests.faults.checks import Checkpointing


class Hasty(Checkpointing):
    """Says "done" and writes a little later."""

    _held: Commit | None = None

    def commit(self, commit: Commit) -> Receipt:
        if self._held is not None:
            super().commit(self._held)
        self._held = commit
        number = int(commit.id.rpartition("-")[2])
        return Receipt(commit.id, (number, number, number))


class Halving(Checkpointing):
    """Applies the writes of a commit one by one."""

    def commit(self, commit: Commit) -> Receipt:
        receipts = [
            super(Halving, self).commit(Commit(f"{commit.id}-{n}", (), (w,))) for n, w in enumerate(commit.writes)
        ]
        return Receipt(commit.id, tuple(receipt.versions[0] for receipt in receipts))


class Forgetful(Checkpointing):
    """Ignores commit ids, so that a repeat is applied again."""

    _calls = 0

    def commit(self, commit: Commit) -> Receipt:
        self._calls += 1
        return super().commit(Commit(f"{commit.id}-{id(self)}-{self._calls}", commit.expects, commit.writes))


class Careless(Checkpointing):
    """Says "done" whatever the disk said."""

    def commit(self, commit: Commit) -> Receipt:
        try:
            return super().commit(commit)
        except (StoreError, MemoryError):
            return Receipt(commit.id, ())


class NeverSyncing(Checkpointing):
    """Leaves it to the operating system when to write."""

    def _connect(self, *, writer: bool) -> apsw.Connection:
        con = super()._connect(writer=writer)
        con.execute("PRAGMA synchronous = OFF")
        return con


def relaxed(path: Path) -> Checkpointing:
    """The weaker class that is offered by name: whole after a power cut, but not up to date."""
    return Checkpointing(path, durability="relaxed")
