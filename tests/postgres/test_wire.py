"""What is sent is what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.backends.postgres.wire import bigints, blobs, escaped, labels, texts, unescaped
from strongroom.errors import InvalidInput

unicode = st.text(st.characters(codec="utf-8") | st.sampled_from("\0\ufdd001"))


@pytest.fixture(scope="module")
def con(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as con:
        yield con


def echo(con: psycopg.Connection[Any], value: Any, type: LiteralString) -> Any:
    row = con.cursor(binary=True).execute(f"SELECT %b::{type}[]", (value,)).fetchone()
    assert row is not None
    return row[0]


def test_numbers_arrive_as_they_are(con: psycopg.Connection[Any]) -> None:
    @given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
    def run(numbers: list[int]) -> None:
        assert echo(con, bigints(numbers), "bigint") == numbers

    run()


def test_bytes_arrive_as_they_are(con: psycopg.Connection[Any]) -> None:
    @given(st.lists(st.none() | st.binary(max_size=50), max_size=5))
    def run(items: list[bytes | None]) -> None:
        assert echo(con, blobs(items), "bytea") == items

    run()


def test_text_arrives_as_it_is_although_it_holds_nul(con: psycopg.Connection[Any]) -> None:
    @given(st.lists(st.none() | unicode, max_size=5))
    def run(items: list[str | None]) -> None:
        assert [unescaped(item) for item in echo(con, texts(items), "text")] == items

    run()


@given(unicode, unicode)
def test_two_texts_never_look_alike(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


def test_a_number_that_does_not_fit_is_refused() -> None:
    for numbers in ([2**63], [1, -(2**63) - 1]):
        with pytest.raises(InvalidInput):
            bigints(numbers)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidInput):
        texts(["\ud800"])


@given(st.dictionaries(unicode, unicode, min_size=1, max_size=3))
def test_each_tag_has_a_label_of_its_own(tags: dict[str, str]) -> None:
    found = labels(tags)
    assert found is not None
    assert len({found[place : place + 16] for place in range(0, len(found), 16)}) == len(tags)
