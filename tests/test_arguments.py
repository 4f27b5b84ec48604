"""What a signature says is what may be passed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
import pytest
from msgspec import Struct

import strongroom
from strongroom.arguments import check_fields, checked
from strongroom.errors import InvalidInput


class Status(IntEnum):
    OK = 200


class Fields(TypedDict):
    size: int


class Counts(Protocol):
    def count(self, text: str) -> int: ...


@checked
class Service:
    """Methods with every kind of annotation that is understood, and some that are not."""

    def text(self, value: str = "") -> str:
        return value

    def maybe(self, value: int | None = None) -> None: ...
    def number(self, value: float) -> None: ...
    def yes(self, value: bool) -> None: ...
    def choice(self, value: Literal["red", "green"]) -> None: ...
    def texts(self, value: Sequence[str]) -> None: ...
    def anything(self, value: Iterable[Any]) -> None: ...
    def tags(self, value: Mapping[str, str]) -> None: ...
    def facts(self, value: Mapping[str, Any]) -> None: ...
    def typed(self, value: Fields) -> None: ...
    def call(self, value: Callable[[int], int]) -> None: ...
    def path(self, value: str | os.PathLike[str]) -> None: ...
    def time(self, value: datetime) -> None: ...
    def protocol(self, value: Counts) -> None: ...
    def _hidden(self, value: str) -> None: ...

    def fields(self, **value: str) -> dict[str, str]:
        return value

    async def later(self, *, value: str) -> str:
        return value

    async def pieces(self, value: str) -> AsyncIterator[str]:
        yield value


FITS: list[tuple[str, list[Any]]] = [
    ("text", ["", "x"]),
    ("maybe", [None, 0, -1, Status.OK]),
    ("number", [1, 1.5, float("inf"), np.float64(0.5), Status.OK]),
    ("yes", [True, False]),
    ("choice", ["red"]),
    ("texts", [[], ["a"], ("a", "b"), {"a"}]),
    ("anything", [[], [1], iter("ab")]),
    ("tags", [{}, {"a": "b"}]),
    ("facts", [{"a": object()}]),
    ("call", [abs]),
    ("path", ["a", Path("a")]),
    ("time", [datetime(2026, 1, 1, tzinfo=UTC)]),
    ("protocol", [3]),
    ("_hidden", [3]),
]
WRONG: list[tuple[str, str, list[Any]]] = [
    ("text", "text", [None, 3, b"x", ["x"]]),
    ("maybe", "a whole number or None", ["1", 1.5, True]),
    ("number", "a number", [None, "1", True, float("nan")]),
    ("yes", "True or False", [0, 1, None, "yes"]),
    ("choice", "one of red, green", ["blue", None, ["red"]]),
    ("texts", "a list, each text", ["abc", b"abc", None, [1], {"a": "b"}]),
    ("anything", "a list", ["abc", None, 3, {"a": "b"}]),
    ("tags", "a mapping from text to text", [None, "a", [("a", "b")], {1: "b"}, {"a": 1}]),
    ("facts", "a mapping from text to anything", [{1: 2}, []]),
    ("typed", "a mapping from text", [{1: 2}, []]),
    ("call", "a function", [None, "abs"]),
    ("path", "text or a path", [None, b"a", 3]),
    ("time", "a datetime", ["2026-01-01", 3, None]),
]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FITS for value in values])
def test_what_an_annotation_allows_is_passed_on(name: str, value: Any) -> None:
    getattr(Service(), name)(value)
    if not name.startswith("_"):
        getattr(Service(), name)(value=value)


@pytest.mark.parametrize(("name", "words", "value"), [(name, words, one) for name, words, all in WRONG for one in all])
def test_what_it_does_not_allow_is_refused_with_what_was_expected(name: str, words: str, value: Any) -> None:
    for args, kwargs in (((value,), {}), ((), {"value": value})):
        with pytest.raises(InvalidInput) as refusal:
            getattr(Service(), name)(*args, **kwargs)
        assert str(refusal.value).startswith(f"value must be {words}, not ")


async def test_a_coroutine_is_checked_when_it_runs() -> None:
    assert await Service().later(value="x") == "x"
    with pytest.raises(InvalidInput, match="value must be text"):
        await Service().later(value=3)  # type: ignore[arg-type]


async def test_an_iterator_is_checked_before_its_first_piece() -> None:
    assert [piece async for piece in Service().pieces("x")] == ["x"]
    with pytest.raises(InvalidInput, match="value must be text"):
        Service().pieces(3)  # type: ignore[arg-type]


def test_arguments_that_have_no_name_of_their_own_are_left_to_the_method() -> None:
    given: Any = {"value": 3, "other": 4}
    assert Service().fields(**given) == given


@checked
def twice(value: int) -> int:
    return 2 * value


def test_a_function_is_checked_too() -> None:
    assert twice(3) == 6
    with pytest.raises(InvalidInput, match="value must be a whole number, not '3'"):
        twice("3")  # type: ignore[arg-type]


def test_what_is_left_out_is_not_checked() -> None:
    assert Service().text() == ""


class Settings(Struct, frozen=True, kw_only=True):
    names: frozenset[str] = frozenset()
    limit: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize("given", [{}, {"names": {"a"}}, {"names": frozenset("ab")}, {"names": ["a"]}, {"limit": 3}])
def test_a_struct_with_fields_that_fit_can_be_made(given: Any) -> None:
    Settings(**given)


@pytest.mark.parametrize("given", [{"names": "ab"}, {"names": {"a": 1}}, {"names": [1]}, {"limit": "3"}])
def test_a_struct_with_a_field_that_does_not_fit_cannot(given: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a"):
        Settings(**given)


def test_that_nothing_changed_is_said_only_of_what_can_write() -> None:
    with strongroom.open("memory://") as ctx:
        run: Any = ctx.runs.create(objective="o")
        with pytest.raises(InvalidInput) as reading:
            run.events(limit="many")
        with pytest.raises(InvalidInput) as writing:
            run.update(append="many")
    assert "nothing changed" not in str(reading.value)
    assert str(writing.value).endswith("; nothing changed")


def test_of_a_list_the_place_of_what_is_wrong_is_told() -> None:
    with strongroom.open("memory://") as ctx:
        messages: Any = [{"role": "user", "content": "a"}, 5]
        with pytest.raises(InvalidInput, match=r"messages must be .*, not 5 as messages\[1\]; nothing changed"):
            ctx.sessions.open("s").append(messages)
