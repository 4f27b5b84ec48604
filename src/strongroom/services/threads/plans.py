"""Decisions about threads: given what was read, what to expect and what to write. No I/O.

A thread is a stream (kind "thread") and a small document (kind "thread_info") that says when it began and how it ended.
One document a space ("thread_count") counts the live ones. All three change in one commit when a thread is born or
ends; an append to a live thread touches the stream alone, and "the stream exists" is all it has to expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from strongroom.codec import pack
from strongroom.errors import BudgetExceeded, NotFound
from strongroom.services.threads.values import Limits, State
from strongroom.store import (
    EXISTS,
    Append,
    Delete,
    Document,
    Entry,
    Expect,
    Get,
    Key,
    Put,
    Question,
    Range,
    Slice,
    Write,
)

THREAD, INFO, COUNT = "thread", "thread_info", "thread_count"


class Info(Struct):
    """The stored form of a thread's document. `first` is where the index went on when the thread was last born."""

    state: State
    created_at: int
    first: int = 0
    ended_at: int | None = None


class Count(Struct):
    live: int = 0


class Found(Struct, frozen=True):
    """What a read said about one thread."""

    key: Key
    length: int
    info: Document | None

    @property
    def stored(self) -> Info | None:
        return None if self.info is None else msgspec.json.decode(self.info.value, type=Info)

    @property
    def first(self) -> int:
        stored = self.stored
        return 0 if stored is None else stored.first


class Plan(Struct, frozen=True):
    """What to check and what to write. The appends come first, in the order asked for."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]


def count_key(space: str) -> Key:
    return Key(space, COUNT, "all")


def info_key(thread: Key) -> Key:
    return Key(thread.space, INFO, thread.id)


def questions(keys: Iterable[Key]) -> list[Question]:
    """Say what to read before planning for these threads; `found` reads the answers."""
    return [question for key in keys for question in (Range(key, 0, 0), Get(info_key(key)))]


def found(keys: Sequence[Key], answers: Sequence[Slice | Document | None]) -> list[Found]:
    results = []
    for place, key in enumerate(keys):
        here, info = answers[2 * place], answers[2 * place + 1]
        assert isinstance(here, Slice) and not isinstance(info, Slice)
        results.append(Found(key, here.length, info))
    return results


def plan_appends(
    batches: Sequence[tuple[Found, Sequence[Entry]]], count: Document | None, *, limits: Limits, now: int
) -> Plan:
    """Plan appends to any number of threads, bringing those to life that are not.

    Raises `BudgetExceeded` if that would make more threads than allowed.
    """
    expects: list[Expect] = []
    writes: list[Write] = []
    births: list[Write] = []
    for thread, entries in batches:
        first = thread.first
        if thread.length:
            expects.append(Expect(thread.key, EXISTS))
        else:
            # A thread that ended keeps the index it had reached: nobody can mistake the new slots for the old ones.
            expects += [Expect(thread.key, 0), _unchanged(info_key(thread.key), thread.info)]
            births.append(Put(info_key(thread.key), pack(Info("live", now, first)), {"state": "live"}))
        writes.append(Append(thread.key, tuple(entries), ceiling(first, limits)))
    if births:
        key = count_key(batches[0][0].key.space)
        live = _live(count) + len(births)
        if limits.max_threads is not None and live > limits.max_threads:
            raise BudgetExceeded(
                f"{_live(count)} threads are live and {limits.max_threads} may be; nothing changed",
                limit=limits.max_threads,
                needed=live,
            )
        expects.append(_unchanged(key, count))
        writes += [*births, Put(key, pack(Count(live)))]
    return Plan(tuple(expects), tuple(writes))


def plan_end(thread: Found, count: Document | None, *, state: State, now: int) -> Plan:
    """Plan the end of a live thread, leaving a tombstone. Whoever appends meanwhile wins."""
    stored = thread.stored
    if stored is None or not thread.length:
        raise NotFound(f"no thread is called {thread.key.id!r}; nothing changed", kind=THREAD, id=thread.key.id)
    tombstone = Info(state, stored.created_at, thread.length, now)
    key = count_key(thread.key.space)
    return Plan(
        (Expect(thread.key, thread.length), _unchanged(info_key(thread.key), thread.info), _unchanged(key, count)),
        (
            Delete(thread.key),
            Put(info_key(thread.key), pack(tombstone), {"state": state}),
            Put(key, pack(Count(max(_live(count) - 1, 0)))),
        ),
    )


def ceiling(first: int, limits: Limits) -> int | None:
    """Return the length a stream may reach: slots from before the thread's last birth do not count."""
    return None if limits.max_slots_per_thread is None else first + limits.max_slots_per_thread


def _live(count: Document | None) -> int:
    return 0 if count is None else msgspec.json.decode(count.value, type=Count).live


def _unchanged(key: Key, document: Document | None) -> Expect:
    return Expect(key, 0 if document is None else document.version)
