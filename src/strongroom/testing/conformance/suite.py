"""What the groups of the conformance suite share: a store for each test, short names, and races between threads.

Nothing here imports pytest, so that the suite runs under any test runner, or none.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from strongroom.codec import Json, encode
from strongroom.errors import StrongroomError
from strongroom.store import (
    MAX_RECORD_BYTES,
    Append,
    Commit,
    Document,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Record,
    Scan,
    Slice,
    Store,
    Tail,
    Write,
    ask,
    new_id,
)

E = TypeVar("E", bound=BaseException)

STUCK_SECONDS = 60
ENOUGH_LOOKS = 30


class Suite:
    """A store for each test, in a space of its own: a server shared by many tests need not be emptied in between."""

    group = ""

    max_record_bytes = MAX_RECORD_BYTES
    """The largest record the stores of this suite take."""

    keeps_native = False
    """Whether the store hands `Entry.native` back: only a store in the caller's own process can."""

    store: Store
    space: str

    def make_store(self) -> Store:
        """Return the store to test. It need not be empty."""
        raise NotImplementedError("a conformance suite needs make_store()")

    def setup_method(self, method: object = None) -> None:
        self.store = self.make_store()
        self.space = f"space-{new_id()}"

    def teardown_method(self, method: object = None) -> None:
        self.store.close()

    # ---- short names, so that a test reads as its one fact -----------------------------------------------------------

    def key(self, id: str = "a", *, kind: str = "thing", space: str | None = None) -> Key:
        return Key(space or self.space, kind, id)

    def do(self, *writes: Write, expects: tuple[Expect, ...] = (), id: str | None = None) -> Receipt:
        """Commit under a fresh id, unless one is given."""
        return self.store.commit(Commit(id or new_id(), expects, writes))

    def get(self, key: Key) -> Document | None:
        return ask(self.store, Get(key))

    def document(self, key: Key) -> Document:
        found = self.get(key)
        assert found is not None, f"{key} should exist"
        return found

    def value(self, key: Key) -> Any:
        return self.document(key).value.load()

    def stream(self, key: Key) -> Slice:
        return ask(self.store, Range(key))

    def bodies(self, question: Range | Tail) -> list[Any]:
        """The bodies of the records a `Range` or `Tail` finds."""
        return [body_of(record) for record in ask(self.store, question).records]

    def ids(self, scan: Scan) -> list[str]:
        return [document.key.id for document in ask(self.store, scan).documents]

    def pages(self, scan: Scan, between: Callable[[], object] = lambda: None) -> list[str]:
        """The ids on all the pages that follow from a scan; `between` runs after each."""
        found: list[str] = []
        after = scan.after
        while True:
            asked = Scan(scan.space, scan.kind, scan.tags, after, scan.limit, scan.reverse)
            page = ask(self.store, asked)
            found += [document.key.id for document in page.documents]
            if page.next is None:
                return found
            after = page.next
            between()


def body_of(record: Record) -> Any:
    assert record.body is not None, f"record {record.index} has no body"
    return record.body.load()


def put(key: Key, value: object = None, /, **tags: str) -> Put:
    return Put(key, encode(value), tags)


def append(key: Key, *bodies: object, max_length: int | None = None) -> Append:
    return Append(key, tuple(Entry("note", encode(body)) for body in bodies), max_length)


def weighing(key: Key, *weights: int) -> Append:
    """An append of records that weigh this much, each with its weight as its body."""
    return Append(key, tuple(Entry("note", encode(weight), weight) for weight in weights))


def json_of(size: int) -> Json:
    """A value of exactly `size` bytes."""
    return encode("x" * (size - 2))


# ---- refusals -------------------------------------------------------------------------------------------------------


class Caught(Generic[E]):
    """What `raises` caught, once its block has ended."""

    error: E


@contextmanager
def raises(kind: type[E]) -> Iterator[Caught[E]]:
    """Fail unless the block raises exactly this kind of error (or one of its subclasses)."""
    caught = Caught[E]()
    try:
        yield caught
    except kind as error:
        caught.error = error
        return
    raise AssertionError(f"{kind.__name__} was not raised")


# ---- races ----------------------------------------------------------------------------------------------------------


def race(*programs: Callable[[], Any]) -> list[Any]:
    """Run programs in threads that start together; return what each returned, or the Strongroom error it met.

    Any other error is raised here, and so is one if they do not all end.
    """
    start = threading.Barrier(len(programs))
    outcomes: list[Any] = [None] * len(programs)
    crashes: list[BaseException] = []

    def run(place: int) -> None:
        start.wait()
        try:
            outcomes[place] = programs[place]()
        except StrongroomError as error:
            outcomes[place] = error
        except BaseException as error:
            crashes.append(error)

    threads = [threading.Thread(target=run, args=[place], daemon=True) for place in range(len(programs))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the default lets most races through in one piece
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(STUCK_SECONDS)
    finally:
        sys.setswitchinterval(interval)
    if crashes:
        raise crashes[0]
    assert not any(thread.is_alive() for thread in threads), f"a thread is stuck for {STUCK_SECONDS} seconds"
    return outcomes


def watch(write: Callable[[int], object], look: Callable[[], object], *, times: int) -> None:
    """Let two threads look again and again while one calls write(0), write(1), ... and once more when it has ended.

    It writes at least `times` times, and on while those who look have not seen much yet, up to eight times as often.
    """
    written = threading.Event()
    looks = [0, 0]

    def writing() -> None:
        try:
            for n in range(times * 8):
                if n >= times and min(looks) >= ENOUGH_LOOKS:
                    break
                write(n)
        finally:
            written.set()

    def looking(place: int) -> None:
        while not written.is_set():
            look()
            looks[place] += 1
        look()

    for outcome in race(writing, lambda: looking(0), lambda: looking(1)):
        if outcome is not None:
            raise outcome
