"""LLMClient: one question to one model, through the provider's own package, imported when first needed.

What is meant for a server of one's own goes there alone: its address is always given, never left to the package, whose
default is OpenAI, and a key of OpenAI is never sent to it. A provider that is not known is refused, not guessed.
"""

from __future__ import annotations

import importlib
from typing import Any

from strongroom.compat.aos_context.config import LLMConfig

Messages = list[dict[str, str]]

LOCAL = ("ollama", "local")
LOCAL_URL = "http://localhost:11434/v1"
NO_KEY = "not-needed"  # the package insists on one
_CLIENTS = {"openai": ("openai", "OpenAI"), "anthropic": ("anthropic", "Anthropic")} | dict.fromkeys(
    LOCAL, ("openai", "OpenAI")
)


class LLMClient:
    """A client of OpenAI, of Anthropic, or of a server of one's own that speaks OpenAI's protocol."""

    def __init__(self, config: LLMConfig | None = None) -> None:
        self.config = config or LLMConfig.from_env()
        self.provider = self.config.provider.strip().lower()
        if self.provider not in _CLIENTS:
            known = ", ".join(_CLIENTS)
            raise ValueError(f"there is no provider {self.config.provider!r:.60}; there are {known}; nothing was sent")
        self.client = self._create_client()

    def complete(self, messages: Messages, temperature: float | None = None, max_tokens: int | None = None) -> str:
        """Return the model's answer to a conversation."""
        warmth = self.config.temperature if temperature is None else temperature
        limit = self.config.max_tokens if max_tokens is None else max_tokens
        if self.provider == "anthropic":
            return self._complete_anthropic(messages, warmth, limit)
        return self._complete_openai(messages, warmth, limit)

    def _create_client(self) -> Any:
        package, client = _CLIENTS[self.provider]
        try:
            module: Any = importlib.import_module(package)
        except ImportError:
            needs = f"provider {self.provider!r} needs the package {package}: pip install {package}"
            raise ImportError(needs) from None
        return getattr(module, client)(**self._address())

    def _address(self) -> dict[str, str]:
        """Return the server and the key, where the package is not to find them by itself."""
        if self.provider in LOCAL:
            url = (self.config.base_url or LOCAL_URL).rstrip("/")
            return {"base_url": url if url.endswith("/v1") else f"{url}/v1", "api_key": NO_KEY}
        given = {"api_key": self.config.api_key, "base_url": self.config.base_url}
        return {name: value for name, value in given.items() if value}

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
