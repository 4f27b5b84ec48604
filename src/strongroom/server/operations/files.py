"""Operations of files, under the budget that a caller says they have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from strongroom.server.operations.asked import Asked, Make, call, understood
from strongroom.services.files.files import AsyncFiles
from strongroom.services.files.values import Limits


def limited(method: Callable[..., Awaitable[object]]) -> Make:
    """Call a method of files; the target is the path."""

    async def made(asked: Asked) -> object:
        files = AsyncFiles(asked.ctx.scope, limits=understood(Limits, asked.more))
        return await call(asked, method, files, named=asked.arguments | {"path": asked.id})

    return made
