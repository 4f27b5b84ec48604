"""`complete`, by which handlers ask a model. Strongroom has none: say once which function asks yours.

```python
from strongroom.compat.xml_pipeline.llm import use_model


async def ask(request):
    answer = await client.chat.completions.create(model=request.model, messages=request.messages)
    return LLMResponse(answer.choices[0].message.content, request.model, {}, "stop")


use_model(ask)
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from strongroom.compat.xml_pipeline.llm.backend import BackendError, LLMRequest, LLMResponse

__all__ = ["BackendError", "LLMRequest", "LLMResponse", "complete", "use_model"]

Model = Callable[[LLMRequest], Awaitable[LLMResponse]]


class _Models:
    """The function that is asked, once there is one."""

    chosen: Model | None = None


def use_model(ask: Model | None) -> None:
    """Let this function answer `complete`. None: nobody does."""
    _Models.chosen = ask


async def complete(
    model: str,
    messages: list[dict[str, str]],
    *,
    temperature: float = 0.7,
    max_tokens: int | None = None,
    tools: list[dict[str, Any]] | None = None,
    agent_id: str | None = None,
) -> LLMResponse:
    """Ask the model that `use_model` named."""
    if _Models.chosen is None:
        raise BackendError("there is no model here: name a function that asks yours with use_model()")
    return await _Models.chosen(LLMRequest(messages, model, temperature, max_tokens, tools))
