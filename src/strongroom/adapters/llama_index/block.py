"""StrongroomMemoryBlock: what LlamaIndex's `Memory` puts into a prompt beside the newest messages.

That is what was reviewed and is known for good (`ctx.memories`), and what was said earlier in this conversation, as far
as it answers the newest question. Archived messages are stored already, so a block that is handed them keeps nothing of
its own; with `extract`, a function of yours, it proposes what they teach, and somebody reviews it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock

from strongroom.adapters.contexts import Opened, Where
from strongroom.adapters.llama_index.chats import FRAMEWORK
from strongroom.errors import NotFound
from strongroom.queries import LONGEST_QUERY
from strongroom.quoting import quoted
from strongroom.services.sessions.layouts import session_name

Extract = Callable[[Sequence[ChatMessage]], Sequence[str]]


class StrongroomMemoryBlock(BaseMemoryBlock[str]):
    """What a store knows, found by the newest question: `Memory(memory_blocks=[StrongroomMemoryBlock(ctx)], ...)`.

    `k` memories, those of `user_id` and those for everybody, and `earlier` messages of the conversation.
    """

    name: str = "long_term_memory"
    k: int = Field(default=5, ge=1, le=100)
    earlier: int = Field(default=3, ge=0, le=100)
    user_id: str | None = None
    proposer: str = FRAMEWORK

    _opened: Opened = PrivateAttr()
    _extract: Extract | None = PrivateAttr(default=None)

    def __init__(self, where: Where, *, extract: Extract | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._opened = Opened(where, {})
        self._extract = extract

    def close(self) -> None:
        """Close the store, if it was opened here."""
        self._opened.close()

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Return a line for each memory and each earlier message that answer the newest question, the best first."""
        asked = [one.content for one in messages or [] if one.role == MessageRole.USER and one.content]
        if not asked:
            return ""
        ctx, query = self._opened.ctx.awaitable, asked[-1][:LONGEST_QUERY]
        hits = await ctx.memories.search(query, self.k, user_id=self.user_id)
        lines = [quoted("", hit.memory.content) for hit in hits]
        key = block_kwargs.get("session_id")
        if self.earlier and key is not None:
            try:
                session = await ctx.sessions.get(session_name(FRAMEWORK, key))
            except NotFound:
                return "\n".join(lines)
            shown = {one.content for one in messages or []}
            found = await session.search(query, k=self.earlier + len(shown))
            said = [hit.message for hit in found if hit.message.content not in shown]
            lines += [quoted(f"{one.role} said: ", str(one.content)) for one in said[: self.earlier]]
        return "\n".join(lines)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Propose what messages teach that go out of the prompt, if there is a function that says so."""
        facts = [] if self._extract is None else self._extract(messages)
        common = {"op": "add", "type": "fact", "confidence": 0.5, "source_refs": []}
        whose = {"scope": "global"} if self.user_id is None else {"scope": "user", "user_id": self.user_id}
        told: list[Any] = [
            {**common, **whose, "content": fact, "rationale": "from messages that left the prompt"} for fact in facts
        ]
        if told:
            await self._opened.ctx.awaitable.memories.propose(told, proposer=self.proposer)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave out lines from the end, at least so many tokens."""
        lines, count = content.split("\n"), self._opened.awaitable.tokenizer.count
        while lines and tokens_to_truncate > 0:
            tokens_to_truncate -= count(lines.pop())
        return "\n".join(lines) or None
