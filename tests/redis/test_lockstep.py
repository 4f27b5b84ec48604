"""Whatever is done to it, the Redis store answers as the reference does, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.backends.memory import MemoryStore
from strongroom.backends.redis import RedisStore
from strongroom.codec import encode
from strongroom.errors import StrongroomError
from strongroom.store import (
    EXISTS,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Store,
    Tail,
    Truncate,
    new_id,
)
from tests.servers.valkey import ValkeyServer

EXAMPLES = int(os.environ.get("STRONGROOM_EXAMPLES", "40"))

KEYS = [("doc", "a"), ("doc", "b"), ("log", "a"), ("log", "b")]
TAGS = st.dictionaries(st.sampled_from(["x", "y", "1:x"]), st.sampled_from(["", "1", "2:3"]), max_size=2)
SMALL = st.integers(0, 12)
WEIGHTS = st.sampled_from([0, 1, 2, 5, 2**52, 2**53 - 1])

entries = st.builds(
    lambda body, weight, text, commitment: Entry(
        "t", encode(body), weight, 7, "from", None, text, None if commitment is None else bytes([commitment]) * 32
    ),
    st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=5),
    WEIGHTS,
    st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    st.none() | st.integers(0, 255),
)


def _write(space: str) -> st.SearchStrategy[Any]:
    key = st.sampled_from(KEYS).map(lambda pair: Key(space, *pair))
    stream = st.sampled_from(KEYS[2:]).map(lambda pair: Key(space, *pair))
    document = st.sampled_from(KEYS[:2]).map(lambda pair: Key(space, *pair))
    return st.one_of(
        st.builds(Put, document, SMALL.map(encode), TAGS, st.none() | st.just("text")),
        st.builds(Append, stream, st.lists(entries, min_size=1, max_size=3).map(tuple), st.none() | SMALL),
        st.builds(Truncate, stream, SMALL | st.just(2**60)),
        st.builds(Erase, stream, SMALL, st.integers(0, 2**60)),
        st.builds(Delete, key),
        st.builds(Put, key, SMALL.map(encode)),  # now and then of the wrong shape
    )


def _commit(space: str) -> st.SearchStrategy[Commit]:
    key = st.sampled_from(KEYS).map(lambda pair: Key(space, *pair))
    version = st.just(EXISTS) | st.integers(0, 4)
    return st.builds(
        Commit,
        st.sampled_from("pqrstuvwxyz"),
        st.lists(st.builds(Expect, key, version), max_size=1).map(tuple),
        st.lists(_write(space), min_size=1, max_size=4).map(tuple),
    )


def _outcome(verb: Callable[[], Any]) -> Any:
    try:
        return verb()
    except StrongroomError as error:
        return type(error), str(error), vars(error)


def _everything(store: Store, space: str) -> list[Any]:
    """Ask everything about each key; a question may be refused for its shape, so keys are asked one by one."""
    asked: list[list[Any]] = []
    for key in (Key(space, *pair) for pair in KEYS):
        streams: list[Any] = [Range(key), Range(key, 1, 4), Range(key, 2, limit=2), Tail(key, 2), Tail(key, before=3)]
        streams += [Tail(key, max_weight=room) for room in (0, 3, 2**52, 2**53 - 1, 2**53 + 6, 2**60)]
        asked += [[Get(key)], [*streams, Tail(key, 3, 2**53, 5)]]
    tags: list[dict[str, str]] = [{}, {"x": "1"}, {"1:x": "2:3", "x": ""}]
    asked.append([Scan(space, "doc", wanted, reverse=reverse) for wanted in tags for reverse in (False, True)])
    return [_outcome(partial(store.read, questions)) for questions in asked]


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_history_reads_as_in_memory(data: st.DataObject, valkey_server: ValkeyServer) -> None:
    space = new_id()
    commits = data.draw(st.lists(_commit(space), min_size=1, max_size=8))
    reference = MemoryStore()
    with RedisStore(valkey_server.address("lockstep")) as store:
        for commit in commits:
            wanted = _outcome(partial(reference.commit, commit))
            assert _outcome(partial(store.commit, commit)) == wanted
            assert _everything(store, space) == _everything(reference, space)
