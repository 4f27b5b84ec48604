"""Reads that end before they hold too much, for whoever must not hold everything: a server, for one.

A read within a bound answers the questions in their order, from one snapshot, and stops at the first thing that does
not fit any more. The very first thing always comes, so that whoever asks on makes progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from strongroom.store.questions import Answer, AnyQuestion, Page, Slice


class Part(Struct, frozen=True):
    """The beginning of a read: answers to the first questions. `cut`: the last of them holds only what fitted.

    A cut `Range` or `Scan` lacks its end, a cut `Tail` its oldest records.
    """

    answers: list[Answer]
    cut: bool = False


@runtime_checkable
class Bounded(Protocol):
    """A store that can end a read early; an async one has the same as a coroutine."""

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer as `read` does, as far as values, bodies and texts take about `max_bytes` together."""
        ...


class Budget:
    """What a read may still hold. Once something did not fit it is `full`, and the read is over."""

    __slots__ = ("_begun", "full", "left")

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self._begun = False
        self.full = False

    def takes(self, value: bytes | None, text: str | None) -> bool:
        """Take one thing in, or say that there is no room for it."""
        size = len(value or b"")
        if text is not None:
            size += len(text) if text.isascii() else 4 * len(text)
        if self._begun and size > self.left:
            self.full = True
            return False
        self._begun = True
        self.left -= size
        return True


def within(questions: Sequence[AnyQuestion], answer: Callable[[AnyQuestion, Budget], Answer], max_bytes: int) -> Part:
    """Ask one question after the other as long as there is room."""
    budget, answers = Budget(max_bytes), list[Answer]()
    for question in questions:
        found = answer(question, budget)
        if budget.full:
            return ended(answers, found)
        answers.append(found)
    return Part(answers)


def ended(answers: list[Answer], last: Answer) -> Part:
    """Return a read that ended at a question, with what there was room for of its answer."""
    some = (type(last) is Slice and bool(last.records)) or (type(last) is Page and bool(last.documents))
    return Part([*answers, last] if some else answers, some)
