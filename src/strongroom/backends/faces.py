"""The two faces of a store on a server: `BlockingFace` for threads, `AsyncFace` for event loops, over one core.

A core is written once, in async def, over connections of either kind: over blocking ones it never suspends, so `run`
takes it to its end. What a store is beyond these verbs (how it is opened, its search) is in its own `store.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from strongroom.bridge import finish, run
from strongroom.store import (
    EXPORT_BYTES,
    Answer,
    AnyQuestion,
    Commit,
    Durability,
    ExportItem,
    ExportPage,
    Key,
    Part,
    Receipt,
)


class ServerCore(Protocol):
    """What a store on a server does, whoever calls it."""

    @property
    def shown(self) -> str: ...
    @property
    def kept_seconds(self) -> float: ...
    @property
    def durability(self) -> Durability: ...
    @property
    def needed_elsewhere(self) -> dict[str, Any]: ...
    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]: ...
    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part: ...
    async def commit(self, commit: Commit) -> Receipt: ...
    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None: ...
    async def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage: ...
    async def load(self, items: Sequence[ExportItem]) -> None: ...
    async def close(self) -> None: ...


C = TypeVar("C", bound=ServerCore)


class _Known(Generic[C]):
    """What is known of a store without asking."""

    _core: C

    @property
    def kept_seconds(self) -> float:
        """How long ids that callers chose are remembered."""
        return self._core.kept_seconds

    @property
    def durability(self) -> Durability:
        """What an acknowledged commit survives."""
        return self._core.durability

    @property
    def needed_elsewhere(self) -> dict[str, Any]:
        """The options with which another process opens the same store."""
        return self._core.needed_elsewhere

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.shown!r})"


class BlockingFace(_Known[C]):
    """A store for blocking code."""

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return run(self._core.read(questions))

    def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return run(self._core.read_within(questions, max_bytes))

    def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing. After a lost connection it is sent again, which its id makes safe."""
        return run(self._core.commit(commit))

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        run(self._core.wait(key, length, timeout_seconds))

    def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return the next items of everything there is, of all spaces; see `strongroom.store.Exportable`."""
        return run(self._core.unload(after, limit, max_bytes))

    def load(self, items: Sequence[ExportItem]) -> None:
        """Put items of another store in place as they are; see `strongroom.store.Exportable`."""
        run(self._core.load(items))

    def close(self) -> None:
        """Let what is under way finish, then let go of the server. Closing twice is fine."""
        run(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFace(_Known[C]):
    """The same store for an event loop."""

    def __init__(self, core: C) -> None:
        self._core = core

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot."""
        return await self._core.read(questions)

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions from one snapshot, as many as fit."""
        return await self._core.read_within(questions, max_bytes)

    async def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing. A cancelled caller waits until it has landed or failed."""
        return await finish(self._core.commit(commit))

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up."""
        await self._core.wait(key, length, timeout_seconds)

    async def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return the next items of everything there is, of all spaces; see `strongroom.store.Exportable`."""
        return await self._core.unload(after, limit, max_bytes)

    async def load(self, items: Sequence[ExportItem]) -> None:
        """Put items of another store in place as they are. A cancelled caller waits until they are, or could not be."""
        await finish(self._core.load(items))

    async def close(self) -> None:
        """Let what is under way finish, then let go of the server. Closing twice is fine."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
