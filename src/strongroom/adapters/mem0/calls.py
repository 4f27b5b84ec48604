"""mem0's names and answers on Strongroom: `Memory` and `AsyncMemory` over `ctx.memories`. It needs no mem0.

A person's memories are those of `ctx.memories` with that `user_id`. Those that name only an agent or a run belong to
the project `mem0`. `agent_id`, `run_id`, `role` and `actor_id` are tags, so that an index narrows by them. An update
makes a new memory there, as every update does; here the id stays that of the first, which its successors carry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from typing import Any

from msgspec.structs import replace

import strongroom.adapters.mem0.shapes as shapes
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.mem0.shapes import Answer
from strongroom.bridge import blocking
from strongroom.embedders import Embedder
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.models import Model, ask
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.memories.decisions import expired
from strongroom.services.memories.extraction import Line, Whose, extracted, question
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.policy import PROGRAM, Policy
from strongroom.services.memories.values import Memory as Stored
from strongroom.services.memories.values import Proposal, Written
from strongroom.values import moment

BATCH = 100


class Calls:
    """The calls, written once."""

    def __init__(self, scope: Scope, memories: AsyncMemories, proposer: str, model: Model | None = None) -> None:
        self._scope, self._memories, self._proposer = scope, memories, proposer
        self._named = None if proposer == PROGRAM else proposer
        self._model = model

    async def add(
        self,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | date | None = None,
        infer: bool | None = None,
    ) -> Answer:
        """Remember each message word for word, or with `infer` what the model finds in them; all in one commit.

        `infer` is as if True where there is a model, else False. System messages are left out. What is known already
        is not known twice: its event is NONE. What waits for a reviewer is PENDING.
        """
        if infer and self._model is None:
            raise InvalidInput(
                "infer=True has a model choose what to keep, and this Memory has none: make it with model=..., or pass "
                "infer=False, which keeps every message as it is; nothing changed"
            )
        whose, tags = shapes.whose_and_tags({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        common: Answer = {
            "op": "add", "type": "fact", "rationale": "added through mem0", "confidence": 1.0, "source_refs": [],
            "metadata": shapes.metadata_of(metadata), "expires_at": shapes.end_of(expiration_date), **whose,
        }  # fmt: skip
        said = shapes.messages_of(messages)
        if not said:
            return {"results": []}
        requests: list[Any] = [{**common, "content": one["content"], "tags": [*tags, *_speaker(one)]} for one in said]
        if self._model is not None and infer is not False:
            requests = await self._inferred(self._model, said, common, tags)
            if not requests:
                return {"results": []}
        batch = await self._memories._propose(requests, proposer=self._proposer, about="add")
        return {"results": [await self._added(one, batch.id) for one in batch.proposals]}

    async def _inferred(self, model: Model, said: Sequence[Mapping[str, Any]], common: Answer, tags: list[str]) -> Any:
        """Return requests for what a model finds worth knowing in messages. Its answer is checked like any other."""
        now = moment(self._scope.clock())
        lines = [Line(str(one["role"]), one.get("name"), now, one["content"], ()) for one in said]
        answer = await ask(model, question(lines), threads=self._scope.threads)
        owner = Whose(common["scope"], common.get("user_id"), common.get("project_id"))
        found = extracted(answer, lines, owner, Policy(), now, tags)
        return [
            replace(one, metadata={**common["metadata"], **one.metadata}, expires_at=common["expires_at"])
            for one in found.requests
        ]

    async def _added(self, proposal: Proposal, batch_id: str) -> Answer:
        named = shapes.tagged(proposal.request.tags)
        answer = {"id": proposal.memory_id, "memory": proposal.request.content, "event": "ADD"}
        answer |= {"actor_id": named.get("actor_id"), "role": named.get("role")}
        if proposal.outcome == "pending":
            return answer | {"event": "PENDING", "batch_id": batch_id, "flags": list(proposal.flags)}
        if proposal.duplicate_of is not None:
            return answer | {"event": "NONE", "id": shapes.first_id(await self._memories.get(proposal.duplicate_of))}
        return answer

    async def get(self, memory_id: str) -> Answer | None:
        """Return a memory as it is now, None if there is none (any more)."""
        memory = await self._current(memory_id)
        return None if memory is None else shapes.shown(memory)

    async def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Answer:
        """Return the first `top_k` memories of an owner, by order of creation."""
        named = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        found = await self._all(shapes.lens(filters, named), shapes.count(top_k))
        return {"results": [shapes.shown(memory) for memory in found]}

    async def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Answer:
        """Return the memories of an owner that answer a query best. Scores compare within one answer only."""
        lens = shapes.lens(filters, {"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        hits = await self._memories.search(query, shapes.count(top_k), **lens)
        kept = [hit for hit in hits if threshold is None or hit.score >= threshold]
        return {"results": [{**shapes.shown(hit.memory), "score": hit.score} for hit in kept]}

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | date | None = None,
        data: str | None = None,
    ) -> Answer:
        """Replace the text (`text`, or `data` as it was called), the metadata, or both. The id stays."""
        new = data if text is None else text
        if new is None and metadata is None and expiration_date is None:
            raise InvalidInput("update() needs text, metadata or expiration_date; nothing changed")
        given, until = None if metadata is None else shapes.metadata_of(metadata), shapes.end_of(expiration_date)

        async def change(memory: Stored) -> Written:
            kept = shapes.own_metadata(memory) if given is None else given
            ours = {shapes.FIRST: shapes.first_id(memory), shapes.SINCE: shapes.since(memory)}
            same = new is None or new == memory.content  # and so are the times that it tells of
            return await self._memories.update(
                memory.id,
                memory.content if new is None else new,
                metadata={**kept, **ours},
                expires_at=until,
                happened_at=memory.happened_at if same else None,
                valid_from=memory.valid_from if same else None,
                valid_until=memory.valid_until if same else None,
                proposer=self._named,
            )

        return await self._changed(memory_id, change, "updated")

    async def delete(self, memory_id: str) -> Answer:
        """Stop finding a memory. `history` still knows it; `ctx.memories.erase` leaves nothing of it."""

        async def change(memory: Stored) -> Written:
            return await self._memories.delete(memory.id, proposer=self._named)

        return await self._changed(memory_id, change, "deleted")

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Answer:
        """Delete what `get_all` shows for this owner, in commits of a hundred."""
        lens = shapes.lens(None, {"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        answer: Answer = {"message": "Memories deleted successfully!"}
        for _ in attempts("the memories to delete"):
            found = await self._all(lens)
            try:
                for part in [found[start : start + BATCH] for start in range(0, len(found), BATCH)]:
                    requests: list[Any] = [shapes.deleting(memory) for memory in part]
                    batch = await self._memories._propose(requests, proposer=self._proposer, about="delete")
                    if batch.status == "pending":
                        answer = {"message": "Deletion waits for a reviewer"}
            except Conflict:
                continue  # somebody else changed or deleted one of them
            break
        return answer

    async def history(self, memory_id: str) -> list[Answer]:
        """Return what happened to a memory, the oldest first."""
        try:
            changes, memory = await self._memories.history(memory_id), await self._memories.get(memory_id)
        except NotFound:
            return []
        return shapes.rows(changes, memory)

    async def reset(self) -> None:
        """Erase, for good, the memories of every user and of every agent and run of this adapter in the space."""
        if self._proposer != PROGRAM:
            raise InvalidInput(
                f"what {self._proposer!r:.80} changes is reviewed, and an erasure cannot be: only a Memory without a "
                "proposer can reset; nothing changed"
            )
        users, after = set[str](), None
        while True:
            page = await self._memories.list(status=None, everyone=True, after=after, limit=shapes.MOST)
            users.update(memory.user_id for memory in page if memory.user_id is not None)
            if (after := page.next) is None:
                break
        for user in sorted(users):
            await self._memories.erase(user_id=user, by=PROGRAM, reason="reset through mem0")
        await self._memories.erase(project_id=shapes.PROJECT, by=PROGRAM, reason="reset through mem0")

    async def _all(self, lens: dict[str, Any], most: int | None = None) -> list[Stored]:
        found, after = list[Stored](), None
        while True:
            page = await self._memories.list(after=after, limit=BATCH, **lens)
            found += page
            if (after := page.next) is None or (most is not None and len(found) >= most):
                return found[:most]

    async def _current(self, memory_id: str) -> Stored | None:
        try:
            memory = await self._memories.get(memory_id)
            while memory.status == "superseded" and memory.superseded_by is not None:
                memory = await self._memories.get(memory.superseded_by)
        except NotFound:
            return None
        gone = memory.status != "active" or expired(memory, moment(self._scope.clock()))
        return None if gone else memory

    async def _changed(self, memory_id: str, change: Callable[[Stored], Awaitable[Written]], done: str) -> Answer:
        """Change a memory as it is now; and again if somebody else did meanwhile."""
        for _ in attempts(f"memory {memory_id!r:.80}"):
            memory = await self._current(memory_id)
            if memory is None:
                raise InvalidInput(f"there is no memory {memory_id!r:.80}; nothing changed")
            try:
                written = await change(memory)
            except Conflict:
                continue
            if written.status == "pending":
                return {"message": "Change waits for a reviewer", "batch_id": written.batch_id}
            break
        return {"message": f"Memory {done} successfully!"}


def _speaker(message: Mapping[str, Any]) -> list[str]:
    return shapes.tags({"role": message["role"], "actor_id": message.get("name")})


def _configured(config: Mapping[str, Any]) -> tuple[Where, dict[str, Any]]:
    theirs = sorted(config.keys() & {"vector_store", "llm", "graph_store", "reranker", "history_db_path", "version"})
    if theirs or "address" not in config:
        given = f"not {', '.join(theirs)}" if theirs else "and this one has no address"
        raise InvalidInput(
            "a config is {'address': a path, postgresql://, redis:// or http://}, and may have proposer, embedder, "
            f"model and the options of strongroom.open; {given}"
        )
    return config["address"], {name: value for name, value in config.items() if name != "address"}


class AsyncMemory(Calls, Closing):
    """mem0's `AsyncMemory`, from any event loop."""

    def __init__(
        self,
        where: Where,
        *,
        proposer: str = PROGRAM,
        embedder: Embedder | Callable[..., Any] | None = None,
        model: Model | None = None,
        **options: Any,
    ) -> None:
        self.opened = Opened(where, options)
        scope = self.opened.awaitable
        super().__init__(scope, AsyncMemories(scope).using(embedder=embedder), proposer, model)

    @classmethod
    async def from_config(cls, config_dict: Mapping[str, Any]) -> AsyncMemory:
        """Make one from `{"address": "agent.db"}` and options of the constructor."""
        where, options = _configured(config_dict)
        return cls(where, **options)


class Memory(Closing):
    """mem0's `Memory`: `Memory("agent.db").add("Likes tea", user_id="u1")`.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address. What a named `proposer` adds waits
    for a reviewer; the program itself needs none. With an `embedder` a search goes by meaning too; with a
    `model` (any function from messages to an answer, see `strongroom.models`) `add` keeps what that finds.

    >>> from strongroom.adapters.mem0 import Memory
    >>> memory = Memory("memory://")
    >>> _ = memory.add("Likes tea", user_id="ana")
    >>> [found["memory"] for found in memory.search("tea", user_id="ana")["results"]]
    ['Likes tea']
    """

    def __init__(
        self,
        where: Where,
        *,
        proposer: str = PROGRAM,
        embedder: Embedder | Callable[..., Any] | None = None,
        model: Model | None = None,
        **options: Any,
    ) -> None:
        self.opened = Opened(where, options)
        scope = self.opened.blocking
        memories = AsyncMemories(scope).using(embedder=embedder)
        self._async = Calls(scope, memories, proposer, model)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """Make one from `{"address": "agent.db"}` and options of the constructor."""
        where, options = _configured(config_dict)
        return cls(where, **options)

    add = blocking(Calls.add)
    get = blocking(Calls.get)
    get_all = blocking(Calls.get_all)
    search = blocking(Calls.search)
    update = blocking(Calls.update)
    delete = blocking(Calls.delete)
    delete_all = blocking(Calls.delete_all)
    history = blocking(Calls.history)
    reset = blocking(Calls.reset)
