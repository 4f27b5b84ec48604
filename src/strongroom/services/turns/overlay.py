"""A store that shows what a turn has planned so far, and keeps it instead of writing it.

Theory of operation
-------------------
Each part of a turn is made by its ordinary service, over this store. Reads are answered from what earlier parts
planned, then from the store below. A commit is judged as far as its outcome can be known here, and then its
expectations and writes join those of the parts before it. At the end all of them are one commit.

Rules
-----
1. Nothing is written. A turn that is dropped leaves no trace.
2. What a part expects of something that no earlier part touched is expected by the one commit too. What it expects of
   something that an earlier part wrote holds here, and then the commit expects what that was before the turn.
3. Appends that expect nothing still expect nothing, and the lengths told to a part are predictions: what a turn answers
   is made from the receipt of the commit. Only if a part reads what an earlier one wrote must that come out as it was
   shown, so then the commit expects its place. A second read may be newer than the first; that is why.
4. A race that the commit lost is told to the part it concerns (`moved`), as the store would have told it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from strongroom.bridge import can_search
from strongroom.codec import Json
from strongroom.errors import Conflict, InvalidInput
from strongroom.store import (
    EXISTS,
    Answer,
    AnyQuestion,
    Append,
    AsyncStore,
    Commit,
    Delete,
    Document,
    Durability,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Page,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    Tail,
    Write,
    check_expectation,
)


class Span(Struct, frozen=True, array_like=True):
    """Which writes of the one commit are a part's, and what its own receipt is to tell besides their versions."""

    start: int
    stop: int
    answer: Json | None


class Pending(Struct):
    """What a turn has planned for one key: how often a document was put and what it is then, or records to append."""

    puts: int = 0
    document: Put | None = None
    entries: list[Entry] = []


class Overlay:
    """An async store over another one."""

    only_plans = True  # nothing that it is told to commit is done yet: see `operations.committed`

    def __init__(self, base: AsyncStore) -> None:
        self._base = base
        self.needs_no_loop: bool = getattr(base, "needs_no_loop", False)
        self.begin()
        if can_search(base):
            self.search = base.search  # type: ignore[attr-defined]
        if hasattr(base, "perform"):
            self.perform, self.new_id = base.perform, base.new_id  # type: ignore[attr-defined]

    def begin(self, ids: Iterable[str] = (), moved: Conflict | None = None) -> None:
        """Drop what was planned. `ids` are of the parts' own commits: nobody below can know them. `moved` is the race
        that the last attempt lost."""
        self._moved = moved
        self._ahead: dict[AnyQuestion, Answer] = {}
        # Versions and lengths in the store below, as far as they were seen, or must be for the commit to hold.
        self._before: dict[Key, int] = {}
        self._pending: dict[Key, Pending] = {}
        self._expects: dict[Key, Expect] = {}
        self._ids = frozenset(ids)
        self.writes: list[Write] = []
        self.spans: dict[str, Span] = {}

    @property
    def durability(self) -> Durability:
        return self._base.durability

    @property
    def expects(self) -> tuple[Expect, ...]:
        """What the one commit expects."""
        return tuple(self._expects.values())

    async def close(self) -> None:
        """Nothing is held here."""

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def look_ahead(self, questions: Sequence[AnyQuestion]) -> None:
        """Ask at once what the parts are going to ask one by one."""
        asked = [*dict.fromkeys(questions)]
        if asked:
            self._ahead.update(zip(asked, await self._ask(asked), strict=True))

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if len(questions) == 1:
            question = questions[0]
            if isinstance(question, ReceiptOf) and question.id in self._ids:
                return [None]
            if isinstance(question, Range) and question in self._ahead:
                # Whoever asks twice wants to know what has changed.
                return [self._shown(question, self._ahead.pop(question))]
        answers = await self._ask(questions)
        return [self._shown(question, answer) for question, answer in zip(questions, answers, strict=True)]

    async def _ask(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        answers = await self._base.read(questions)
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(question, Scan | ReceiptOf):
                continue
            if question.key in self._pending and question.key in self._before:
                continue  # the commit is about what was there when it was planned
            if isinstance(answer, Slice):
                self._before[question.key] = answer.length
            elif isinstance(question, Get):
                self._before[question.key] = answer.version if isinstance(answer, Document) else 0
        return answers

    def _shown(self, question: AnyQuestion, answer: Answer) -> Answer:
        """Return an answer of the store below with what is planned on top of it."""
        if isinstance(question, Scan):
            assert isinstance(answer, Page)
            return self._page(question, answer)
        if isinstance(question, ReceiptOf) or (pending := self._pending.get(question.key)) is None:
            return answer
        length = self._before[question.key]
        if isinstance(question, Get):
            self._expect_before(question.key)
            return self._document(question.key, pending)
        assert isinstance(answer, Slice)
        if not _asks_for_length(question):
            self._expect_before(question.key)
        # What others append after the turn's own place was told is not seen: the place would be another one.
        below = Slice(length, answer.first, tuple([one for one in answer.records if one.index < length]))
        return _joined(question, below, [_record(place, entry) for place, entry in enumerate(pending.entries, length)])

    def _document(self, key: Key, pending: Pending) -> Document | None:
        put = pending.document
        return None if put is None else Document(key, self._version(key), put.value, put.tags, put.text)

    def _page(self, scan: Scan, page: Page) -> Page:
        planned = {
            key: self._document(key, pending)
            for key, pending in self._pending.items()
            if key.kind == scan.kind and key.space == scan.space and not pending.entries
        }
        if not planned:
            return page
        if scan.reverse:
            raise InvalidInput("a turn cannot list from the end what it has written; nothing changed")
        seen = [planned.pop(one.key, one) for one in page.documents]
        # What the turn makes is newer than everything there is, so it comes after the last page.
        new = [planned[key] for key in planned if self._before.get(key) == 0] if page.next is None else []
        shown = [one for one in (*seen, *new) if one is not None and scan.tags.items() <= one.tags.items()]
        return Page(tuple(shown), page.next)

    # ---- committing -------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> Receipt:
        """Plan a commit and return the receipt that it would have, as far as can be known."""
        unknown = [_about(write) for write in commit.writes if write.key not in self._before]
        if unknown:
            await self._ask([*dict.fromkeys(unknown)])
        await self._admit(commit.expects)
        start, versions = len(self.writes), []
        for write in commit.writes:
            self._plan(write)
            versions.append(self._version(write.key))
        self.spans[commit.id] = Span(start, len(self.writes), commit.answer)
        return Receipt(commit.id, tuple(versions), commit.digest, commit.answer)

    async def join(self, id: str, expects: Sequence[Expect], writes: Sequence[Write], answer: Json | None) -> None:
        """Plan what a commit of this id would expect and write, for whoever needs no receipt."""
        await self._admit(expects)
        start = len(self.writes)
        for write in writes:
            self._plan(write)
        self.spans[id] = Span(start, len(self.writes), answer)

    async def _admit(self, expects: Sequence[Expect]) -> None:
        """Take over what is expected, or raise `Conflict` if it is known not to hold."""
        if self._pending:
            await self._ask_about(expects)
        for expect in expects:
            self._judge(expect)
        for expect in expects:
            self._expect(expect)

    async def _ask_about(self, expects: Sequence[Expect]) -> None:
        """Look at what was there of the things that earlier parts wrote, as far as expectations are about them."""
        unknown: list[AnyQuestion] = []
        for expect in expects:
            pending = self._pending.get(expect.key)
            if pending is not None and expect.version != EXISTS and expect.key not in self._before:
                unknown.append(Range(expect.key, limit=0) if pending.entries else Get(expect.key))
        if unknown:
            await self._ask([*dict.fromkeys(unknown)])

    def _judge(self, expect: Expect) -> None:
        """Raise `Conflict` if it is known that an expectation does not hold."""
        key, moved = expect.key, self._moved
        if moved is not None and moved.key == key and key not in self._pending:
            self._moved = None  # told once: whoever looks again sees for itself
            check_expectation(expect, moved.actual)
        if key in self._pending or key in self._before:
            check_expectation(expect, self._version(key))

    def _expect(self, expect: Expect) -> None:
        key = expect.key
        if key in self._pending:
            if expect.version != EXISTS:  # which it does, by the turn's own doing
                self._expect_before(key)
            return
        known = self._expects.get(key)
        if known is None or known.version == EXISTS:
            self._expects[key] = expect
        if expect.version != EXISTS:
            self._before.setdefault(key, expect.version)

    def _expect_before(self, key: Key) -> None:
        """Expect of something that the turn has written what it was before."""
        known = self._expects.get(key)
        if known is None or known.version == EXISTS:
            self._expects[key] = Expect(key, self._before[key])

    def _plan(self, write: Write) -> None:
        pending = self._pending.get(write.key)
        if pending is None:
            pending = self._pending[write.key] = Pending()
        if isinstance(write, Append):
            pending.entries += write.entries
        elif isinstance(write, Put):
            pending.puts, pending.document = pending.puts + 1, write
        elif isinstance(write, Delete):
            pending.puts, pending.document, pending.entries = 0, None, []
        elif not isinstance(write, Erase):  # which changes nothing that a later part would look at
            raise InvalidInput(f"a turn cannot {type(write).__name__.lower()} what it has written; nothing changed")
        self.writes.append(write)

    def _version(self, key: Key) -> int:
        """Return the version a key has by now, as far as is known."""
        before, pending = self._before.get(key, 0), self._pending.get(key)
        if pending is None:
            return before
        return before + pending.puts + len(pending.entries) if pending.puts or pending.entries else 0


def _about(write: Write) -> AnyQuestion:
    return Range(write.key, limit=0) if isinstance(write, Append) else Get(write.key)


def _asks_for_length(question: Range | Tail) -> bool:
    return isinstance(question, Range) and (question.limit == 0 or question.stop == 0)


def _record(index: int, entry: Entry) -> Record:
    return Record(
        index,
        entry.type,
        entry.body,
        entry.weight,
        entry.at,
        entry.sender,
        entry.receiver,
        entry.text,
        entry.commitment,
        None,
        entry.native,
    )


def _joined(question: Range | Tail, below: Slice, added: list[Record]) -> Slice:
    """Return what a stream answers once these records are at its end."""
    whole = replace(below, length=below.length + len(added))
    if isinstance(question, Range):
        stop = whole.length if question.stop is None else question.stop
        own = [record for record in added if question.start <= record.index < stop]
        return replace(whole, records=tuple([*below.records, *own][: question.limit]))
    before = whole.length if question.before is None else question.before
    kept: list[Record] = []
    left = question.max_weight
    for record in reversed([*below.records, *(one for one in added if one.index < before)]):
        if question.count is not None and len(kept) == question.count:
            break
        if left is not None:
            if record.weight > left:
                break
            left -= record.weight
        kept.append(record)
    return replace(whole, records=tuple(reversed(kept)))
