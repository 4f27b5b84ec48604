"""LLMClient: one question to one model, through the provider's own package, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any

from strongroom.compat.aos_context.config import LLMConfig

Messages = list[dict[str, str]]


class LLMClient:
    """A client of OpenAI, of Anthropic, or of whatever speaks OpenAI's protocol at `base_url`."""

    def __init__(self, config: LLMConfig | None = None) -> None:
        self.config = config or LLMConfig.from_env()
        self.client = self._create_client()

    def complete(self, messages: Messages, temperature: float | None = None, max_tokens: int | None = None) -> str:
        """Return the model's answer to a conversation."""
        warmth = self.config.temperature if temperature is None else temperature
        limit = self.config.max_tokens if max_tokens is None else max_tokens
        if self.config.provider == "anthropic":
            return self._complete_anthropic(messages, warmth, limit)
        return self._complete_openai(messages, warmth, limit)

    def _create_client(self) -> Any:
        package, client = ("anthropic", "Anthropic") if self.config.provider == "anthropic" else ("openai", "OpenAI")
        try:
            module: Any = importlib.import_module(package)
        except ImportError:
            needs = f"provider {self.config.provider!r} needs the package {package}: pip install {package}"
            raise ImportError(needs) from None
        given = {"api_key": self.config.api_key, "base_url": self.config.base_url}
        return getattr(module, client)(**{name: value for name, value in given.items() if value is not None})

    def _complete_openai(self, messages: Messages, temperature: float, max_tokens: int) -> str:
        answer = self.client.chat.completions.create(
            model=self.config.model_name, messages=messages, temperature=temperature, max_tokens=max_tokens
        )
        return str(answer.choices[0].message.content or "")

    def _complete_anthropic(self, messages: Messages, temperature: float, max_tokens: int) -> str:
        system = "\n".join(message["content"] for message in messages if message["role"] == "system")
        answer = self.client.messages.create(
            model=self.config.model_name,
            messages=[message for message in messages if message["role"] != "system"],
            temperature=temperature,
            max_tokens=max_tokens,
            **({"system": system} if system else {}),
        )
        return "".join(block.text for block in answer.content if block.type == "text")


def create_llm_client(config: LLMConfig | None = None) -> LLMClient:
    return LLMClient(config)
