"""A commit of many keys looks for all of them at once, and must find exactly those that are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Commit, Expect, Key, Put, new_id

VALUE = encode({})
NAMES = st.lists(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=3), min_size=12, max_size=24, unique=True
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path_factory.mktemp("many") / "agent.db", durability="relaxed") as store:
        yield store


@given(names=NAMES, known=st.sets(st.integers(0, 23)))
def test_of_many_keys_those_that_are_there_are_found_whatever_their_names(
    store: SqliteStore, names: list[str], known: set[int]
) -> None:
    space = new_id()
    keys = [Key(space, "note", name) for name in names]
    there = [key for place, key in enumerate(keys) if place in known]
    if there:
        store.commit(Commit(new_id(), (), tuple(Put(key, VALUE) for key in there)))
    with SqliteStore(store.path) as other:  # one that remembers none of them
        expects = tuple(Expect(key, int(key in there)) for key in keys)
        receipt = other.commit(Commit(new_id(), expects, tuple(Put(key, VALUE) for key in keys)))
    assert receipt.versions == tuple(1 + (key in there) for key in keys)


@pytest.mark.parametrize("place", [0, 5, 11])
def test_one_that_is_there_among_many_new_ones_refuses_them_all(tmp_path: Path, place: int) -> None:
    keys = [Key("s", "note", f"n{number:02}") for number in range(12)]
    with SqliteStore(tmp_path / "agent.db") as store:
        store.commit(Commit(new_id(), (), (Put(keys[place], VALUE),)))
    with SqliteStore(tmp_path / "agent.db") as store, pytest.raises(Conflict, match=f"'n{place:02}'"):
        store.commit(Commit(new_id(), tuple(Expect(key, 0) for key in keys), tuple(Put(key, VALUE) for key in keys)))
