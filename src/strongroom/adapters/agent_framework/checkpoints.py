"""StrongroomCheckpointStorage: the checkpoints of workflows, a document each, so that a killed workflow goes on.

A checkpoint is kept as JSON (`plain`), never as a pickle. Saving one of the same id again replaces it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from strongroom.adapters import large
from strongroom.adapters.agent_framework.plain import dumped, loaded, named
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest
from strongroom.store import Commit, Delete, Document, Expect, Get, Put, Scan, new_id

KIND = layouts.WORKFLOW_CHECKPOINT
CODEC = "agent_framework.WorkflowCheckpoint/1"
PAGE = 100


class StrongroomCheckpointStorage(Closing):
    """Keep checkpoints in a Strongroom store: `WorkflowBuilder(checkpoint_storage=StrongroomCheckpointStorage(ctx))`.

    `types` are those of your own objects in messages and state: dataclasses, enums and models of Pydantic.
    """

    def __init__(self, where: Where, *, types: tuple[type, ...] = (), **options: Any) -> None:
        self.opened = Opened(where, options)
        self._types = named(types)

    @property
    def _scope(self) -> Scope:
        return self.opened.awaitable

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, durably when this returns, and return its id."""
        text = json.dumps(dumped(checkpoint.to_dict(), self._types))
        loaded(json.loads(text), self._types)  # what could not be restored is refused now
        key = self._scope.key(KIND, digest(checkpoint.checkpoint_id))
        value = {"codec": CODEC, "id": checkpoint.checkpoint_id, "at": checkpoint.timestamp}
        tags = {"workflow": digest(checkpoint.workflow_name)}
        async with large.Staging(self._scope, key.id) as staging:
            for _ in attempts(f"checkpoint {checkpoint.checkpoint_id!r:.80}"):
                before = await self._scope.get(Get(key))
                gone = [] if before is None else large.dropping(self._scope, large.ids_in(before.value.load()))
                try:
                    told = await staging.named(text)
                    put = Put(key, encode({**value, "json": told.texts[0]}), tags)
                    expects = (Expect(key, 0 if before is None else before.version), *told.expects)
                    await self._scope.store.commit(Commit(new_id(), expects, (put, *told.writes, *gone)))
                except Conflict:
                    continue  # somebody has saved or deleted it since: it is theirs that is replaced
                break
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        document = await self._scope.get(Get(self._scope.key(KIND, digest(checkpoint_id))))
        if document is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return await self._checkpoint(document)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        return [await self._checkpoint(one) for one in await self._all(workflow_name)]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        return [one.value.load()["id"] for one in await self._all(workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        found = await self._all(workflow_name)
        if not found:
            return None
        return await self._checkpoint(max(found, key=lambda one: datetime.fromisoformat(one.value.load()["at"])))

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; tell whether there was one."""
        key = self._scope.key(KIND, digest(checkpoint_id))
        for _ in attempts(f"checkpoint {checkpoint_id!r:.80}"):
            document = await self._scope.get(Get(key))
            if document is None:
                return False
            gone = large.dropping(self._scope, await large.owned(self._scope, key.id))
            expects = (Expect(key, document.version),)
            try:
                await self._scope.store.commit(Commit(new_id(), expects, (Delete(key), *gone)))
            except Conflict:
                continue  # somebody has saved it anew
            return True
        raise AssertionError("attempts() raises when it is enough")

    async def _all(self, workflow_name: str) -> list[Document]:
        """Return what is stored of a workflow, in the order in which it was first saved."""
        scan = Scan(self._scope.space, KIND, {"workflow": digest(workflow_name)}, limit=PAGE)
        return [one async for page in self._scope.pages(scan) for one in page]

    async def _checkpoint(self, document: Document) -> WorkflowCheckpoint:
        text = await large.whole(self._scope, document.value.load()["json"])
        return WorkflowCheckpoint.from_dict(loaded(json.loads(text), self._types))
