"""StrongroomContextProvider: what is known for good, put before a model, and what a run teaches, proposed.

Nothing that an agent proposes is found before somebody has committed it (`ctx.memories.pending`, `commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from strongroom.adapters.agent_framework.history import FRAMEWORK
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.arguments import require_positive
from strongroom.queries import LONGEST_QUERY
from strongroom.quoting import quoted

Extract = Callable[[Sequence[Message]], Sequence[str]]
HEADING = "What is known from earlier, for you to use where it helps:"


class StrongroomContextProvider(ContextProvider, Closing):
    """Search `ctx.memories` before each run: `Agent(client, context_providers=[StrongroomContextProvider(ctx)])`.

    `k` memories, those of `user_id` and those for everybody. `extract`, a function of yours, is given what was asked
    and answered, and returns facts to propose.
    """

    after_run_once_per_turn = True

    def __init__(
        self,
        where: Where,
        source_id: str = "strongroom_memories",
        *,
        user_id: str | None = None,
        k: int = 5,
        extract: Extract | None = None,
        proposer: str = FRAMEWORK,
        **options: Any,
    ) -> None:
        super().__init__(source_id)
        require_positive(k=k)
        self.user_id, self.k, self.extract, self.proposer = user_id, k, extract, proposer
        self.opened = Opened(where, options)

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add the memories that answer what is asked, as a message."""
        query = "\n".join(one.text for one in context.input_messages if one.text)[:LONGEST_QUERY]
        if not query:
            return
        hits = await self.opened.ctx.awaitable.memories.search(query, self.k, user_id=self.user_id)
        if hits:
            told = "\n".join([HEADING, *(quoted("- ", hit.memory.content) for hit in hits)])
            context.extend_messages(self, [Message("user", [told])])

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Propose what was learned, if there is a function that says so."""
        answered = context.response.messages if context.response else []
        facts = [] if self.extract is None else self.extract([*context.input_messages, *answered])
        common = {"op": "add", "type": "fact", "confidence": 0.5, "source_refs": []}
        whose = {"scope": "global"} if self.user_id is None else {"scope": "user", "user_id": self.user_id}
        told: list[Any] = [{**common, **whose, "content": fact, "rationale": "from a run"} for fact in facts]
        if told:
            await self.opened.ctx.awaitable.memories.propose(told, proposer=self.proposer)
