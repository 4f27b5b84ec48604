"""Pages of an answer. Pure.

A question may ask for a whole stream; an answer over HTTP is bounded. So a server answers the beginning and says which
answers it cut, and a client asks for the rest until it has all of it: what `read` returns is the same as ever. A
record never changes its place, so the parts fit together. What is appended meanwhile is left for the next question;
what is truncated meanwhile is gone from the answer too.

An answer is bounded in bytes as well, over all its questions: a server answers the first ones, as many as fit, and the
others are asked again. A request is bounded, too: of very many questions the first ones are asked first. What comes in
one answer is of one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from strongroom.protocol.wire import dump_questions, load_answers
from strongroom.store import Answer, AnyQuestion, Page, Part, Range, Record, Scan, Slice, Tail

GROWING = (Range, Tail, Scan)
MOST = 256  # records or documents in all answers to one request together; a record can be large
MOST_QUESTIONS = 1000  # in one request
MOST_BYTES = 512 * 1024  # of questions in one request; a server takes twice that


def capped(questions: Sequence[AnyQuestion], most: int = MOST) -> list[AnyQuestion]:
    """Ask for no more than one request may be answered. Every question gets something."""
    growing = sum(type(question) in GROWING for question in questions)
    each = max(1, most // max(1, growing))
    return [_capped(question, each) for question in questions]


def cuts(asked: Sequence[AnyQuestion], capped: Sequence[AnyQuestion], part: Part) -> list[int]:
    """Return the places of the answers that are not yet whole; the last one if it was cut for its bytes."""
    last = len(part.answers) - 1
    answers = part.answers
    return [
        place
        for place, (wanted, less, answer) in enumerate(zip(asked, capped, answers, strict=False))
        if (part.cut and place == last) or (wanted != less and _is_cut(wanted, less, answer))
    ]


class Reading:
    """The life of one `read` on the client's side: says what to ask next, until every answer is whole."""

    def __init__(self, questions: Sequence[AnyQuestion]) -> None:
        self._answers = [Whole(question) for question in questions]
        self._open = self._answers

    def next(self) -> list[AnyQuestion]:
        """Return the questions of the next request, as many as one may hold; none at the end."""
        asked = [whole.rest() for whole in self._open[:MOST_QUESTIONS]]
        while len(asked) > 1 and len(dump_questions(asked)) > MOST_BYTES:
            asked = asked[: len(asked) // 2]
        return asked

    def answered(self, asked: Sequence[AnyQuestion], raw: bytes) -> None:
        """Take the answer to a request."""
        answers, cut = load_answers(raw, asked)
        for whole, answer in zip(self._open, answers, strict=False):
            whole.add(answer)
        self._open = [*(self._open[place] for place in cut), *self._open[len(answers) :]]

    def answers(self) -> list[Answer]:
        return [whole.joined() for whole in self._answers]


class Whole:
    """An answer that may come in pieces."""

    def __init__(self, question: AnyQuestion) -> None:
        self._question = question
        self._parts: list[Any] = []  # of the one kind that answers the question
        self._got = self._weight = 0

    def add(self, part: Answer) -> None:
        self._parts.append(part)
        if type(part) is Page:
            self._got += len(part.documents)
        elif type(part) is Slice:
            self._got += len(part.records)
            self._weight += sum(record.weight for record in part.records)

    def rest(self) -> AnyQuestion:
        """Return the question for what is still missing."""
        if not self._parts:
            return self._question
        question, last = self._question, self._parts[-1]
        if type(question) is Range:
            length = self._parts[0].length
            stop = length if question.stop is None else min(question.stop, length)
            start = last.records[-1].index + 1
            return replace(question, start=start, stop=stop, limit=_less(question.limit, self._got))
        if type(question) is Tail:
            count, weight = _less(question.count, self._got), _less(question.max_weight, self._weight)
            return replace(question, count=count, max_weight=weight, before=last.records[0].index)
        assert type(question) is Scan
        return replace(question, after=last.next, limit=question.limit - self._got)

    def joined(self) -> Answer:
        if len(self._parts) == 1:
            whole: Answer = self._parts[0]
            return whole
        if type(self._question) is Scan:
            return Page(tuple(each for part in self._parts for each in part.documents), self._parts[-1].next)
        parts = reversed(self._parts) if type(self._question) is Tail else self._parts
        first = max(part.first for part in self._parts)
        return Slice(
            self._parts[0].length, first, tuple(_from(first, (each for part in parts for each in part.records)))
        )


def _capped(question: AnyQuestion, most: int) -> AnyQuestion:
    if type(question) is Range and (question.limit is None or question.limit > most):
        return replace(question, limit=most)
    if type(question) is Tail and (question.count is None or question.count > most):
        return replace(question, count=most)
    if type(question) is Scan and question.limit > most:
        return replace(question, limit=most)
    return question


def _is_cut(wanted: AnyQuestion, less: AnyQuestion, answer: Answer) -> bool:
    if type(answer) is Page:
        return answer.next is not None
    assert type(answer) is Slice
    if type(wanted) is Range:
        assert type(less) is Range
        end = answer.length if wanted.stop is None else min(wanted.stop, answer.length)
        return len(answer.records) == less.limit and answer.records[-1].index + 1 < end
    assert type(less) is Tail
    return len(answer.records) == less.count and answer.records[0].index > answer.first


def _less(wanted: int | None, got: int) -> int | None:
    return None if wanted is None else wanted - got


def _from(first: int, records: Iterable[Record]) -> Iterable[Record]:
    return (record for record in records if record.index >= first)
