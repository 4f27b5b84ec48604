"""The two verbs, in two colours, and what a store says about itself."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from strongroom.store.commits import Commit, Receipt
from strongroom.store.names import Key
from strongroom.store.questions import Answer, AnyQuestion


class Durability(Struct, frozen=True):
    """What an acknowledged write survives, in the store's own words."""

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
