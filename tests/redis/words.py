"""What these tests say again and again."""

from __future__ import annotations

from typing import Any

from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Get, Key, Put, Range, Store, ask, new_id

LOG = Key("space", "log", "one")
DOC = Key("space", "doc", "one")


def append(*bodies: Any, key: Key = LOG, id: str | None = None) -> Commit:
    return Commit(id or new_id(), (), (Append(key, tuple(Entry("t", encode(body)) for body in bodies)),))


def put(value: Any, key: Key = DOC, **tags: str) -> Commit:
    return Commit(new_id(), (), (Put(key, encode(value), tags),))


def bodies(store: Store, key: Key = LOG) -> list[Any]:
    return [None if record.body is None else record.body.load() for record in ask(store, Range(key)).records]


def value(store: Store, key: Key = DOC) -> Any:
    found = ask(store, Get(key))
    return None if found is None else found.value.load()
