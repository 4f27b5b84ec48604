"""Whose a thread is: who names another user than its own is refused, whatever he wants with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

import strongroom
from strongroom import Conflict
from strongroom.adapters.langgraph import StrongroomSaver
from strongroom.blocking import Context


class Notes(TypedDict):
    note: str


def agent(saver: StrongroomSaver) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("a", lambda state: {"messages": [AIMessage("ok")]})
    graph.add_edge(START, "a")
    return graph.compile(checkpointer=saver)


def here(thread: str = "t1", **more: str) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def tell(graph: Any, text: str, **more: str) -> list[str]:
    told = graph.invoke({"messages": [HumanMessage(text)]}, here(**more))
    return [one.content for one in told["messages"]]


BOB = here(user_id="bob")
PLACE = here(user_id="bob", checkpoint_ns="", checkpoint_id="1f0")
WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda graph: tell(graph, "hi", user_id="bob"),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke({"messages": [("user", "hi")]}, BOB)),
    "update_state": lambda graph: graph.update_state(BOB, {"messages": [HumanMessage("hi")]}),
    "get_state": lambda graph: graph.get_state(BOB),
    "get_state_history": lambda graph: list(graph.get_state_history(BOB)),
    "list of all namespaces": lambda graph: list(graph.checkpointer.list(BOB)),
    "get_delta_channel_history": lambda graph: graph.checkpointer.get_delta_channel_history(
        config=PLACE, channels=["messages"]
    ),
    "put_writes": lambda graph: graph.checkpointer.put_writes(PLACE, [("messages", "hi")], "task"),
    "put": lambda graph: graph.checkpointer.put(PLACE, graph.checkpointer.get(here()), {}, {}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_fresh", [True, False])
def test_whoever_names_another_user_than_the_owner_is_refused(every_address: str, way: str, is_fresh: bool) -> None:
    with strongroom.open(every_address) as ctx:
        first = StrongroomSaver(ctx)
        tell(agent(first), "a secret", user_id="ana")
        before = ctx.sessions.get("langgraph/t1").info()
        with pytest.raises(Conflict, match="thread 't1' is of another user; nothing changed"):
            WAYS[way](agent(StrongroomSaver(ctx) if is_fresh else first))
        assert ctx.sessions.get("langgraph/t1").info() == before


def test_a_thread_without_messages_is_its_users_too() -> None:
    with strongroom.open("memory://") as ctx:
        graph = StateGraph(Notes)
        graph.add_node("a", lambda state: {"note": "ok"})
        graph.add_edge(START, "a")
        compiled = graph.compile(checkpointer=StrongroomSaver(ctx))
        compiled.invoke({"note": "a secret"}, here(user_id="ana"))
        with pytest.raises(Conflict, match="is of another user"):
            compiled.invoke({"note": "hi"}, BOB)


def test_who_names_nobody_goes_on_with_the_owners_thread() -> None:
    with strongroom.open("memory://") as ctx:
        tell(agent(StrongroomSaver(ctx)), "one", user_id="ana")
        assert tell(agent(StrongroomSaver(ctx)), "two") == ["one", "ok", "two", "ok"]
        assert ctx.sessions.get("langgraph/t1").info().tags["user_id"] == "ana"


def test_a_thread_of_nobody_becomes_the_users_who_comes_first() -> None:
    with strongroom.open("memory://") as ctx:
        graph = agent(StrongroomSaver(ctx))
        tell(graph, "one")
        assert tell(graph, "two", user_id="ana") == ["one", "ok", "two", "ok"]
        assert ctx.sessions.get("langgraph/t1").info().tags["user_id"] == "ana"
        with pytest.raises(Conflict, match="is of another user"):
            tell(graph, "three", user_id="bob")


def test_a_session_that_was_given_to_another_since_it_was_seen_is_not_written_to() -> None:
    with strongroom.open("memory://") as ctx:
        saver = StrongroomSaver(ctx)
        tell(agent(saver), "one")
        checkpoint: Any = saver.get(here(user_id="ana"))
        ctx.sessions.open("langgraph/t1", user_id="bob")
        checkpoint["id"] += "0"
        checkpoint["channel_values"]["messages"].append(HumanMessage("ana's secret"))
        with pytest.raises(Conflict, match="is of another user"):
            saver.put(here(user_id="ana", checkpoint_ns=""), checkpoint, {}, checkpoint["channel_versions"])
        assert [one.content for one in ctx.sessions.get("langgraph/t1").load()] == ["one", "ok"]


def test_a_user_comes_back_to_a_thread_that_was_erased_of_them() -> None:
    with strongroom.open("memory://") as ctx:
        graph = agent(StrongroomSaver(ctx))
        for _ in range(2):
            assert tell(graph, "hi", user_id="ana") == ["hi", "ok"]
            assert ctx.sessions.get("langgraph/t1").info().tags["user_id"] == "ana"
            assert ctx.erase(user_id="ana").complete


def test_a_thread_that_was_deleted_may_be_begun_by_another() -> None:
    with strongroom.open("memory://") as ctx:
        graph = agent(StrongroomSaver(ctx))
        tell(graph, "hi", user_id="ana")
        graph.checkpointer.delete_thread("t1")
        assert tell(graph, "hello", user_id="bob") == ["hello", "ok"]
        assert ctx.sessions.get("langgraph/t1").info().tags["user_id"] == "bob"


def two_threads(ctx: Context) -> None:
    graph = agent(StrongroomSaver(ctx))
    for user in ("ana", "bob"):
        graph.invoke({"messages": [HumanMessage("hi")]}, here(f"of {user}", user_id=user))


def test_a_list_over_all_threads_leaves_out_those_of_others() -> None:
    with strongroom.open("memory://") as ctx:
        two_threads(ctx)
        seen = {one.config["configurable"]["thread_id"] for one in StrongroomSaver(ctx, user_id="bob").list(None)}
        assert seen == {"of bob"}


@pytest.mark.parametrize(
    "call",
    [
        lambda saver: saver.delete_thread("of ana"),
        lambda saver: saver.prune(["of ana"]),
        lambda saver: saver.copy_thread("of ana", "new"),
        lambda saver: saver.copy_thread("of bob", "of ana"),
    ],
)
def test_a_saver_of_one_user_keeps_off_whole_threads_of_another(call: Callable[[StrongroomSaver], None]) -> None:
    with strongroom.open("memory://") as ctx:
        two_threads(ctx)
        with pytest.raises(Conflict, match="thread 'of ana' is of another user; nothing changed"):
            call(StrongroomSaver(ctx, user_id="bob"))
        assert [one.content for one in ctx.sessions.get("langgraph/of ana").load()] == ["hi", "ok"]
