"""A worker: a process that runs a program's functions on a store. `strongroom worker --url ... module:dispatcher`."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from strongroom.context import AsyncContext
from strongroom.dispatch.dispatcher import AsyncDispatcher, Dispatcher
from strongroom.errors import InvalidInput
from strongroom.opening import Address, open_async_scope


def load(target: str) -> AsyncDispatcher | Dispatcher:
    """Import the dispatcher a command line names as `module:name`."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise InvalidInput(f"a worker's target must look like 'module:dispatcher', not {target!r:.80}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: the program's own folder
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise InvalidInput(f"there is no dispatcher at {target!r:.80}: {problem}") from problem
    if not isinstance(found, AsyncDispatcher | Dispatcher):
        raise InvalidInput(f"{target!r:.80} is a {type(found).__name__}, not a dispatcher")
    return found


def work(target: str, *, url: Address, space: str = "default", drain: bool = False, **options: Any) -> None:
    """Run the functions of `module:dispatcher` on a store until told to stop (SIGTERM or SIGINT), or until idle."""
    asyncio.run(_work(load(target), url, space, drain, options))


async def _work(
    dispatcher: AsyncDispatcher | Dispatcher, url: Address, space: str, drain: bool, options: dict[str, Any]
) -> None:
    async with (
        AsyncContext(await open_async_scope(url, space, options)) as ctx,
        dispatcher.bind(ctx, address=url) as bound,
    ):
        _on_signals(bound.stop)
        await (bound.drain() if drain else bound.run())


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread: the caller's business
            loop.add_signal_handler(number, stop)
