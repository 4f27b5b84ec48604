"""Context: the blocking twin of AsyncContext. Same names; each method runs to its end before it returns."""

from __future__ import annotations

from holdfast.blocking.memories import Memories
from holdfast.blocking.registry import Registry
from holdfast.blocking.runs import Runs
from holdfast.blocking.sessions import Sessions
from holdfast.blocking.threads import Threads
from holdfast.bridge import Inline, run
from holdfast.context import AsyncContext
from holdfast.store import Durability, Store


class Context:
    """Everything in one space of one store. Use it as `with holdfast.open(...) as ctx`."""

    def __init__(self, context: AsyncContext) -> None:
        self._async = context
        self.memories = Memories(context.memories)
        self.runs = Runs(context.runs.inline())
        self.sessions = Sessions(context.sessions)
        self.threads = Threads(context.threads)
        self.registry = Registry(context.registry)

    @property
    def store(self) -> Store:
        """The store itself, for the two verbs of `holdfast.store`."""
        inline = self._async.store
        assert isinstance(inline, Inline)
        return inline.blocking

    @property
    def space(self) -> str:
        return self._async.space

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives here."""
        return self._async.durability

    def close(self) -> None:
        """Finish what is under way and let go of the store."""
        run(self._async.close())

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
