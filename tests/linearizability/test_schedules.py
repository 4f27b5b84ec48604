"""Every schedule of racing programs, each crash and each lost answer among them, on a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.store import Append, AsyncStore, Commit, Entry, Expect, Get, Key, Put, Range, Store, new_id
from strongroom.testing import CRASHED, explore


class Shared:
    """One store for all schedules: each has a space of its own, which is as empty as a new store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.space = ""

    def fresh(self) -> Any:
        self.space = new_id()
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        """The next schedule uses it too."""

    @property
    def number(self) -> Key:
        return Key(self.space, "number", "n")

    @property
    def log(self) -> Key:
        return Key(self.space, "log", "l")

    async def increment(self, store: AsyncStore, *, careful: bool = True) -> None:
        """Add one to a number and to a log, in one commit, until it is certain."""
        while True:
            found = await Scope(store).get(Get(self.number))
            version, value = (found.version, found.value.load()) if found else (0, 0)
            expects = (Expect(self.number, version),) if careful else ()
            entry = Entry("added", encode(value))
            commit = Commit(new_id(), expects, (Put(self.number, encode(value + 1)), Append(self.log, (entry,))))
            while True:
                try:
                    await store.commit(commit)
                    return
                except CommitUnknown:
                    continue  # with the same id
                except Conflict:
                    break

    async def careless(self, store: AsyncStore) -> None:
        await self.increment(store, careful=False)

    async def check(self, store: AsyncStore, results: Sequence[Any]) -> None:
        document, log = await Scope(store).read(Get(self.number), Range(self.log))
        value = document.value.load() if document else 0
        assert [record.body and record.body.load() for record in log.records] == list(range(value))
        assert len(results) - results.count(CRASHED) <= value <= len(results)


@pytest.fixture(params=["postgres", "redis"])
def shared(request: pytest.FixtureRequest) -> Iterator[Shared]:
    store = open_store(request.getfixturevalue(request.param))
    yield Shared(store)
    store.close()


def test_no_schedule_loses_or_doubles_an_update(shared: Shared) -> None:
    found = explore([shared.increment] * 2, shared.check, crashes=1, unknowns=1, make_store=shared.fresh)
    assert found.failure is None
    assert found.schedules > 50


def test_an_update_without_an_expectation_is_lost_in_some_schedule(shared: Shared) -> None:
    """The negative control of the test above."""
    assert explore([shared.careless] * 2, shared.check, make_store=shared.fresh).failure is not None
