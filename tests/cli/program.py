"""A program with nothing to do, for `strongroom worker`, and models for `strongroom learn`."""

from __future__ import annotations

import json
from typing import Any

from strongroom.dispatch import Dispatcher

dispatcher = Dispatcher(poll_seconds=0.01)


@dispatcher.handler("idle")
def idle(payload: Any, call: Any) -> None:
    """Never called."""


not_one = "a dispatcher"


def quiet(messages: list[dict[str, str]]) -> Any:
    """Find nothing worth knowing."""
    return {"memories": []}


def repeating(messages: list[dict[str, str]]) -> Any:
    """Find every message worth knowing."""
    shown = json.loads(messages[-1]["content"])["messages"]
    return {"memories": [{"content": one["text"], "sources": [one["n"]]} for one in shown]}
