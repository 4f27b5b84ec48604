"""AsyncContext: everything an agent knows, behind one object."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from strongroom.arguments import checked, got_by
from strongroom.embedders import Embedder
from strongroom.encryption import Secret
from strongroom.entering import EnteredAsync
from strongroom.errors import Closed
from strongroom.meant import Meant
from strongroom.scope import Scope
from strongroom.services import person
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.packs import everything
from strongroom.services.person import ErasedPerson
from strongroom.services.prompt.formats import Format
from strongroom.services.prompt.options import Shares
from strongroom.services.prompt.prompts import AsyncPrompts
from strongroom.services.prompt.values import Prompt
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.runs.state import speaker
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from strongroom.services.turns.deciding import turn_with
from strongroom.services.turns.turn import AsyncTurn
from strongroom.store import AsyncStore, Durability
from strongroom.values import Restored, SpacePack
from strongroom.vectors import VectorIndex

R = TypeVar("R")


@got_by("`async with strongroom.aopen(address) as ctx`", lambda given: isinstance(given, Scope))
class AsyncContext(EnteredAsync, Meant):
    """Everything in one space of one store. Use it as `async with strongroom.aopen(...) as ctx`.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         run = await ctx.runs.create(objective="Answer a ticket")
    ...         return (await run.update(status="BUSY")).status
    >>> asyncio.run(main())
    'BUSY'
    """

    _ENTER = "async with strongroom.aopen(...) as ctx"

    def __init__(self, scope: Scope, *, embedder: Embedder | None = None, index: VectorIndex | None = None) -> None:
        self.scope = scope
        self.embedder, self.index = embedder, index
        self.memories = AsyncMemories(scope, embedder=embedder, index=index)
        self.runs = AsyncRuns(scope, memories=self.memories)
        self.sessions = AsyncSessions(scope, embedder=embedder)
        self.threads = AsyncThreads(scope)
        self.registry = AsyncRegistry(scope)
        self.files = AsyncFiles(scope)
        self._prompts = AsyncPrompts(scope, self.memories)
        self._closed = False
        self._side_of: AsyncContext | None = None  # the one that it is the async face of, and is closed with

    @property
    def store(self) -> AsyncStore:
        return self.scope.store

    @property
    def space(self) -> str:
        """The tenant that this context is of."""
        return self.scope.space

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives here."""
        return self.store.durability

    @checked
    def turn(self, *, commit_id: str | None = None) -> AsyncTurn:
        """Begin a turn: `async with ctx.turn() as turn`. What is done with `turn` is one commit at the block's end.

        An exception in the block writes nothing. A repeat with the same `commit_id` changes nothing.
        """
        self._require_open(writing=True)
        return AsyncTurn(self, commit_id)

    @overload
    async def turn_with(
        self, decide: Callable[[AsyncTurn], Awaitable[R]], *, commit_id: str | None = None
    ) -> R | None: ...
    @overload
    async def turn_with(self, decide: Callable[[AsyncTurn], R], *, commit_id: str | None = None) -> R | None: ...
    @checked
    async def turn_with(self, decide: Callable[[AsyncTurn], Any], *, commit_id: str | None = None) -> Any:
        """Let `decide` read and fill a turn, commit it, and return what it returned; again if somebody was faster.

        What it decides is not part of what a `commit_id` stands for: a repeat does not ask it, and returns None.
        """
        self._require_open(writing=True)
        return await turn_with(self, decide, commit_id)

    @checked
    async def prompt(
        self,
        *,
        max_tokens: int,
        session: AsyncSession | str | None = None,
        run: AsyncRun | str | None = None,
        query: str | None = None,
        system: str | None = None,
        tools: Mapping[str, Any] | Sequence[Any] = (),
        model: str | None = None,
        format: Format = "openai",
        reserve_tokens: int = 0,
        shares: Shares | None = None,
        user_id: str | None = None,
        project_id: str | None = None,
        state: bool = False,
    ) -> Prompt:
        """Put together what a model is to read now, in the shape a provider takes and at most `max_tokens` of it.

        `system` and `tools` (passed through as they are, so in the provider's own shape), the newest turns of
        `session`, the working set of `run` (with `state=True` its own state too), and what `query` (by default the
        user's newest words) finds among memories and in what was said earlier: what it does not find is not in. Each
        part has a share of the budget (`shares`), which others get where it is not used; `reserve_tokens` stay free.
        `format` is `openai`, `responses`, `anthropic` or `gemini`; `model` says whose tokens are counted, by an
        estimate (`receipt.approximate`) if its name is not known or the extra `tokens` is not installed; `user_id` and
        `project_id` whose memories may be seen. Without a `user_id` that is the owner of the session, or of the run;
        naming another one than theirs is refused. The receipt names every part, its tokens, and what was left out and
        why.
        """
        self._require_open(writing=False)
        return await self._prompts.compose(
            session=await self.sessions.get(session) if isinstance(session, str) else session,
            run=await self.runs.get(run) if isinstance(run, str) else run,
            max_tokens=max_tokens,
            query=query,
            system=system,
            tools=tools,
            model=model,
            format=format,
            reserve_tokens=reserve_tokens,
            shares=shares,
            user_id=user_id,
            project_id=project_id,
            state=state,
        )

    @checked
    async def export(
        self,
        path: str | os.PathLike[str],
        *,
        runs: Sequence[str] | bool | None = None,
        sessions: Sequence[str] | bool | None = None,
        threads: Sequence[str] | bool | None = None,
        memories: Sequence[str] | bool | None = None,
        signing_key: bytes | None = None,
        key: Secret | None = None,
    ) -> SpacePack:
        """Write runs, sessions, live threads and memories to one file: all of them, those of some ids, or none (False).

        Where ids are named, nothing else goes along unless it is named too: `runs=["T-1"]` is that run alone,
        `runs=["T-1"], memories=True` that run and all memories.
        Files, batches of memories that wait for review, ended threads and keys are not in it; `strongroom copy` takes
        everything that is stored. The file is complete and on disk, or not there. `signing_key` is an Ed25519 private
        key (32 bytes); `key` encrypts the file (a passphrase, 32 bytes, or a function that fetches one).
        """
        asked = {"runs": runs, "sessions": sessions, "threads": threads, "memories": memories}
        rest = all(isinstance(ids, bool | None) for ids in asked.values())
        which: dict[str, Any] = {kind: rest if ids is None else ids for kind, ids in asked.items()}
        return await everything.export(self, path, **which, signing_key=signing_key, key=key)

    @checked
    async def restore(
        self,
        path: str | os.PathLike[str],
        *,
        public_key: bytes | None = None,
        key: Secret | None = None,
        max_bytes: int = everything.MAX_BYTES,
        actor: str | None = None,
        commit_id: str | None = None,
    ) -> Restored:
        """Bring back everything that `export` wrote, in one commit: all of it appears, or nothing.

        Nothing is written before the whole pack was checked. What is there already under the same id is a `Conflict`.
        A session whose name was there before, and was deleted, comes back without its undo: what was hidden stays so.
        Memories must obey the policy of `ctx.memories`. `public_key` (32 bytes) demands a signature by that key;
        `key` opens an encrypted pack.
        """
        return await everything.restore(
            self,
            path,
            public_key=public_key,
            key=key,
            max_bytes=max_bytes,
            actor=speaker(self.scope, actor),
            commit_id=commit_id,
        )

    @checked
    async def erase(
        self, *, user_id: str, by: str = "", reason: str = "", commit_id: str | None = None
    ) -> ErasedPerson:
        """Leave nothing of a person: the memories, sessions and runs of a user, and what was learnt from sessions.

        What stays are ids, times and that something was erased; a run's ledger still verifies. Threads, files and some
        things of adapters have no owner (`not_covered`): erase them by their names. Whatever an interrupted erasure
        leaves is found by calling again, which finishes it and tells what it found itself; `pending` says what is not
        clean yet, and which runs are damaged and were not erased.
        """
        return await person.erase(self, user_id, by, reason, commit_id)

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""
        self._closed = True
        await self.store.close()

    def _require_open(self, *, writing: bool) -> None:
        """Refuse what may not need the store at all, and so would not hear of it that it is closed."""
        if self._closed or (self._side_of is not None and self._side_of._closed):
            raise Closed("this context is closed" + "; nothing changed" * writing)

    async def __aenter__(self) -> AsyncContext:
        self._require_open(writing=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncContext({self.store!r}, space={self.space!r})"


class Opening(EnteredAsync, Coroutine[Any, Any, AsyncContext]):
    """A context that is about to be opened: await it, or enter it with `async with`, which closes it at the end."""

    _ENTER = AsyncContext._ENTER

    def __init__(self, opened: Coroutine[Any, Any, AsyncContext], opener: str = "strongroom.aopen") -> None:
        self._opened = opened
        self._ENTER = f"async with {opener}(...) as ctx"  # type: ignore[misc]
        self._context: AsyncContext | None = None

    # A coroutine to asyncio too, so that `asyncio.run(aopen(...))` and tasks take it.
    def send(self, value: Any) -> Any:
        return self._opened.send(value)

    def throw(self, *error: Any) -> Any:
        return self._opened.throw(*error)

    def close(self) -> None:
        self._opened.close()

    if not TYPE_CHECKING:

        def __enter__(self):
            self._opened.close()  # or Python would complain as well that nobody awaited it
            super().__enter__()

        def __getattr__(self, name):
            if name.startswith(("_", "cr_", "gi_")):  # what Python itself asks a coroutine for
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"there is no {name!r} before it is open: write `{self._ENTER}`, or await it first")

    def __await__(self) -> Generator[Any, Any, AsyncContext]:
        return self._opened.__await__()

    async def __aenter__(self) -> AsyncContext:
        self._context = await self._opened
        return self._context

    async def __aexit__(self, *_: object) -> None:
        assert self._context is not None
        await self._context.close()
