"""Checking a run: its ledger from the first event to the last, and then all that is kept beside it.

The first event that is wrong is named; where the ledger is as it was recorded, the part of the run that is not.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import ENVELOPE, encode, parse
from strongroom.errors import BudgetExceeded, Damaged, InvalidInput, StrongroomError
from strongroom.files import add_line, read_lines
from strongroom.services.packs import signing
from strongroom.services.runs import artifacts
from strongroom.services.runs.episodes import TYPE as EPISODE
from strongroom.services.runs.history import Story, episode_digest
from strongroom.services.runs.ledger import GENESIS, PAGE, Tombstone, body_of, commitment, tombstone
from strongroom.services.runs.own_state import differs
from strongroom.services.runs.state import Ref, load_of, tags_of
from strongroom.store import Document, Get, Range, Record, Slice, Tail
from strongroom.values import Anchor, Head, Verification, iso, moment

ERASED = "ERASED"
EPISODES_PAGE = 16
PLAIN = (0, None, None)


class Tombstones:
    """What ERASED events say about the events they erased. Looked for only when an erased event is met."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref
        self._places: list[tuple[int, int, int]] | None = None  # first index, end, index of the ERASED event
        self._loaded: tuple[int, list[Tombstone]] = (-1, [])

    async def get(self, index: int) -> Tombstone | None:
        if self._places is None:
            self._places = [place async for place in self._scan(index)]
        for first, end, place in self._places:
            if first <= index < end:
                if self._loaded[0] != place:
                    self._loaded = (place, await self._load(place))
                return self._loaded[1][index - first]
        return None

    async def _scan(self, start: int) -> AsyncIterator[tuple[int, int, int]]:
        while True:
            _, length, found = await page(self._ref, start)
            for record in found:
                if isinstance(record, Record) and record.type == ERASED and record.body is not None:
                    payload = body_of(record.body).payload
                    first, last, told = payload["first"], payload["last"], payload["tombstones"]
                    if len(told) == last - first + 1:
                        yield first - 1, last, record.index
            start += len(found) or PAGE
            if start >= length:
                return

    async def _load(self, place: int) -> list[Tombstone]:
        found = await self._ref.scope.get(Range(self._ref.ledger, place, place + 1))
        told = found.records[0].body
        return [] if told is None else msgspec.convert(body_of(told).payload["tombstones"], list[Tombstone])


async def verify(ref: Ref, head: Head | None = None, sealed: Kept | None = None) -> Verification:
    """Recompute every commitment and the chain; then hold everything else of the run against what the ledger tells.

    `head` and `sealed` are what was kept elsewhere: the ledger must have been each of them.
    """
    found = await _verify(ref, () if head is None else (head,), sealed)
    if sealed is None:
        return found
    if found.ok and sealed.problem:
        found = replace(found, ok=False, field="anchors", reason=sealed.problem)
    return replace(found, anchored=max((one.length for one in sealed.heads), default=0), note=sealed.note)


async def _verify(ref: Ref, heads: Sequence[Head], sealed: Kept | None) -> Verification:
    kept: dict[int, set[str]] = {}
    for head in (*heads, *(sealed.heads if sealed else ())):
        kept.setdefault(head.length, set()).add(head.chain)
    walk = Walk(ref, kept)
    while not await walk.on():
        field, problem = await walk.beside()
        # What is beside a ledger that has grown meanwhile is told further on in it.
        if not problem or not await walk.grown():
            return walk.result(field, problem)
    return walk.result("ledger", walk.problem, walk.checked + 1)


class Walk:
    """A walk over a ledger, as far as it is as it was recorded."""

    def __init__(self, ref: Ref, kept: Mapping[int, set[str]]) -> None:
        self._ref, self._kept = ref, kept
        self._tombstones, self._story = Tombstones(ref), Story()
        self._chain = GENESIS
        self._document: Document | None = None
        self.checked = 0
        self.problem = ""

    async def on(self) -> str:
        """Go on to the end of the ledger; return what is wrong with the next event, or nothing."""
        while not self.problem:
            self._document, length, found = await page(self._ref, self.checked)
            if not found:
                self.problem = self._at_the_end(length)
                break
            for record in found:
                self.problem = await _problem(self._ref, record, self.checked, self._chain, self._tombstones)
                if not self.problem:
                    assert isinstance(record, Record)
                    self.problem = self._heard(record)
                if self.problem:
                    break
        return self.problem

    def _heard(self, record: Record) -> str:
        assert record.commitment is not None
        chain = sha256(self._chain + record.commitment).digest()
        if self._kept.get(self.checked + 1, {chain.hex()}) != {chain.hex()}:
            return "this is not the ledger whose head was kept: it was rewritten here or before"
        try:
            self._story.hear(record)
        except ValueError as problem:
            return str(problem)
        self._chain = chain
        self.checked += 1
        return ""

    def _at_the_end(self, length: int) -> str:
        longest = max(self._kept, default=0)
        if self.checked < length or not self.checked:
            return "an event is missing here"
        if longest > self.checked:
            return f"the ledger ends here, and was {longest} events long when its head was kept"
        return ""

    async def grown(self) -> bool:
        """Return whether there are more events by now."""
        return (await self._ref.scope.get(Range(self._ref.ledger, limit=0))).length > self.checked

    async def beside(self) -> tuple[str, str]:
        """Return which part of the run is not what the ledger tells, and why; nothing if all of it is."""
        try:
            state = load_of(self._ref, self._document)
        except StrongroomError as problem:
            return "document", str(problem)
        assert self._document is not None
        story = self._story
        if story.state is None or differs(story.state, state.working_set):
            return "working_set", "the working set is not what the ledger leads to"
        if story.config != state.config:
            return "config", "the configuration is not the one that the ledger tells"
        if story.user_id != state.user_id:
            return "user_id", "the run's owner is not the one that the ledger tells"
        if state.created != story.created:
            return "created_at", "the run did not begin when its document says"
        if state.mark.floor > story.whole or self._document.tags != tags_of(state):
            return "document", "what the document says beside the working set does not fit the ledger"
        wrong = await _wrong_episode(self._ref, story)
        if wrong:
            return "episodes", wrong
        return "artifacts", await artifacts.wrong(self._ref, story.attached)

    def result(self, field: str, problem: str, first_bad: int | None = None) -> Verification:
        return Verification(
            ok=not problem,
            checked=self.checked,
            first_bad=first_bad,
            reason=problem,
            field=field if problem else "",
            head=Head(self.checked, self._chain.hex()),
        )


async def _wrong_episode(ref: Ref, story: Story) -> str:
    digests: list[str] = []
    place = 0
    try:
        while True:
            found = await ref.scope.get(Range(ref.episodes, place, None, EPISODES_PAGE))
            for record in found.records:
                if (
                    record.body is None
                    or record.type != EPISODE
                    or (record.weight, record.text, record.sender) != PLAIN
                ):
                    return f"episode {len(digests) + 1} is not one that was recorded"
                digests.append(episode_digest(record.at, record.body))
                place = record.index + 1
            if not found.records or place >= found.length:
                break
    except Damaged as damage:
        return f"an episode cannot be read ({damage})"
    wrong = story.wrong_episode(digests)
    return "" if wrong is None else f"episode {wrong + 1} is not the one that its milestone tells of, or one is missing"


async def page(ref: Ref, start: int) -> tuple[Document | None, int, list[Record | Damaged]]:
    """Return the run document, the ledger's length and a page of its records, from one snapshot.

    A record that the store itself finds damaged stands there as its error, and ends the page.
    """
    scope = ref.scope
    try:
        document, found = await _read(ref, start)
        return document, found.length, list(found.records)
    except Damaged:
        document, found = await scope.read(Get(ref.key), Range(ref.ledger, limit=0))
    records: list[Record | Damaged] = []
    for index in range(start, min(start + PAGE, found.length)):
        try:
            one = await scope.get(Range(ref.ledger, index, index + 1))
        except Damaged as damage:
            return document, found.length, [*records, damage]
        records += one.records
    return document, found.length, records


async def _read(ref: Ref, start: int, count: int = PAGE) -> tuple[Document | None, Slice]:
    try:
        return await ref.scope.read(Get(ref.key), Range(ref.ledger, start, start + count))
    except BudgetExceeded:  # they are large: see `Scope.some`
        if count == 1:
            raise
        return await _read(ref, start, max(1, count // 4))


async def _problem(ref: Ref, record: Record | Damaged, index: int, chain: bytes, tombstones: Tombstones) -> str:
    """Return what is wrong with a record, or nothing."""
    if isinstance(record, Damaged):
        return str(record)
    if record.index != index:
        return "an event is missing here"
    if record.weight or record.text is not None or record.sender is not None or record.receiver is not None:
        return "the record has columns no event has"
    if record.commitment is None or record.chain != sha256(chain + record.commitment).digest():
        return "the event does not continue the chain"
    if record.body is None:
        known = await tombstones.get(index)
        if known is None:
            return "the content is gone and no erasure was recorded"
    else:
        known = _recomputed(record)
        if known is None:
            return "the content is not readable as an event"
    if commitment(ref.identity, record.type, record.at, known) != record.commitment:
        return "the event is not the one that was recorded"
    return ""


def _recomputed(record: Record) -> Tombstone | None:
    assert record.body is not None
    try:
        body = body_of(record.body)
        # One content has one spelling; anything else was not written by us.
        return tombstone(body) if encode(msgspec.to_builtins(body), depth=-ENVELOPE) == record.body else None
    except (msgspec.DecodeError, msgspec.ValidationError, StrongroomError, ValueError):
        return None


# ---- anchors --------------------------------------------------------------------------------------------------------
#
# A hash chain has no key: somebody who can write the whole file can write a whole new chain. An anchor is the head of
# a ledger, on a line of a file of the user's choice and perhaps signed; a rewritten chain does not go through it.
#
# | what was done | found with anchors |
# |---|---|
# | an event up to the anchored length was changed, taken out, or put in | yes |
# | the end of the ledger was cut off, below an anchored length | yes |
# | events were added after the last anchor by somebody with the right to write | no: that is what writing is |
# | events after the last anchor were rewritten | no: anchor more often |
# | lines were taken out of the file of anchors | no: keep it where it can only grow |
# | a line was changed or invented, and the key was not stolen | yes, if `public_key` is given |


FilePath = str | os.PathLike[str]


class Seal(Struct):
    """Where the heads of a context's runs go whenever a milestone is made (nowhere, unless somebody says so)."""

    path: FilePath | None = None
    signing_key: bytes | None = None


class Kept(Struct, frozen=True):
    """What a file of anchors says of one run: heads, or why it cannot be relied on; and the lines left out."""

    heads: tuple[Head, ...] = ()
    problem: str = ""
    note: str = ""


async def head(ref: Ref) -> Head:
    """Return a ledger's length and hash."""
    tail = await ref.scope.get(Tail(ref.ledger, 1))
    chain = tail.records[0].chain if tail.records else None
    return Head(tail.length, (chain or GENESIS).hex())


async def anchor(ref: Ref, path: FilePath | None, signing_key: bytes | None) -> Anchor:
    """Seal a ledger's head, and add it to a file; it is on disk when this returns."""
    now = await head(ref)
    told = {
        "space": ref.scope.space,
        "run": ref.run_id,
        "length": now.length,
        "chain": now.chain,
        "time": iso(moment(ref.scope.clock())),
    }
    signature = None if signing_key is None else signing.sign(told, signing_key, signing.ANCHOR)
    line = encode({**told, "signature": signature})
    if path is not None:
        add_line(path, line)
    return msgspec.json.decode(line, type=Anchor)


def kept(ref: Ref, anchors: FilePath | Sequence[Anchor], public_key: bytes | None) -> Kept:
    """Return what anchors say of a run."""
    known, note = _from_file(anchors) if isinstance(anchors, (str, os.PathLike)) else (tuple(anchors), "")
    if not all(isinstance(one, Anchor) for one in known):
        raise InvalidInput("anchors must be a path, or a list of what run.anchor returned")
    own = [one for one in known if (one.space, one.run) == (ref.scope.space, ref.run_id)]
    for one in own:
        told = msgspec.to_builtins(one)
        if told["signature"] is None:
            del told["signature"]
        wrong = signing.problem(told, public_key, signing.ANCHOR)
        if wrong:
            return Kept(problem=f"the anchor of length {one.length} cannot be relied on: {wrong}", note=note)
    if not own:
        return Kept(problem="no anchor speaks of this run", note=note)
    return Kept(tuple(Head(one.length, one.chain) for one in own), note=note)


def _from_file(path: FilePath) -> tuple[tuple[Anchor, ...], str]:
    """Return the anchors in a file, and which lines are none: what a process that was killed left of its last one."""
    found, torn = [], []
    for number, line in enumerate(read_lines(path), 1):
        try:
            found.append(msgspec.convert(parse(line), Anchor))
        except (InvalidInput, msgspec.ValidationError):
            torn.append(str(number))
    return tuple(found), f"line {', '.join(torn[:10])} of the anchors is torn and was left out" if torn else ""
