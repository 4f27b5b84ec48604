"""Asking a blocking store, with the type of the answer. `Scope` does the same for services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast, overload

from strongroom.store.questions import AnyQuestion, Question
from strongroom.store.verbs import Store

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@overload
def ask(store: Store, a: Question[A], /) -> A: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], /) -> tuple[A, B]: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], c: Question[C], /) -> tuple[A, B, C]: ...
@overload
def ask(store: Store, a: Question[A], b: Question[B], c: Question[C], d: Question[D], /) -> tuple[A, B, C, D]: ...
def ask(store: Store, *questions: Question[object]) -> object:
    """Ask one question and return its answer, or a few of one snapshot and return a tuple."""
    answers = store.read(cast(Sequence[AnyQuestion], questions))
    return answers[0] if len(questions) == 1 else tuple(answers)


def ask_all(store: Store, questions: Sequence[Question[A]]) -> list[A]:
    """Ask any number of questions of one kind, of one snapshot."""
    return cast(list[A], store.read(cast(Sequence[AnyQuestion], questions)))
