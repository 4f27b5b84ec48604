"""Milestone tokens: one a run, in the store, so that every worker knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager

from strongroom.blocking import Context
from strongroom.codec import encode
from strongroom.store import Commit, Delete, Get, Key, Put, Scan, ask, new_id

KIND = "milestone_token"


class Tokens(MutableMapping[str, tuple[str, float]]):
    """A run's token and when it ends (seconds since 1970), by run id. Looks like the dict it once was."""

    def __init__(self, using: Callable[[bool], AbstractContextManager[Context | None]]) -> None:
        self._using = using

    def __getitem__(self, run_id: str) -> tuple[str, float]:
        with self._using(False) as ctx:
            found = ask(ctx.store, Get(Key(ctx.space, KIND, run_id))) if ctx is not None else None
        if found is None:
            raise KeyError(run_id)
        told = found.value.load()
        return told["token"], told["ends"]

    def __setitem__(self, run_id: str, token: tuple[str, float]) -> None:
        value = encode({"token": token[0], "ends": float(token[1])})
        with self._using(True) as ctx:
            assert ctx is not None
            ctx.store.commit(Commit(new_id(), (), (Put(Key(ctx.space, KIND, run_id), value),)))

    def __delitem__(self, run_id: str) -> None:
        self[run_id]
        with self._using(True) as ctx:
            assert ctx is not None
            ctx.store.commit(Commit(new_id(), (), (Delete(Key(ctx.space, KIND, run_id)),)))

    def __iter__(self) -> Iterator[str]:
        after: str | None = None
        with self._using(False) as ctx:
            while ctx is not None:
                page = ask(ctx.store, Scan(ctx.space, KIND, {}, after))
                yield from [document.key.id for document in page.documents]
                after = page.next
                if after is None:
                    return

    def __len__(self) -> int:
        return sum(1 for _ in self)
