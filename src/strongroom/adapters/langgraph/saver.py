"""StrongroomSaver: LangGraph's checkpointer. One object for blocking and async code."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.hints import SET_UP, Instead, told_where
from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.messages import serializer
from strongroom.adapters.langgraph.upkeep import Upkeep
from strongroom.bridge import iterate, run


class StrongroomSaver(BaseCheckpointSaver[str], Closing):
    """Keep the checkpoints of graphs in a Strongroom store: `graph.compile(checkpointer=StrongroomSaver("agent.db"))`.

    `where` is a context of `strongroom.open` or `strongroom.connect` (with an admin's key), or an address. The messages
    of a thread are the session `langgraph/<thread_id>`. Loading makes no objects of types that were not allowed: pass
    `serde=JsonPlusSerializer(allowed_msgpack_modules=[...])` for your own. A thread is its user's, who is named by the
    config (`configurable["user_id"]`) or else by `user_id`: `ctx.erase` goes by that, and whoever names another user
    than a thread's is refused.
    """

    if not TYPE_CHECKING:
        from_conn_string = Instead("`StrongroomSaver(where)`: an address, or a context")
        setup = Instead(SET_UP)

    @told_where
    def __init__(
        self, where: Where, *, serde: SerializerProtocol | None = None, user_id: str | None = None, **options: Any
    ) -> None:
        super().__init__(serde=serde or serializer())
        self.opened = Opened(where, options)
        self._lines = Lines()
        self._user_id = user_id

    @property
    def _blocking(self) -> Upkeep:
        return Upkeep(self.opened.blocking, self.serde, self._lines, self._user_id)

    @property
    def _awaitable(self) -> Upkeep:
        return Upkeep(self.opened.awaitable, self.serde, self._lines, self._user_id)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version after `current`, also after one that another saver made."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return run(self._blocking.get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._awaitable.get(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return iterate(self._blocking.select(config, filter, before, limit))

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        return self._awaitable.select(config, filter, before, limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return run(self._blocking.put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._awaitable.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        run(self._blocking.put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._awaitable.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        run(self._blocking.delete_thread(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._awaitable.delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        run(self._blocking.delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._awaitable.delete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        run(self._blocking.copy_thread(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._awaitable.copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        run(self._blocking.prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._awaitable.prune(thread_ids, strategy)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return run(self._blocking.delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._awaitable.delta_history(config, channels)
