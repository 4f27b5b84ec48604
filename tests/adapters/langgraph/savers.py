"""Savers to test, and what tests put into them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.graph import END, START, MessagesState, StateGraph

from strongroom.adapters.langgraph import StrongroomSaver


class Blocking(StrongroomSaver):
    """A saver whose async methods call the blocking ones, so that one suite tests both."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(self, *args: Any, **more: Any) -> AsyncIterator[CheckpointTuple]:
        for one in self.list(*args, **more):
            yield one

    async def aput(self, *args: Any) -> RunnableConfig:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **more: Any) -> None:
        self.put_writes(*args, **more)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self.get_delta_channel_history(config=config, channels=channels)


MODES: dict[str, type[StrongroomSaver]] = {"blocking": Blocking, "async": StrongroomSaver}


def config(thread: str, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, **more}}


def chat(saver: Any) -> Any:
    """Return a graph that answers each message."""

    def answer(state: MessagesState) -> dict[str, Any]:
        count = len(state["messages"])
        return {"messages": [AIMessage(f"answer {count}", id=f"a{count}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def ask(graph: Any, thread: str, text: str) -> Any:
    return graph.invoke({"messages": [HumanMessage(text, id=text)]}, config(thread), durability="sync")


def joined(state: list[str] | None, writes: Sequence[list[str]]) -> list[str]:
    return [*(state or []), *[one for write in writes for one in write]]


class Deltas(TypedDict):
    """A state whose only channel is rebuilt from what was written to it."""

    said: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]


def delta_graph(saver: Any, node: Callable[[Any], Any] | None = None) -> Any:
    graph = StateGraph(Deltas)
    graph.add_node("answer", node or (lambda state: {"said": [f"a{len(state['said'])}"]}))
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)
