"""The two verbs, blocking and async, and what a store says about itself."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, TypeVar, cast, overload, runtime_checkable

from msgspec import Struct

from strongroom.store.commits import Commit, Receipt
from strongroom.store.names import Key
from strongroom.store.questions import Answer, AnyQuestion, Question

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Durability(Struct, frozen=True):
    """What an acknowledged write survives, in the store's own words.

    >>> ctx = strongroom.open("memory://")
    >>> ctx.durability.name, ctx.durability.may_lose
    ('volatile', 'everything, when the process ends')
    """

    name: Literal["durable", "relaxed", "volatile"]
    survives_process_crash: bool
    survives_power_cut: bool
    may_lose: str


class Store(Protocol):
    """A store for blocking code. Safe to share between threads."""

    @property
    def durability(self) -> Durability: ...
    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]: ...
    def commit(self, commit: Commit) -> Receipt: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The same store for async code."""

    @property
    def durability(self) -> Durability: ...
    def read(self, questions: Sequence[AnyQuestion]) -> Awaitable[list[Answer]]: ...
    def commit(self, commit: Commit) -> Awaitable[Receipt]: ...
    def close(self) -> Awaitable[None]: ...


@runtime_checkable
class Watchable(Protocol):
    """A store that can tell when to look again; an async one has the same as a coroutine. A hint: always re-read."""

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream may be longer than `length`, or the time is up."""
        ...


# ---- reading with the type of the answer; `Scope` does the same for services ----------------------------------------


@overload
def ask(store: Store, a: Question[A], /) -> A: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], /) -> tuple[A, B]: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], c: Question[C], /) -> tuple[A, B, C]: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], c: Question[C], d: Question[D], /) -> tuple[A, B, C, D]: ...
def ask(store: Store, *questions: Question[object]) -> object:
    """Ask a blocking store one question and return its answer, or a few of one snapshot and return a tuple."""
    answers = store.read(cast(Sequence[AnyQuestion], questions))
    return answers[0] if len(questions) == 1 else tuple(answers)


def ask_all(store: Store, questions: Sequence[Question[A]]) -> list[A]:
    """Ask any number of questions of one kind, of one snapshot."""
    return cast(list[A], store.read(cast(Sequence[AnyQuestion], questions)))
