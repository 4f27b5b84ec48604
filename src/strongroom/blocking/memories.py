"""Memories: the blocking twin of AsyncMemories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from strongroom.arguments import checked, got_by
from strongroom.blocking.sessions import Session
from strongroom.bridge import blocking, plain, run
from strongroom.embedders import Embedder
from strongroom.meant import Meant
from strongroom.models import Model
from strongroom.services.memories.learning import MOST_MESSAGES
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import LEARNER, Policy
from strongroom.services.memories.values import Learnt, ScopeName
from strongroom.vectors import VectorIndex


@got_by("`ctx.memories`", lambda given: isinstance(given, AsyncMemories))
class Memories(Meant):
    """What is known for longer than a run, in one space.

    >>> ctx = strongroom.open("memory://")
    >>> _ = ctx.memories.add("likes tea", user_id="ana")
    >>> ctx.memories.search("tea", user_id="ana")[0].content
    'likes tea'
    >>> asked = ctx.memories.add("lives in Rome", user_id="ana", proposer="agent-7")  # an agent waits for a review
    >>> asked.status, len(ctx.memories.commit(asked, reviewer="bo").memory_ids)
    ('pending', 1)
    """

    def __init__(self, memories: AsyncMemories) -> None:
        self._async = memories

    def using(
        self,
        *,
        policy: Policy | None = None,
        embedder: Embedder | Callable[..., Any] | None = None,
        index: VectorIndex | None = None,
    ) -> Memories:
        """Return the same memories under another policy, embedder or vector index. What is not given stays."""
        return Memories(self._async.using(policy=policy, embedder=embedder, index=index))

    def __repr__(self) -> str:
        return repr(self._async)

    @checked
    def learn(
        self,
        session: str | Session,
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
        plain("model", model, writes=True)
        learning = self._async.learn(
            session._async if isinstance(session, Session) else session,
            model=model,
            user_id=user_id,
            project_id=project_id,
            scope=scope,
            proposer=proposer,
            limit=limit,
            commit_id=commit_id,
        )
        return run(learning)

    consolidate = blocking(AsyncMemories.consolidate)
    add = blocking(AsyncMemories.add)
    update = blocking(AsyncMemories.update)
    delete = blocking(AsyncMemories.delete)
    propose = blocking(AsyncMemories.propose)
    batch = blocking(AsyncMemories.batch)
    pending = blocking(AsyncMemories.pending)
    commit = blocking(AsyncMemories.commit)
    batch_writes = blocking(AsyncMemories.batch_writes)
    reject = blocking(AsyncMemories.reject)
    search = blocking(AsyncMemories.search)
    get = blocking(AsyncMemories.get)
    list = blocking(AsyncMemories.list)
    history = blocking(AsyncMemories.history)
    at = blocking(AsyncMemories.at)
    revoke = blocking(AsyncMemories.revoke)
    would_revoke = blocking(AsyncMemories.would_revoke)
    revocation = blocking(AsyncMemories.revocation)
    erase = blocking(AsyncMemories.erase)
    sweep = blocking(AsyncMemories.sweep)
    index = blocking(AsyncMemories.index)
    health = blocking(AsyncMemories.health)
    reembed = blocking(AsyncMemories.reembed)
