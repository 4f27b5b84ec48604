"""Registry: the blocking twin of AsyncRegistry."""

from __future__ import annotations

from strongroom.arguments import got_by
from strongroom.bridge import blocking
from strongroom.meant import Meant
from strongroom.services.threads.registry import AsyncRegistry


@got_by("`ctx.registry`", lambda given: isinstance(given, AsyncRegistry))
class Registry(Meant):
    """The call chains of one space.

    >>> ctx = strongroom.open("memory://")
    >>> chain = ctx.registry.get_or_create("console.router")
    >>> ctx.registry.lookup(ctx.registry.extend(chain, "planner")).names
    ('console', 'router', 'planner')
    """

    def __init__(self, registry: AsyncRegistry) -> None:
        self._async = registry

    def __repr__(self) -> str:
        return repr(self._async)

    root = blocking(AsyncRegistry.root)
    start = blocking(AsyncRegistry.start)
    get_or_create = blocking(AsyncRegistry.get_or_create)
    lookup = blocking(AsyncRegistry.lookup)
    extend = blocking(AsyncRegistry.extend)
    prune = blocking(AsyncRegistry.prune)
    cleanup = blocking(AsyncRegistry.cleanup)
