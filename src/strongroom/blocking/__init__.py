"""Context: the blocking twin of AsyncContext. Same names; each method runs to its end before it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from strongroom.arguments import checked, got_by
from strongroom.blocking.files import Files
from strongroom.blocking.memories import Memories
from strongroom.blocking.registry import Registry
from strongroom.blocking.runs import Run, Runs
from strongroom.blocking.sessions import Session, Sessions
from strongroom.blocking.threads import Threads
from strongroom.blocking.turns import Turn
from strongroom.bridge import Inline, blocking, plain
from strongroom.bridge import run as _run
from strongroom.context import AsyncContext
from strongroom.entering import EnteredBlocking
from strongroom.meant import Meant
from strongroom.opening import for_loops
from strongroom.services.prompt.formats import Format
from strongroom.services.prompt.options import Shares
from strongroom.services.prompt.values import Prompt
from strongroom.services.threads.threads import AsyncThreads
from strongroom.store import Durability, Store

R = TypeVar("R")


@got_by("`strongroom.open(address)`", lambda given: isinstance(given, AsyncContext))
class Context(EnteredBlocking, Meant):
    """Everything in one space of one store. Use it as `with strongroom.open(...) as ctx`.

    >>> with strongroom.open("memory://") as ctx:
    ...     run = ctx.runs.create(objective="Answer a ticket")
    ...     run.update(status="BUSY").status
    'BUSY'
    """

    _ENTER = "with strongroom.open(...) as ctx"

    def __init__(self, context: AsyncContext) -> None:
        self._async = context
        self.memories = Memories(context.memories)
        self.runs = Runs(context.runs)
        self.sessions = Sessions(context.sessions)
        self.threads = Threads(context.threads)
        self.registry = Registry(context.registry)
        self.files = Files(context.files)

    @cached_property
    def awaitable(self) -> AsyncContext:
        """The same store and space for async code: from any thread and any event loop, beside blocking calls.

        `strongroom.aopen` is for a program that is async throughout: on Postgres and Redis it needs no threads, but
        belongs to the event loop that it was opened on.
        """
        mine = self._async
        scope = msgspec.structs.replace(mine.scope, store=for_loops(self.store))
        made = AsyncContext(scope, embedder=mine.embedder, index=mine.index)
        made._side_of = mine
        made.threads = AsyncThreads(scope, limits=mine.threads.limits, types=mine.threads.types)
        return made

    @property
    def store(self) -> Store:
        """The store itself, for the two verbs of `strongroom.store`."""
        inline = self._async.store
        assert isinstance(inline, Inline)
        return inline.blocking

    @property
    def space(self) -> str:
        """The tenant that this context is of."""
        return self._async.space

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives here."""
        return self._async.durability

    @checked
    def turn(self, *, commit_id: str | None = None) -> Turn:
        """Begin a turn: `with ctx.turn() as turn`. What is done with `turn` is one commit at the block's end.

        An exception in the block writes nothing. A repeat with the same `commit_id` changes nothing.
        """
        return Turn(self._async.turn(commit_id=commit_id))

    @checked
    def turn_with(self, decide: Callable[[Turn], R], *, commit_id: str | None = None) -> R | None:
        """Let `decide` read and fill a turn, commit it, and return what it returned; again if somebody was faster.

        What it decides is not part of what a `commit_id` stands for: a repeat does not ask it, and returns None.
        """
        plain("decide", decide, writes=True)
        return _run(self._async.turn_with(lambda turn: decide(Turn(turn)), commit_id=commit_id))

    @checked
    def prompt(
        self,
        *,
        max_tokens: int,
        session: Session | str | None = None,
        run: Run | str | None = None,
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
        conversation = session._async if isinstance(session, Session) else session
        work = run._async if isinstance(run, Run) else run
        prompting = self._async.prompt(
            max_tokens=max_tokens,
            session=conversation,
            run=work,
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
        return _run(prompting)

    erase = blocking(AsyncContext.erase)
    export = blocking(AsyncContext.export)
    restore = blocking(AsyncContext.restore)

    def close(self) -> None:
        """Finish what is under way and let go of the store."""
        _run(self._async.close())

    def __enter__(self) -> Context:
        self._async._require_open(writing=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Context({self.store!r}, space={self.space!r})"
