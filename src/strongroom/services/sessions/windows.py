"""Windows over a stored session: read what may be needed, then let `strongroom.tokens.choosing` decide.

What is read is bounded by the budget and by what is kept, not by the history: the newest messages as far as their
tokens fit, the kept ones by their notes, and for tool calls the few messages around them. Usually that is two round
trips. Only with a filter can it be more: what that turns down is read too, in chunks, until the budget is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from strongroom.scope import Scope
from strongroom.services.sessions.ids import locate
from strongroom.services.sessions.newest import Newest
from strongroom.services.sessions.records import PLAIN, opened
from strongroom.services.sessions.state import KEPT, downward, priority_kind, size, upward
from strongroom.services.sessions.values import Message
from strongroom.services.sessions.view import View, at, learn, missing, stored_at, view_of
from strongroom.services.sessions.writes import PINNED
from strongroom.store import Question, Range, Record, Slice, Tail
from strongroom.tokens import Tokenizer
from strongroom.tokens.choosing import (
    HIGHEST_PRIORITY,
    PAIR_REACH,
    Choice,
    Item,
    check_kept,
    choose_by_priority,
    choose_recent,
    choose_relevant,
    everything,
    item,
    units,
    with_partners,
    with_priority,
)
from strongroom.tokens.counting import required
from strongroom.tokens.windows import Frame, History, Placed, Window, assemble

CHUNK = 64
NOTES = 32  # of kept messages, read at once: few enough for an event loop to read them itself

Filter = Callable[[Mapping[str, Any]], bool]


class Reading:
    """Messages of one view as they become known, filtered as they come."""

    def __init__(self, view: View, where: Filter | None) -> None:
        self.view = view
        self.where = where
        self.stretches = view.stretches
        self.messages: dict[int, Message] = {}
        self.items: dict[int, Item] = {}
        self.tokens: dict[int, int] = {}
        self.filtered: set[int] = set()

    def take(self, records: Iterable[Record]) -> None:
        """Make these records known, unless they are hidden or filtered out."""
        low, high = self.stretches[-1] if self.stretches else (0, 0)
        known, shows = self.tokens, self.view.shows
        new = [one for one in records if one.index not in known and (low <= one.index < high or shows(one.index))]
        for record, message in zip(new, self.view.messages(new), strict=True):
            index, tokens = record.index, message.tokens
            known[index] = tokens
            if self.where is not None and not self.where(message):
                self.filtered.add(index)
            else:
                self.messages[index] = message
                plain = record.body == PLAIN  # nothing to call, answer or prefer
                self.items[index] = Item(index, tokens) if plain else item(message, index, tokens)

    async def read_near(self, indexes: Iterable[int]) -> None:
        """Make known what may belong to the tool calls of these messages."""
        wanted = {
            near
            for index in indexes
            if self.items[index].calls or self.items[index].answers
            for near in range(max(index - PAIR_REACH, 0), index + PAIR_REACH + 1)
        }
        self.take((await at(self.view, wanted.difference(self.tokens))).values())

    async def back(
        self, room: int, kept: frozenset[int], halves: set[int], newest: Slice, max_weight: int
    ) -> tuple[list[Item], bool]:
        """Return the newest messages that cost at most `room`, and whether they go back to the beginning.

        The newest that is not kept is among them even if it does not fit. Those in `kept` cost nothing, those in
        `halves` are passed over. `newest` is what a first `Tail` of `max_weight` returned.
        """
        free = kept | halves
        # Weights are of use only if the tokenizer in force counted them all and no message is filtered out.
        by_weight = self.where is None and not self.view.mixed
        run: list[Item] = []
        begun = False  # whether the newest that costs anything is in
        for low, high in reversed(self.stretches):
            edge = high
            while edge > low:
                limit = room + sum(self.tokens[index] for index in free if low <= index < edge)
                if edge == self.view.length and newest.records and limit <= max_weight:
                    part = newest
                else:
                    part = await self._tail(edge, edge - low, limit if by_weight else None)
                if not part.records and not begun:
                    part = await self._tail(edge, 1, None)
                found = [record for record in part.records if record.index >= low]
                if not found and not (by_weight and begun):
                    raise missing(self.view.id)  # no limit, and nothing there: it was deleted meanwhile
                self.take(found)
                for record in reversed(found):
                    one = self.items.get(record.index)
                    if one is None:
                        continue
                    if one.position not in free:
                        room -= one.tokens
                        if room < 0 and begun:
                            break
                        begun = True
                    if one.position not in halves:
                        run.append(one)
                edge = found[0].index if found else edge
                # A tail that its limit stopped had everything in it that could still fit.
                if room < 0 or (by_weight and begun and edge > low):
                    return run[::-1], False
        return run[::-1], True

    async def _tail(self, before: int, count: int, max_weight: int | None) -> Slice:
        count = count if max_weight is not None else min(count, CHUNK)
        found = await self.view.scope.get(Tail(self.view.stream, count, max_weight, before))
        await learn(self.view, found.records)
        return found


class Gathered(Struct, frozen=True):
    """What was read for a window, and what follows from it: the kept messages, the room left beside them, the newest.

    `whole` says that the newest messages go back to the beginning. `beside` is what else was asked of the snapshot.
    """

    reading: Reading
    framing: Frame
    recent: list[Item]
    kept: frozenset[int]
    room: int
    reasons: dict[int, str]
    whole: bool
    beside: list[Any] = []

    def history(self) -> History:
        """Tell about the whole session; what was not read is projected from what was."""
        stretches = self.reading.stretches
        total, read = size(stretches), len(self.reading.tokens)
        tokens = sum(self.reading.tokens.values())
        if total > read > 0:
            tokens += (total - read) * tokens // read
        return History(
            total, tokens, total <= read, lambda start: upward(stretches, start), lambda: downward(stretches)
        )

    def placed(self, positions: Iterable[int]) -> list[Placed]:
        messages, items = self.reading.messages, [self.reading.items[index] for index in positions]
        return [
            Placed(one.position, messages[one.position], one.tokens, not one.calls and not one.answers) for one in items
        ]

    def everything(self) -> Window | None:
        """The whole session, if it fits."""
        choice = everything(self.reading.items.values(), self.framing.room) if self.whole else None
        return None if choice is None else self.window(Choice(choice.positions, {}))

    def window(self, choice: Choice, *, fallback: str | None = None) -> Window:
        """Assemble the window of a choice."""
        reasons = self.reasons | dict.fromkeys(self.reading.filtered, "filtered") | choice.reasons
        return assemble(
            self.framing, self.placed(choice.positions), self.kept, self.history(), reasons, fallback=fallback
        )


async def gather(
    scope: Scope,
    session_id: str,
    end: Newest,
    choose: Callable[[str], Tokenizer],
    framed: Callable[[Tokenizer], Frame],
    max_tokens: int,
    where: Filter | None,
    beside: Sequence[Question[Any]] = (),
) -> Gathered:
    """Read what a window of this budget may need. `framed` makes the frame once the tokenizer is known."""
    kept_notes = Tail(scope.key(KEPT, session_id), NOTES)
    document, newest, (notes, *others) = await end.read(scope, session_id, max_tokens, kept_notes, *beside)
    view = view_of(scope, session_id, document, newest, choose)
    await learn(view, newest.records)
    framing = framed(required(view.tokenizer))
    reading = Reading(view, where)
    asked = await _kept(reading, newest, notes, framing.keep_roles)
    await reading.read_near(asked)
    together, halves = with_partners(asked, reading.items)
    kept = frozenset(together)
    room = framing.room - check_kept((reading.items[index] for index in kept), framing.room)
    recent, whole = await reading.back(room, kept, halves, newest, max_tokens)
    return Gathered(reading, framing, recent, kept, room, dict.fromkeys(halves, "tool_pair"), whole, others)


def recent_window(gathered: Gathered, *, must: bool = False, fallback: str | None = None) -> Window:
    """The newest messages that fit."""
    choice = choose_recent(gathered.recent, gathered.kept, gathered.room, must=must)
    return gathered.window(choice, fallback=fallback)


async def priority_window(gathered: Gathered) -> Window:
    """The newest message, then by priority. Each level has a stream of notes, read from its end while they fit."""
    reading = gathered.reading
    found: set[int] = set()
    for level in range(HIGHEST_PRIORITY, 0, -1):
        found.update(await _noted(reading, priority_kind(level), gathered.room))
    recent = {one.position for one in gathered.recent}
    await reading.read_near(recent | found)
    known = [one for one in _in_order(reading) if one.position not in gathered.reasons]
    history = with_priority(known, recent, gathered.kept)
    return gathered.window(choose_by_priority(history, gathered.kept, gathered.room))


async def relevant_window(gathered: Gathered, hits: Sequence[int]) -> Window:
    """The newest messages, and those among `hits` (best first) that fit beside them."""
    reading = gathered.reading
    reading.take((await at(reading.view, hits)).values())
    await reading.read_near(index for index in hits if index in reading.items)
    home = {one.position: group for group in units(_in_order(reading), gathered.kept) for one in group}
    groups = [home[index] for index in hits if index in home]
    return gathered.window(choose_relevant(gathered.recent, groups, gathered.kept, gathered.room))


async def _kept(reading: Reading, newest: Slice, notes: Slice, roles: Sequence[str]) -> list[int]:
    """Make the kept messages known: those noted when they were written, and those pinned later."""
    view = reading.view
    start = view.state.kept_from
    records = list(notes.records)
    if records and records[0].index > start:
        older = await view.scope.get(Range(view.side(KEPT), start, records[0].index))
        records = [*older.records, *records]
    wanted = [one for one in records if one.index >= start and (one.type == PINNED or one.type in roles)]
    found = await _noted_records(view, wanted, {record.index: record for record in newest.records})
    found |= await at(view, set(view.state.pins).difference(found))
    reading.take(found.values())
    return [index for index in found if index in reading.items]


async def _noted(reading: Reading, kind: str, room: int) -> list[int]:
    """Make the newest messages noted in a side stream known, until their tokens pass `room`."""
    view = reading.view
    before: int | None = None
    found: list[int] = []
    while room >= 0:
        part = await view.scope.get(Tail(view.side(kind), CHUNK, None, before))
        if not part.records:
            break
        before = part.records[0].index
        records = await _noted_records(view, part.records, {})
        reading.take(records.values())
        new = [index for index in records if index in reading.items]
        found += new
        room -= sum(reading.tokens[index] for index in new)
    return found


async def _noted_records(view: View, notes: Sequence[Record], known: dict[int, Record]) -> dict[int, Record]:
    """Return the visible records that notes are about. Each says where its record was expected, and its mark."""
    wanted: list[tuple[int, str, int]] = [(*note.body.load(), note.at) for note in notes if note.body is not None]
    if not wanted:
        return {}
    known = known | await stored_at(view, {hint for hint, _, _ in wanted}.difference(known))
    found: dict[int, Record] = {}
    for hint, mark, time in wanted:
        record = known.get(hint)
        if record is None or _mark(record) != mark:
            record = await _marked(view, hint, mark, time)
        if record is not None and view.shows(record.index):
            found[record.index] = record
    return found


async def _marked(view: View, hint: int, mark: str, time: int) -> Record | None:
    """Return the record of that mark, written at that time, at or after `hint`; None if it was erased.

    An erased record has lost its mark, but not its time. What was appended at once stands together and has one time:
    if some of that was erased, and no mark there fits, it is not further on.
    """
    erased = False

    def ends(record: Record) -> bool:
        nonlocal erased
        erased = erased or (record.body is None and record.at == time)
        return _mark(record) == mark or (erased and record.at != time)

    record = await locate(view, hint, ends)
    return record if record is not None and _mark(record) == mark else None


def _mark(record: Record) -> str | None:
    return opened(record)[1].get("mark")


def _in_order(reading: Reading) -> list[Item]:
    return [reading.items[index] for index in sorted(reading.items)]
