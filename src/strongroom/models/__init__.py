"""Asking a model: any function from messages to an answer, plain or async; `openai` and `anthropic` make one over HTTP.

A model is given messages as `[{"role": "system" or "user", "content": text}]` and returns a text, or the data that such
a text would hold. What it answers is nobody's word but its own: whoever asked reads it as input from a stranger.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from strongroom.embedders import offload
from strongroom.errors import StrongroomError, Unavailable
from strongroom.models.chat import ChatModel, anthropic, openai
from strongroom.models.named import named

__all__ = ["ChatModel", "Model", "anthropic", "ask", "named", "openai"]

Model = Callable[[list[dict[str, str]]], Any]


async def ask(model: Model, messages: Sequence[dict[str, str]], *, threads: bool) -> Any:
    """Return what a model answers; raise `Unavailable` if it fails. On a thread if there is a loop to keep free."""
    try:
        if offload.is_async(model):
            if not threads:
                raise offload.NeedsALoop("this model")
            return await model(list(messages))
        answer = await offload.call(threads, model, list(messages))
        if not inspect.isawaitable(answer):
            return answer
        if not threads:
            if inspect.iscoroutine(answer):
                answer.close()
            raise offload.NeedsALoop("this model")
        return await answer
    except StrongroomError:
        raise
    except Exception as problem:
        raise Unavailable(f"the model failed: {type(problem).__name__}: {problem}", reason="model") from problem
