"""Whatever is done to a Postgres store and to a SQLite one, both answer the same, word for word."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.errors import StrongroomError
from strongroom.stemming import words
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Find,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Tail,
    Truncate,
    Write,
    new_id,
)

EXAMPLES = int(os.environ.get("STRONGROOM_EXAMPLES", "25"))

# The pool draws jitter in threads of its own, which may well be while Hypothesis draws.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
VOCABULARY = ["apple", "pears", "running", "größe", "日本語", "zero\0byte", "\ufdd0"]
IDS = ["a", "b"]

small = st.integers(0, 8)
texts = st.none() | st.lists(st.sampled_from(VOCABULARY), max_size=4).map(" ".join)
tags = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=8)
names = st.none() | st.text(st.characters(codec="utf-8"), max_size=4)
entries = st.builds(
    Entry,
    st.sampled_from(["note", "t\0"]),
    values.map(encode),
    small,
    st.integers(-(2**63), 2**63 - 1),
    names,
    names,
    texts,
    st.none() | st.binary(min_size=32, max_size=32),
)


def writes(space: str) -> st.SearchStrategy[Write]:
    keys = st.builds(Key, st.just(space), st.sampled_from(["doc", "log"]), st.sampled_from(IDS))
    return st.one_of(
        st.builds(Put, keys, values.map(encode), tags, texts),
        st.builds(Append, keys, st.lists(entries, min_size=1, max_size=4).map(tuple), st.none() | small),
        st.builds(Truncate, keys, small),
        st.builds(Erase, keys, small, small),
        st.builds(Delete, keys),
    )


def commits(space: str) -> st.SearchStrategy[Commit]:
    keys = st.builds(Key, st.just(space), st.sampled_from(["doc", "log"]), st.sampled_from(IDS))
    expects = st.lists(st.builds(Expect, keys, st.integers(-1, 4)), max_size=1).map(tuple)
    several = st.lists(writes(space), min_size=1, max_size=4).map(tuple)
    return st.builds(lambda e, w: Commit(new_id(), e, w), expects, several)


def questions(space: str) -> list[AnyQuestion]:
    keys = [Key(space, kind, id) for kind in ("doc", "log") for id in IDS]
    scans = [
        Scan(space, "doc", wanted, limit=1, reverse=reverse)
        for wanted in ({}, {"x": "1"}, {"x": "1", "y": "2"})
        for reverse in (False, True)
    ]
    streams = [
        question
        for key in keys
        for question in (Get(key), Range(key), Range(key, 1, 5, 2), Tail(key, 2), Tail(key, max_weight=7, before=6))
    ]
    return [*scans, *streams]


def finds(space: str) -> list[Find]:
    wanted = tuple(dict.fromkeys(word for text in VOCABULARY for word in words(text)))
    return [
        Find(space, kind, wanted, id, narrowed, limit)
        for kind in ("doc", "log")
        for id in (None, "a")
        for narrowed in ({}, {"x": "1"})
        for limit in (2,)
    ]


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns or, in place of it, what it refuses and why."""
    try:
        return call()
    except StrongroomError as refusal:
        return type(refusal), str(refusal)


def test_postgres_and_sqlite_answer_alike(connect: Callable[..., Any], postgres: str, tmp_path: Path) -> None:
    opened = connect(postgres)
    theirs: Any = getattr(opened, "_store", opened)
    call = opened._call if theirs is not opened else None  # an async store answers on its own loop

    def search(find: Find) -> Any:
        return theirs.search(find) if call is None else call(lambda: theirs.search(find))

    with SqliteStore(tmp_path / "agent.db") as sqlite:

        @settings(max_examples=EXAMPLES)
        @given(st.data())
        def run(data: st.DataObject) -> None:
            space = new_id()
            for commit in data.draw(st.lists(commits(space), min_size=1, max_size=6)):
                mine, reference = outcome(lambda: opened.commit(commit)), outcome(lambda: sqlite.commit(commit))  # noqa: B023
                assert mine == reference
            for asked in [questions(space), *[[question] for question in questions(space)]]:
                mine, reference = outcome(lambda: opened.read(asked)), outcome(lambda: sqlite.read(asked))  # noqa: B023
                assert _comparable(mine) == _comparable(reference)
                if isinstance(mine, list):
                    break  # all answered; one by one only when some question does not fit
            for find in finds(space):
                assert search(find) == sqlite.search(find)

        run()


def _comparable(answers: Any) -> Any:
    """Forget the cursors of pages: each store has its own."""
    if isinstance(answers, list):
        return [
            (answer.documents, answer.next is None) if hasattr(answer, "documents") else answer for answer in answers
        ]
    return answers
