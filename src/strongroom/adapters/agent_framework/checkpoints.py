"""StrongroomCheckpointStorage: the checkpoints of workflows, a document each, so that a killed workflow goes on.

A checkpoint is kept as JSON (`plain`), never as a pickle. Saving one of the same id again replaces it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from strongroom.adapters.agent_framework.plain import dumped, loaded, named
from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.names import digest
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.scope import Scope
from strongroom.store import EXISTS, Commit, Delete, Document, Expect, Get, Put, Scan, new_id

KIND = "agent_framework_checkpoint"
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
        value = {"codec": CODEC, "id": checkpoint.checkpoint_id, "at": checkpoint.timestamp, "json": text}
        tags = {"workflow": digest(checkpoint.workflow_name)}
        put = Put(self._scope.key(KIND, digest(checkpoint.checkpoint_id)), encode(value), tags)
        await self._scope.store.commit(Commit(new_id(), (), (put,)))
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        document = await self._scope.get(Get(self._scope.key(KIND, digest(checkpoint_id))))
        if document is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._checkpoint(document)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        return [self._checkpoint(one) for one in await self._all(workflow_name)]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        return [one.value.load()["id"] for one in await self._all(workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        found = await self._all(workflow_name)
        if not found:
            return None
        return self._checkpoint(max(found, key=lambda one: datetime.fromisoformat(one.value.load()["at"])))

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; tell whether there was one."""
        key = self._scope.key(KIND, digest(checkpoint_id))
        try:
            await self._scope.store.commit(Commit(new_id(), (Expect(key, EXISTS),), (Delete(key),)))
        except Conflict:
            return False
        return True

    async def _all(self, workflow_name: str) -> list[Document]:
        """Return what is stored of a workflow, in the order in which it was first saved."""
        scan = Scan(self._scope.space, KIND, {"workflow": digest(workflow_name)}, limit=PAGE)
        return [one async for page in self._scope.pages(scan) for one in page]

    def _checkpoint(self, document: Document) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(loaded(json.loads(document.value.load()["json"]), self._types))
