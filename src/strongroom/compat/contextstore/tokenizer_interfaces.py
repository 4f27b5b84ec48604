"""What counting and cutting are made of: tokenizers, strategies, their results, and the order of messages."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeGuard

SORT_KEY_TIMESTAMP = "timestamp"
SORT_KEY_ID = "id"

MessageFilter = Callable[[dict[str, Any]], bool]
SummarizerCallback = Callable[[list[dict[str, Any]]], str | Awaitable[str]]
MetricsCallback = Callable[[dict[str, Any]], None]


@dataclass
class TokenCountResult:
    """How many tokens, and whether that is an estimate."""

    count: int
    approximate: bool = False


class Tokenizer(ABC):
    """Counts the tokens of a text."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def count_tokens(self, text: str) -> TokenCountResult: ...

    @abstractmethod
    def tokenize(self, text: str) -> list[int] | None:
        """Return the ids of a text's tokens, or None if there are none to tell."""


@dataclass
class TruncationResult:
    """Messages that fit, and what became of the others."""

    messages: list[dict[str, Any]]
    tokens_before: int
    tokens_after: int
    dropped_ids: list[str] = field(default_factory=list)
    summarized_ids: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class TruncationStrategy(ABC):
    """Makes messages fit into a budget."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def apply(self, messages: list[dict[str, Any]], token_budget: int, tokenizer: Tokenizer) -> TruncationResult: ...


@dataclass
class BuildResult:
    """The messages to send. `strategy_used` is "none" if all of them fit."""

    messages: list[dict[str, Any]]
    total_tokens: int
    approximate: bool
    strategy_used: str
    metadata: dict[str, Any] = field(default_factory=dict)


class ContextBuilderInterface(ABC):
    """Makes a prompt of a history."""

    @abstractmethod
    def build(
        self,
        messages: list[dict[str, Any]],
        max_tokens: int,
        strategy: str | None = None,
        strategy_opts: dict[str, Any] | None = None,
        pre_filter: MessageFilter | None = None,
        post_filter: MessageFilter | None = None,
        metrics_callback: MetricsCallback | None = None,
    ) -> BuildResult: ...


def deterministic_sort_key(message: Mapping[str, Any]) -> tuple[float, tuple[tuple[int, str], ...]]:
    """Return what a message is ordered by: its instant, then its id, in which 9 comes before 10."""
    at = instant(message)
    return (float("-inf") if at is None else at), _natural(str(message.get(SORT_KEY_ID, "")))


def ordered(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of messages in order of time, if each of them says at which instant it was; otherwise as given.

    A time without an offset is no instant: on another machine, or in the hour when summer ends, it is another one. A
    history of such messages, or one that mixes them with others, is already in the order in which they arrived.
    """
    copies = [dict(message) for message in messages]
    if all(_is_instant(message.get(SORT_KEY_TIMESTAMP)) for message in copies):
        copies.sort(key=deterministic_sort_key)
    return copies


def instant(message: Mapping[str, Any]) -> float | None:
    """Return when a message was said, in seconds, from any of the ways to write it; None if it does not say.

    A time without an offset is taken for UTC: the same message has the same key on every machine.
    """
    value = message.get(SORT_KEY_TIMESTAMP)
    if _is_number(value):
        return float(value)
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_instant(value: Any) -> bool:
    """Tell whether a time is the same moment everywhere: a number of seconds, or a time with an offset."""
    if _is_number(value):
        return True
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return time.tzinfo is not None
    except ValueError:
        return False


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    parts = re.split(r"([0-9]+)", text)
    return tuple((int(part) if place % 2 else -1, part) for place, part in enumerate(parts))
