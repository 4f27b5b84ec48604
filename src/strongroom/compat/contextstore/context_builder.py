"""ContextBuilder: the messages of a history that fit into a model's window."""

from __future__ import annotations

import math
import sys
from typing import Any

from strongroom.compat.contextstore.tokenizer import FallbackWordCountTokenizer, tokenizer_from_name
from strongroom.compat.contextstore.tokenizer_interfaces import (
    BuildResult,
    ContextBuilderInterface,
    MessageFilter,
    MetricsCallback,
    Tokenizer,
    ordered,
)
from strongroom.compat.contextstore.truncation import cost, get_strategy
from strongroom.errors import InvalidInput


class ContextBuilder(ContextBuilderInterface):
    """Builds prompts with one tokenizer. Without one, words are counted."""

    def __init__(self, tokenizer: Tokenizer | None = None, default_strategy: str = "truncate_oldest") -> None:
        self._tokenizer = tokenizer or FallbackWordCountTokenizer()
        self._default_strategy = default_strategy

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @classmethod
    def from_model(cls, model_name: str, **opts: Any) -> ContextBuilder:
        """Return a builder that counts as a model does, if that can be had here."""
        return cls(tokenizer_from_name(model_name, **opts))

    def build(
        self,
        messages: list[dict[str, Any]],
        max_tokens: float,
        strategy: str | None = None,
        strategy_opts: dict[str, Any] | None = None,
        pre_filter: MessageFilter | None = None,
        post_filter: MessageFilter | None = None,
        metrics_callback: MetricsCallback | None = None,
    ) -> BuildResult:
        """Choose the messages to send, in order, at most `max_tokens` of them.

        Both filters run before the cut: what they leave out takes no room from what they let in. A budget may be any
        number: a share of a window, infinite, or less than nothing after what was taken off it.
        """
        if not isinstance(max_tokens, (int, float)) or math.isnan(max_tokens):
            raise InvalidInput(f"max_tokens must be a number, not {max_tokens!r:.40}")
        max_tokens = math.floor(min(max(max_tokens, 0), sys.maxsize))
        chosen = get_strategy(strategy or self._default_strategy, **(strategy_opts or {}))
        wanted = [
            message
            for message in ordered(messages)
            if all(one is None or one(message) for one in (pre_filter, post_filter))
        ]
        before = sum(cost(message, self._tokenizer) for message in wanted)
        if before <= max_tokens and (max_tokens or not wanted):
            result = self._result(wanted, before, "none", before, {})
        else:
            cut = chosen.apply(wanted, max_tokens, self._tokenizer)
            told = {"dropped_ids": cut.dropped_ids, "summarized_ids": cut.summarized_ids, **cut.metadata}
            result = self._result(cut.messages, cut.tokens_after, chosen.name, before, told)
        if metrics_callback is not None:
            metrics_callback(
                {
                    "message_count": len(result.messages),
                    "total_tokens": result.total_tokens,
                    "max_tokens": max_tokens,
                    "approximate": result.approximate,
                    "strategy_used": result.strategy_used,
                    "metadata": result.metadata,
                    **result.metadata,
                }
            )
        return result

    def _result(
        self, messages: list[dict[str, Any]], tokens: int, strategy: str, before: int, told: dict[str, Any]
    ) -> BuildResult:
        metadata = {
            "truncation_applied": strategy != "none",
            "tokens_before": before,
            "dropped_ids": [],
            "summarized_ids": [],
            "iterations": 0,
            **told,
        }
        approximate = self._tokenizer.count_tokens("").approximate
        return BuildResult(messages, tokens, approximate, strategy, metadata)
