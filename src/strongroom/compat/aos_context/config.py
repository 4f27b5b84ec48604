"""Settings. Nothing here is ever recorded: a ledger must not learn an API key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


@dataclass(frozen=True)
class LLMConfig:
    """Which model to ask, and how. The key is left out of the printed form.

    `provider` is `openai`, `anthropic`, or, for a server of your own, `ollama` or `local`.
    """

    provider: str = "openai"
    base_url: str | None = None
    model_name: str = "gpt-4o"
    api_key: str | None = field(default=None, repr=False)
    temperature: float = 0.7
    max_tokens: int = 2000

    @classmethod
    def from_env(cls) -> LLMConfig:
        """Read the `LLM_*` variables, and the provider's own key variable where `LLM_API_KEY` is not set."""
        provider = (os.environ.get("LLM_PROVIDER") or cls.provider).strip().lower()
        return cls(
            provider=provider,
            base_url=os.environ.get("LLM_BASE_URL") or None,
            model_name=os.environ.get("LLM_MODEL_NAME", cls.model_name),
            api_key=os.environ.get("LLM_API_KEY") or os.environ.get(_KEYS.get(provider, "")) or None,
            temperature=float(os.environ.get("LLM_TEMPERATURE", cls.temperature)),
            max_tokens=int(os.environ.get("LLM_MAX_TOKENS", cls.max_tokens)),
        )


@dataclass(frozen=True)
class ContextConfig:
    """The limits of a working set. A run keeps those it was created with."""

    schema_version: str = "2.1"
    ws_max_tokens: int = 2000
    pinned_context_max_items: int = 10
    drift_warn_threshold: float = 0.60
    drift_block_threshold: float = 0.50
    milestone_step_cap: int = 10
    milestone_error_cap: int = 3
    llm_config: LLMConfig | None = field(default_factory=LLMConfig.from_env)


DEFAULT_CONFIG = ContextConfig()
