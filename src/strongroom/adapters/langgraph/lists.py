"""A list of messages as ranges of an append-only stream. Pure.

A channel of messages grows, and now and then something is taken out, replaced or put elsewhere. Each message is stored
once; a checkpoint says in which places of the stream its messages stand. So a list that grew by one costs one message,
whether it has ten or ten thousand, and a fork shares what it has in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from strongroom.adapters.langgraph.messages import DEFAULTS, Pair, packed, unpacked
from strongroom.codec import Json, encode
from strongroom.services.sessions.records import opened
from strongroom.store import Record

MOST_RANGES = 32  # a list in more pieces than this is stored anew

Ranges = list[list[int]]

_extra = attrgetter("__pydantic_extra__")  # what `model_extra` is, in a third of its time


class Item:
    """A stored message. What is given out is made anew each time; what is compared with never leaves."""

    __slots__ = ("_mine", "_stored")

    def __init__(self, stored: Json | Record) -> None:
        self._stored = stored
        self._mine: BaseMessage | None = None

    @property
    def size(self) -> int:
        stored = self._stored
        return len(stored) if not isinstance(stored, Record) else len(stored.body or b"") + len(stored.text or "")

    def pair(self) -> Pair:
        """Return the message as a session has it, and its sidecar."""
        if isinstance(self._stored, Record):
            said, note = opened(self._stored)
            return said, note.get("sidecar")
        said, sidecar = self._stored.load()
        return said, sidecar

    def fresh(self, serde: SerializerProtocol) -> BaseMessage:
        return unpacked(*self.pair(), serde)

    def mine(self, serde: SerializerProtocol) -> BaseMessage:
        if self._mine is None:
            self._mine = self.fresh(serde)
        return self._mine

    def is_same(self, message: Any, serde: SerializerProtocol) -> bool:
        """Tell whether a message is still what was stored: whoever has it may have changed it in place."""
        mine = self.mine(serde)
        if type(message) is not type(mine):
            return False
        # A list is compared whole at each step: this says what `==` does of these classes, in a fifth of the time.
        if type(mine) in DEFAULTS and vars(message) == vars(mine) and not message.model_extra:
            return True
        return bool(message == mine)


class Known(Struct, frozen=True):
    """A list as it is stored: which items stand where, how long their stream is, and how many bytes the items have.

    A list is compared whole at each step, so the classes and fields of its messages are held ready, as far as they were
    looked at.
    """

    ranges: Ranges
    items: Sequence[Item]
    length: int
    kinds: Sequence[type] = ()
    fields: Sequence[dict[str, Any]] = ()
    size: int = 0


class Change(Struct, frozen=True):
    """What storing a list comes to: what is to be appended, and what is known after that."""

    new: Sequence[Pair]
    known: Known


def changed(known: Known, value: Sequence[BaseMessage], serde: SerializerProtocol) -> Change:
    """Find the places of messages that are stored already, and give the others the next ones."""
    late = [item.mine(serde) for item in known.items[len(known.kinds) :]]
    kinds, fields = [*known.kinds, *map(type, late)], [*known.fields, *map(vars, late)]
    kept = _kept(known.items, value, kinds, fields, serde)
    left: dict[str | None, list[tuple[int, Item]]] = {}
    if kept < len(known.items):  # else it has only grown
        for place, item in islice(zip(places_of(known.ranges), known.items, strict=True), kept, None):
            left.setdefault(item.mine(serde).id, []).append((place, item))
    found, items, new = beginning(known.ranges, kept), list(known.items[:kept]), list[Pair]()
    for message in value[kept:]:
        same = next((one for one in left.get(message.id, ()) if one[1].is_same(message, serde)), None)
        if same is None:
            new.append(packed(message, serde))
            same = known.length + len(new) - 1, Item(encode(new[-1]))
        found.append([same[0], same[0] + 1])
        items.append(same[1])
    ranges = joined(found)
    if len(ranges) > MOST_RANGES:
        return changed(Known([], (), known.length), value, serde)
    old = known.size if kept == len(known.items) else sum([item.size for item in items[:kept]])
    size = old + sum([item.size for item in items[kept:]])
    return Change(new, Known(ranges, items, known.length + len(new), kinds[:kept], fields[:kept], size))


def _kept(
    items: Sequence[Item],
    value: Sequence[BaseMessage],
    kinds: list[type],
    fields: list[dict[str, Any]],
    serde: SerializerProtocol,
) -> int:
    """Return how many messages at the beginning are still the stored ones."""
    begin = value[: len(items)]
    # As a rule a list has only grown: then all are compared at once, in a fifth of the time of one by one.
    if (
        DEFAULTS.keys() >= set(kinds)
        and list(map(type, begin)) == kinds
        and list(map(vars, begin)) == fields
        and not any(map(_extra, begin))
    ):
        return len(items)
    for kept, (message, item) in enumerate(zip(begin, items, strict=False)):
        if not item.is_same(message, serde):
            return kept
    return len(begin)


def spelled(places: Iterable[int]) -> Ranges:
    """Return places as ranges."""
    return joined([place, place + 1] for place in places)


def joined(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return the same places in the same order, in as few ranges as possible."""
    found: Ranges = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1][1] = stop
        else:
            found.append([start, stop])
    return found


def beginning(ranges: Ranges, count: int) -> Ranges:
    """Return the ranges of the first so many places."""
    found: Ranges = []
    for start, stop in ranges:
        if count <= 0:
            break
        found.append([start, min(stop, start + count)])
        count -= stop - start
    return found


def places_of(ranges: Ranges) -> Iterator[int]:
    for start, stop in ranges:
        yield from range(start, stop)


def outside(kept: Iterable[int], start: int, stop: int) -> Ranges:
    """Return what lies between `start` and `stop` and is not among the kept places."""
    found, edge = list[list[int]](), start
    for place in sorted(set(kept)):
        if start <= place < stop:
            if edge < place:
                found.append([edge, place])
            edge = place + 1
    return [*found, [edge, stop]] if edge < stop else found
