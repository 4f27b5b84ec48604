"""A program with nothing to do, for `strongroom worker`, and models to be asked by `strongroom learn` and others."""

from __future__ import annotations

import json
import os
import signal
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


def careless(messages: list[dict[str, str]]) -> Any:
    """Find something that no message says."""
    return {"memories": [{"content": "tea", "sources": [99]}]}


def stopping(messages: list[dict[str, str]]) -> Any:
    """Find nothing worth knowing, and have the process told to stop."""
    os.kill(os.getpid(), signal.SIGTERM)
    return quiet(messages)


def unmoved(messages: list[dict[str, str]]) -> Any:
    """Find nothing to change."""
    return {"changes": []}


def merging(messages: list[dict[str, str]]) -> Any:
    """Make one of the memories of every group."""
    groups = json.loads(messages[-1]["content"])["groups"]
    return {"changes": [_merge(group) for group in groups]}


def _merge(group: list[dict[str, Any]]) -> dict[str, Any]:
    text = " and ".join(one["text"] for one in group)
    return {"action": "merge", "memories": [one["n"] for one in group], "content": text}


def away(texts: list[str]) -> Any:
    """An embedder that nobody reaches."""
    raise ConnectionError("no route to it")
