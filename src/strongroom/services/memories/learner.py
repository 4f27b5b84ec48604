"""What a model may suggest: memories learnt from a session, and changes that make what is known consistent again.

Everything it suggests is a proposal under the policy. The service's half is here; the work is in `learning` and
`consolidation`, which commit a suggestion together with the note that it was made.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from strongroom.arguments import checked
from strongroom.errors import InvalidInput
from strongroom.models import Model
from strongroom.scope import Scope
from strongroom.services.memories.consolidation import MOST_MEMORIES, Consolidation, Suggestions
from strongroom.services.memories.extraction import Whose, whose
from strongroom.services.memories.learning import MOST_MESSAGES, Learning, Lesson, Staged, Staging
from strongroom.services.memories.policy import CONSOLIDATOR, LEARNER, Policy, require_not_program
from strongroom.services.memories.search import Search
from strongroom.services.memories.values import Consolidated, Learnt, Request, ScopeName
from strongroom.services.memories.vectors import Vectors
from strongroom.services.sessions.handle import owner_of
from strongroom.services.sessions.session import AsyncSession
from strongroom.store import require_name


@checked
class Learner:
    """What memories do with a model of the caller's."""

    _scope: Scope
    _policy: Policy
    _vectors: Vectors
    _search: Search

    @abstractmethod
    async def _staged(
        self, wanted: Sequence[Request], id: str, proposer: str, run_id: str | None, about: str
    ) -> Staged | None: ...

    async def learn(
        self,
        session: str | AsyncSession,
        *,
        model: Model,
        user_id: str | None = None,
        project_id: str | None = None,
        scope: ScopeName | None = None,
        proposer: str = LEARNER,
        limit: Annotated[int, Meta(ge=1, le=MOST_MESSAGES)] = 50,
        commit_id: str | None = None,
    ) -> Learnt:
        """Propose what a model finds worth knowing in the messages of a session that nothing was learnt from yet.

        At most `limit` of them, the oldest first: `left` says whether to call again. The memories are of `user_id` and
        `project_id`, or of the session's own user. The model, a function from messages to an answer, only suggests:
        what it says is checked, and waits for a review like everything that `proposer` proposes. Nothing is learnt
        twice and nothing is missed, whoever dies when; if the model fails, nothing changed. It is asked several times
        about a message of more than 40,000 characters; `refused` says what of the longest it was not shown.
        """
        id = session if isinstance(session, str) else session.id
        _require(model, proposer)
        if user_id is None and project_id is None and scope in (None, "user"):
            user_id = await owner_of(self._scope, id)
        learning = Learning(self._scope, self._policy, id, whose(user_id, project_id, scope), proposer)
        return await learning.learn(model, limit, self._staging(proposer), commit_id, threads=self._scope.threads)

    async def consolidate(
        self,
        *,
        model: Model,
        user_id: str | None = None,
        project_id: str | None = None,
        scope: ScopeName | None = None,
        proposer: str = CONSOLIDATOR,
        limit: Annotated[int, Meta(ge=1, le=MOST_MEMORIES)] = 50,
        after: str | None = None,
        commit_id: str | None = None,
    ) -> Consolidated:
        """Propose what a model would supersede, merge or deprecate among memories of one owner that are alike.

        The newest `limit` memories are looked at, each beside those that share words or meaning with it, whatever their
        age; `after` goes on with older ones. Nobody is asked about the same group twice; `left` says whether to call
        again. The model only suggests: what it says is checked, reaches no memory that it was not shown, and waits for
        a review like everything that `proposer` proposes. If the model fails, nothing changed.
        """
        _require(model, proposer)
        made = self._consolidation(whose(user_id, project_id, scope), proposer)
        staging = self._staging(proposer)
        return await made.consolidate(model, limit, after, staging, commit_id, self._scope.threads)

    async def _consolidated(
        self, owner: Whose, proposer: str, after: str | None, made: Suggestions | None, commit_id: str
    ) -> Consolidated:
        """Commit what somebody else's model suggested: the server's half of `consolidate`."""
        consolidating = self._consolidation(owner, proposer)
        return await consolidating.record(consolidating.operation(after, commit_id), made, self._staging(proposer))

    def _consolidation(self, owner: Whose, proposer: str) -> Consolidation:
        return Consolidation(self._scope, self._policy, self._search, owner, proposer)

    async def _learnt(
        self, session_id: str, owner: Whose, proposer: str, lesson: Lesson | None, commit_id: str
    ) -> Learnt:
        """Commit what somebody else's model made of messages: the server's half of `learn`."""
        learning = Learning(self._scope, self._policy, session_id, owner, proposer)
        return await learning.record(learning.operation(commit_id), lesson, self._staging(proposer))

    def _staging(self, proposer: str) -> Staging:
        id = "batch_" + os.urandom(10).hex()

        async def staging(requests: Sequence[Request]) -> Staged | None:
            return await self._staged(requests, id, proposer, None, "")

        return staging


def _require(model: object, proposer: str) -> None:
    require_not_program(require_name(proposer, "a proposer"))
    if not callable(model):
        raise InvalidInput(f"a model is a function from messages to an answer, not {model!r:.60}; nothing changed")
