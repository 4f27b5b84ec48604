"""Operations of files, under the budget that a caller says they have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from strongroom.server.operations.invocation import Invocation, Make, call, expected, understood
from strongroom.services.files.files import AsyncFiles
from strongroom.services.files.values import Limits


def limited(method: Callable[..., Awaitable[object]]) -> Make:
    """Call a method of files; the target is the path."""

    async def made(op: Invocation) -> object:
        files = AsyncFiles(op.ctx.scope, limits=understood(Limits, op.more))
        return await call(op, method, files, named=op.arguments | {"path": op.id} | expected(op, "expected_version"))

    return made
