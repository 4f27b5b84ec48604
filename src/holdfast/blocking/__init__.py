"""Context: the blocking twin of AsyncContext. Same names; each method runs to its end before it returns."""

from __future__ import annotations

from holdfast.bridge import Inline, run
from holdfast.context import AsyncContext
from holdfast.store import Durability, Store


class Context:
    """Everything in one space of one store. Use it as `with holdfast.open(...) as ctx`."""

    def __init__(self, context: AsyncContext) -> None:
        self._async = context

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
