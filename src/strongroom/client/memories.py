"""Memories behind a server: looking goes over the port, deciding happens over there.

A server screens what is proposed and knows who may review, so proposing, committing, rejecting and revoking are its
own endpoints: no client can leave the screening out. With a policy or an embedder of your own (`using`) the work is
done on this side instead, which takes a key that may both write and review.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from strongroom.arguments import checked
from strongroom.blocking.memories import Memories
from strongroom.bridge import Inline, blocking
from strongroom.client.store import AsyncHttpStore, HttpStore, json_ask
from strongroom.client.trying import Ask
from strongroom.codec import encode
from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.values import Batch, Committed, Revoked
from strongroom.store import require_name

T = TypeVar("T")


@checked
class RemoteMemories(AsyncMemories):
    """What is known for longer than a run, in the space a key opens."""

    def __init__(self, scope: Scope, **options: Any) -> None:
        super().__init__(scope, **options)
        self._remote = scope

    def inline(self) -> RemoteMemories:
        return RemoteMemories(self._remote, threads=False)

    async def propose(
        self, mcrs: Sequence[Any], *, proposer: str, run_id: str | None = None, batch_id: str | None = None
    ) -> Batch:
        """Stage requests for review. The server's policy decides what becomes of them."""
        body = {
            "mcrs": _plain(mcrs),
            "proposer": proposer,
            "run_id": run_id,
            # Chosen here, so that a repeat after a lost answer finds the first one.
            "batch_id": "batch_" + os.urandom(10).hex() if batch_id is None else batch_id,
        }
        return await self._post("/memories/propose", body, Batch)

    async def commit(
        self, batch_id: str, *, reviewer: str, run_id: str | None = None, reject: Mapping[int, str] | None = None
    ) -> Committed:
        """Make a whole batch known, once. Needs a key that may review."""
        places = {str(place): reason for place, reason in (reject or {}).items()}
        body = {"reviewer": reviewer, "run_id": run_id, "reject": places}
        return await self._post(f"/memories/batches/{_part(batch_id, 'a batch_id')}/commit", body, Committed)

    async def reject(self, batch_id: str, *, reason: str, reviewer: str = "") -> Batch:
        """Decline a whole batch. Needs a key that may review."""
        body = {"reason": reason, "reviewer": reviewer}
        return await self._post(f"/memories/batches/{_part(batch_id, 'a batch_id')}/reject", body, Batch)

    async def revoke(self, *, source_ref: str, by: str = "", reason: str = "") -> Revoked:
        """Stop believing a source. Needs a key that may review."""
        return await self._post("/memories/revoke", {"source_ref": source_ref, "by": by, "reason": reason}, Revoked)

    async def sweep(self) -> int:
        """Finish interrupted revocations and retire what has expired. Needs a key that may review."""
        return await self._post("/memories/sweep", {}, int)

    async def _post(self, path: str, body: dict[str, Any], kind: type[T]) -> T:
        encode(body)
        return msgspec.json.decode(await ask(self._remote, json_ask(path, body, commit_id=path)), type=kind)


class BlockingRemoteMemories(Memories):
    """The same for blocking code."""

    propose = blocking(RemoteMemories.propose)
    commit = blocking(RemoteMemories.commit)
    reject = blocking(RemoteMemories.reject)
    revoke = blocking(RemoteMemories.revoke)
    sweep = blocking(RemoteMemories.sweep)


async def ask(scope: Scope, request: Ask) -> bytes:
    """Send a request in whichever colour the scope's store has."""
    store = scope.store
    if isinstance(store, Inline):
        assert isinstance(store.blocking, HttpStore)
        return store.blocking.ask(request)
    assert isinstance(store, AsyncHttpStore)
    return await store.ask(request)


def _plain(mcrs: Any) -> Any:
    """Turn requests that are values of ours into JSON; whatever else is wrong with them, the server says."""
    return msgspec.to_builtins(mcrs)


def _part(value: str, what: str) -> str:
    return quote(require_name(value, what), safe="")
