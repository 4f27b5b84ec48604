"""Decisions about threads: given what was read, what to expect and what to write. No I/O.

A thread is a stream (kind "thread") and a small document (kind "thread_info") that says when it began and how it ended.
One document a space ("thread_count") counts the live ones; a stream ("thread_sweep") lists what a sweep ended that may
be repeated. All three change in one commit when a thread is born or
ends; an append to a live thread touches the stream, and the flag of whoever is to get the message (see `deliveries`).
That the stream exists is all it has to expect; where the length is limited, also that the thread was not born anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from strongroom.codec import pack
from strongroom.errors import BudgetExceeded
from strongroom.services.threads.deliveries import raise_flag
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

THREAD, INFO, COUNT, SWEEP = "thread", "thread_info", "thread_count", "thread_sweep"


class Info(Struct):
    """The stored form of a thread's document. `first` is where the index went on when the thread was last born."""

    state: State
    created_at: int
    first: int = 0
    ended_at: int | None = None


class Count(Struct):
    live: int = 0


class Birth(Struct, frozen=True):
    """Where a thread's index began when it was last born, and the version of the document that says so."""

    first: int = 0
    version: int = 0


class ThreadRead(Struct, frozen=True):
    """What a read said about one thread."""

    key: Key
    length: int
    info: Document | None

    @property
    def stored(self) -> Info | None:
        return None if self.info is None else msgspec.json.decode(self.info.value, type=Info)

    @property
    def birth(self) -> Birth:
        stored = self.stored
        return Birth() if stored is None or self.info is None else Birth(stored.first, self.info.version)


class Writes(Struct, frozen=True):
    """What to check and what to write. The appends come first, in the order asked for."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]


def count_key(space: str) -> Key:
    return Key(space, COUNT, "all")


def info_key(thread: Key) -> Key:
    return Key(thread.space, INFO, thread.id)


def questions(keys: Iterable[Key]) -> list[Question[Slice | Document | None]]:
    """Say what to read before planning for these threads; `found` reads the answers."""
    return [question for key in keys for question in (Range(key, 0, 0), Get(info_key(key)))]


def found(keys: Sequence[Key], answers: Sequence[Slice | Document | None]) -> list[ThreadRead]:
    results = []
    for place, key in enumerate(keys):
        here, info = answers[2 * place], answers[2 * place + 1]
        assert isinstance(here, Slice) and not isinstance(info, Slice)
        results.append(ThreadRead(key, here.length, info))
    return results


def plan_more(key: Key, entries: Sequence[Entry], birth: Birth, limits: Limits) -> Writes:
    """Plan an append to a thread that is alive, as far as is known. Its birth matters only where there is a limit."""
    most = limits.max_slots_per_thread
    if most is None:
        return Writes((Expect(key, EXISTS),), (Append(key, tuple(entries)), *_flags(key, entries)))
    return Writes(
        (Expect(key, EXISTS), Expect(info_key(key), birth.version)),
        # Slots from before the last birth do not count.
        (Append(key, tuple(entries), birth.first + most), *_flags(key, entries)),
    )


def plan_appends(
    batches: Sequence[tuple[ThreadRead, Sequence[Entry]]], count: Document | None, *, limits: Limits, now: int
) -> Writes:
    """Plan appends to any number of threads, bringing those to life that are not.

    Raises `BudgetExceeded` if that would make more threads than allowed.
    """
    expects: list[Expect] = []
    appends: list[Write] = []
    others: list[Write] = []
    births = 0
    for thread, entries in batches:
        birth = thread.birth
        more = plan_more(thread.key, entries, birth, limits)
        appends.append(more.writes[0])
        others += more.writes[1:]
        if thread.length:
            expects += more.expects
        else:
            # A thread that ended keeps the index it had reached: nobody can mistake the new slots for the old ones.
            births += 1
            expects += [Expect(thread.key, 0), Expect(info_key(thread.key), birth.version)]
            others.append(Put(info_key(thread.key), pack(Info("live", now, birth.first)), {"state": "live"}))
    if births:
        key = count_key(batches[0][0].key.space)
        live = _live(count) + births
        if limits.max_threads is not None and live > limits.max_threads:
            raise BudgetExceeded(
                f"{_live(count)} threads are live and {limits.max_threads} may be; nothing changed",
                limit=limits.max_threads,
                needed=live,
            )
        expects.append(unchanged(key, count))
        others.append(Put(key, pack(Count(live))))
    return Writes(tuple(expects), (*appends, *others))


def plan_end(thread: ThreadRead, count: Document | None, *, state: State, now: int) -> Writes:
    """Plan the end of a live thread, leaving a tombstone. Whoever appends meanwhile wins."""
    stored = thread.stored
    assert stored is not None and thread.length, "only what lives can end"
    tombstone = Info(state, stored.created_at, thread.length, now)
    key = count_key(thread.key.space)
    return Writes(
        (
            Expect(thread.key, thread.length),
            Expect(info_key(thread.key), thread.birth.version),
            unchanged(key, count),
        ),
        (
            Delete(thread.key),
            Put(info_key(thread.key), pack(tombstone), {"state": state}),
            Put(key, pack(Count(max(_live(count) - 1, 0)))),
        ),
    )


def _flags(key: Key, entries: Sequence[Entry]) -> list[Put]:
    receivers = dict.fromkeys(entry.receiver for entry in entries if entry.receiver is not None)
    return [raise_flag(key.space, thread_id=key.id, receiver=receiver) for receiver in receivers]


def _live(count: Document | None) -> int:
    return 0 if count is None else msgspec.json.decode(count.value, type=Count).live


def unchanged(key: Key, document: Document | None) -> Expect:
    """Expect a document to be as it was read."""
    return Expect(key, 0 if document is None else document.version)
