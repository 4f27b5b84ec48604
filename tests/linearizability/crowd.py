"""Four clients of one server, what they do, and what happens to them meanwhile.

Each client has a store and a way to the server of its own. Everything is decided by a seed and by the number of calls
made so far, never by the clock, so faults strike while others are in the middle of something.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from strongroom.codec import Json, encode
from strongroom.errors import CommitUnknown, Conflict, StoreError, Unavailable
from strongroom.store import (
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Durability,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Store,
    Tail,
    ask,
    new_id,
)
from strongroom.testing import EMPTY, Operation, Recorder, linearizable, race, store_step
from tests.postgres.proxy import Proxy

T = TypeVar("T")
CLIENTS, CALLS = 4, 7
EVERYTHING = CLIENTS * CALLS
FOR_GOOD = 10**9
Fault = Callable[[], object]


HASTY = 0  # the client that soon gives up


class Server(Protocol):
    """What can be done to a server as a whole."""

    def crash(self) -> None: ...
    def start(self) -> None: ...


class Crowd:
    """The stores of several clients seen as one store: each thread has its own. Calls are counted, and faults strike
    when their number comes up. `gave_up` is called when the hasty client has met a failure."""

    def __init__(self, stores: Sequence[Store], faults: dict[int, Fault], gave_up: Callable[[], object]) -> None:
        self._stores = stores
        self._numbers = itertools.count()
        self._faults = faults
        self._gave_up = gave_up
        self._mine = threading.local()

    def join(self, client: int) -> None:
        """Say which client the calling thread is."""
        self._mine.client = client

    @property
    def durability(self) -> Durability:
        return self._stores[0].durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self._call(lambda store: store.read(questions))

    def commit(self, commit: Commit) -> Receipt:
        return self._call(lambda store: store.commit(commit))

    def close(self) -> None:
        """The stores go on: they serve many histories."""

    def _call(self, verb: Callable[[Store], T]) -> T:
        fault = self._faults.pop(next(self._numbers), None)
        if fault is not None:
            fault()
        try:
            return verb(self._stores[self._mine.client])
        except StoreError:
            if self._mine.client == HASTY:
                self._gave_up()
            raise


class Scene:
    """A server, a proxy for each client, and stores behind them, for any number of histories."""

    def __init__(self, server: Server, port: int, connect: Callable[[int, int], Store]) -> None:
        self.server = server
        self.proxies = [Proxy(port) for _ in range(CLIENTS)]
        self.stores = [connect(client, proxy.port) for client, proxy in enumerate(self.proxies)]
        self.struck: set[str] = set()
        self._calm = threading.Event()
        self._calm.set()
        self._hasty_left = False  # nobody is there any more who would end what lasts
        self._lasting = threading.Lock()

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.flow()
        for store in self.stores:
            store.close()
        for proxy in self.proxies:
            proxy.close()

    def history(self, seed: int, *, wrong: Callable[[Store], Store] = lambda store: store) -> tuple[Operation, ...]:
        """Let the clients run once, with the faults of this seed, and return what each of them saw."""
        chance = random.Random(seed)
        crowd = Crowd([wrong(store) for store in self.stores], self._faults(seed, chance), self.heal)
        recorder = Recorder(crowd)
        space = new_id()
        self._hasty_left = False
        try:
            outcomes = race(*[partial(self.client, crowd, recorder, space, n, seed) for n in range(CLIENTS)])
        finally:
            self.heal()
        assert outcomes == [None] * CLIENTS, outcomes
        crowd.join(1)  # a patient one: what is there in the end must be explained too
        recorder.read([*map(Get, _documents(space)), Range(_log(space))])
        return recorder.history

    def _faults(self, seed: int, chance: random.Random) -> dict[int, Fault]:
        """Choose what goes wrong, and at which call. What lasts, lasts until the hasty client has given up."""
        proxy, hasty = chance.choice(self.proxies), self.proxies[HASTY]
        start = chance.randrange(3, EVERYTHING // 2)
        match seed % 10:
            case 0:
                return {start: self.strike("crash", self._crash)}
            case 1 | 2:
                return {start: self.strike("reply lost", proxy.lose_replies)}
            case 3:
                return {start: self.strike("request lost", proxy.lose_requests)}
            case 4 | 5:
                return {start: self.strike("no replies", partial(hasty.lose_replies, FOR_GOOD), lasts=True)}
            case 6 | 7:
                return {start: self.strike("pause", hasty.stall, lasts=True)}
            case 8:
                cuts: list[Fault] = [cut for each in self.proxies for cut in (each.lose_replies, each.lose_requests)]
                numbers = chance.sample(range(EVERYTHING // 2), 5)
                return {number: self.strike("cuts", chance.choice(cuts)) for number in numbers}
        return {}

    def strike(self, name: str, fault: Fault, *, lasts: bool = False) -> Fault:
        def strike() -> None:
            with self._lasting:
                if lasts and self._hasty_left:
                    return
                self.struck.add(name)
                if lasts:
                    self._calm.clear()
                fault()

        return strike

    def _crash(self) -> None:
        self.server.crash()
        self.server.start()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.lose_replies(0)
            proxy.lose_requests(0)
            proxy.flow()
        self._calm.set()

    def client(self, crowd: Crowd, store: Store, space: str, client: int, seed: int) -> None:
        """Make calls at random. While a fault lasts, the others make some, and some more when it has passed: what was
        held up on the way meets them."""
        crowd.join(client)
        chance = random.Random(f"{seed}-{client}")
        try:
            for number in range(CALLS):
                if client != HASTY and number == CALLS - 3:
                    self._calm.wait()
                _call(store, space, chance, encode([client, number]))
        finally:
            if client == HASTY:
                with self._lasting:
                    self._hasty_left = True
                self.heal()


def explained(history: Sequence[Operation]) -> bool:
    return linearizable(history, EMPTY, store_step)


def unknowns(history: Sequence[Operation]) -> int:
    return sum(operation.ended is None for operation in history)


# ---- what a client does ---------------------------------------------------------------------------------------------


def _documents(space: str) -> list[Key]:
    return [Key(space, "document", name) for name in "ab"]


def _log(space: str) -> Key:
    return Key(space, "log", "l")


def _call(store: Store, space: str, chance: random.Random, body: Json) -> None:
    """Read, swap or append. A call that fails is part of life."""
    log, documents = _log(space), _documents(space)
    key, entries = chance.choice(documents), (Entry("n", body),) * chance.randint(1, 2)
    with suppress(Conflict, Unavailable):
        match chance.randrange(6):
            case 0:
                store.read([*map(Get, documents), Range(log)])
            case 1:
                store.read([Tail(log, chance.randint(1, 3)), Get(key)])
            case 2:
                _commit(store, chance, Commit(new_id(), (), (Append(log, entries),)))
            case 3:
                _commit(store, chance, Commit(new_id(), (), (Put(key, body), Append(log, entries))))
            case _:
                document, newest = ask(store, Get(key), Tail(log, 1))
                expects = (Expect(key, document.version if document else 0), Expect(log, newest.length))
                _commit(store, chance, Commit(new_id(), expects[: chance.randint(1, 2)], (Put(key, body),)))


def _commit(store: Store, chance: random.Random, commit: Commit) -> None:
    """Commit; if the outcome is unknown, repeat the same commit, or let it be."""
    try:
        store.commit(commit)
    except CommitUnknown:
        if chance.random() < 0.5:
            with suppress(CommitUnknown):
                store.commit(commit)
