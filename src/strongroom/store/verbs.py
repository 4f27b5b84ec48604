"""The two verbs, in two colours, and what a store says about itself."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from strongroom.store.commits import Commit, Receipt
from strongroom.store.names import Key
from strongroom.store.questions import Question


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
    def read(self, questions: Sequence[Question]) -> list[Any]: ...
    def commit(self, commit: Commit) -> Receipt: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The same store for async code."""

    @property
    def durability(self) -> Durability: ...
    def read(self, questions: Sequence[Question]) -> Awaitable[list[Any]]: ...
    def commit(self, commit: Commit) -> Awaitable[Receipt]: ...
    def close(self) -> Awaitable[None]: ...


@runtime_checkable
class Watchable(Protocol):
    """A store that can tell when to look again. A hint, not a promise: always re-read."""

    def wait(self, key: Key, length: int, timeout_seconds: float) -> Any:
        """Return once the stream may be longer than `length`, or the time is up."""
        ...
