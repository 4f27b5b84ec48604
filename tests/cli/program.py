"""A program with nothing to do, for `strongroom worker`."""

from __future__ import annotations

from typing import Any

from strongroom.dispatch import Dispatcher

dispatcher = Dispatcher(poll_seconds=0.01)


@dispatcher.handler("idle")
def idle(payload: Any, call: Any) -> None:
    """Never called."""


not_one = "a dispatcher"
