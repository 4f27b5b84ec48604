"""What a model is asked and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class LLMRequest:
    messages: list[dict[str, str]]
    model: str
    temperature: float = 0.7
    max_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    stream: bool = False


@dataclass
class LLMResponse:
    content: str
    model: str
    usage: dict[str, int]
    finish_reason: str
    raw: Any = None


class BackendError(Exception):
    """A model could not be asked."""
