"""What a prompt is: messages for a provider, and a receipt of what they are made of."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strongroom.meant import Meant
from strongroom.showing import shown_by


@shown_by("name", "tokens", "ids")
class PromptPart(Struct, frozen=True):
    """One part of a prompt: what it adds to the tokens, and the ids of what stands in it."""

    name: str
    tokens: int
    ids: tuple[str, ...] = ()


class PromptLeftOut(Struct, frozen=True):
    """How much of a part was left out for one reason, and the ids where they are known.

    Reasons: `budget`; `empty`, a message in which there is nothing to read; `reasoning`, one that is nothing else;
    `no_call`, an answer whose tool call is not there; `damaged`, what a search came to and cannot be read; `no_index`,
    a store that cannot search, or not in a place where it can only be read and its index lags.
    """

    part: str
    reason: str
    count: int
    ids: tuple[str, ...] = ()


@shown_by("format", "tokens", "max_tokens", "tokenizer", "approximate", "parts", "left_out", "degraded")
class PromptReceipt(Struct, frozen=True):
    """What a prompt was made of.

    `tokens` counts all that is sent, tools included, and is the sum of the parts. `completed` tool calls had no answer
    and got one that says so. The first `stable_prefix` messages, with system prompt and tools `stable_prefix_tokens` of
    the whole, stay the same word for word while the conversation goes on, so a prompt cache can hold them. `revision`
    is the session's. `user_id` is whose memories were searched, beside everybody's. `degraded` says what a search had
    to do without: that an embedder is down, say, and words alone decided.
    """

    format: str
    max_tokens: int
    reserve_tokens: int
    tokens: int
    tokenizer: str
    approximate: bool
    parts: tuple[PromptPart, ...]
    left_out: tuple[PromptLeftOut, ...]
    completed: int
    stable_prefix: int
    stable_prefix_tokens: int
    query: str
    revision: str | None = None
    user_id: str | None = None
    degraded: str | None = None


@shown_by("messages", "receipt.format", "total_tokens", "receipt.max_tokens", "receipt.approximate", "tools")
class Prompt(Meant, Struct, frozen=True):
    """Messages to send, and where the provider wants it apart the system prompt; tools as they were given.

    >>> ctx = strongroom.open("memory://")
    >>> chat = ctx.sessions.open("support-7")
    >>> _ = chat.append({"role": "user", "content": "Where is my order?"})
    >>> prompt = ctx.prompt(session=chat, system="Be brief.", max_tokens=2000, format="openai")
    >>> [message["role"] for message in prompt.messages], prompt.receipt.tokens <= 2000
    (['system', 'user'], True)
    """

    messages: list[dict[str, Any]]
    system: Any
    tools: list[Any]
    receipt: PromptReceipt

    @property
    def total_tokens(self) -> int:
        """What all of it costs, tools and system prompt included."""
        return self.receipt.tokens
