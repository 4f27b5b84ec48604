"""Erasing what LangGraph keeps: by its user, by its session, while an agent is alive, by another process."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

import strongroom
from strongroom.adapters import large
from strongroom.adapters.langgraph import StrongroomSaver, StrongroomStore
from strongroom.blocking import Context
from strongroom.errors import NotFound
from strongroom.services.sessions.beside import Taking
from strongroom.services.sessions.state import SESSION
from strongroom.store import Commit, Delete, Key, new_id

SECRET = "Zebrowski"


def agent(saver: StrongroomSaver, say: Any = lambda state: {"messages": [AIMessage("ok")]}) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("a", say)
    graph.add_edge(START, "a")
    return graph.compile(checkpointer=saver)


def here(**more: str) -> Any:
    return {"configurable": {"thread_id": "t1", **more}}


def said(state: Any) -> list[str]:
    return [one.content for one in state.get("messages", [])]


def tell(graph: Any, text: str, **more: str) -> list[str]:
    return said(graph.invoke({"messages": [HumanMessage(text)]}, here(**more)))


def holds(ctx: Context, text: str) -> bool:
    """Tell whether a store holds a text, also where a serializer has hidden it in base64."""
    store: Any = ctx.store
    items = store.unload(None, 10_000).items
    texts = [one.text or "" for item in items for one in (item, *item.records)]
    bodies = [item.value or b"" for item in items] + [one.body or b"" for item in items for one in item.records]
    said = text.encode()
    return any(text in one for one in texts) or any(said in part for one in bodies for part in (one, *opened(one)))


def opened(body: bytes) -> list[bytes]:
    return [b64decode(part) for part in body.split(b'"') if len(part) > 15 and len(part) % 4 == 0 and is_base64(part)]


def is_base64(part: bytes) -> bool:
    try:
        return b64encode(b64decode(part, validate=True)) == part
    except ValueError:
        return False


def by_user(ctx: Context) -> None:
    assert ctx.erase(user_id="ana").complete


def by_session(ctx: Context) -> None:
    ctx.sessions.get("langgraph/t1").erase(all=True)


def by_message(ctx: Context) -> None:
    session = ctx.sessions.get("langgraph/t1")
    session.erase([one.id for one in session.load()])


def by_deleting(ctx: Context) -> None:
    ctx.sessions.delete("langgraph/t1")


WAYS = [by_user, by_session, by_message, by_deleting]


@pytest.mark.parametrize("way", WAYS)
def test_a_live_agent_neither_tells_nor_writes_again_what_was_erased(
    every_address: str, way: Callable[[Context], None]
) -> None:
    with strongroom.open(every_address) as ctx:
        graph = agent(StrongroomSaver(ctx))
        tell(graph, f"I am Ana {SECRET}", user_id="ana")
        assert holds(ctx, SECRET)
        way(ctx)
        assert said(graph.get_state(here()).values) == []
        assert tell(graph, "hello again") == ["hello again", "ok"]
        assert not holds(ctx, SECRET)


def test_nor_if_somebody_else_has_erased_it(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    with strongroom.open(path) as ctx, strongroom.open(path) as other:
        graph = agent(StrongroomSaver(ctx))
        tell(graph, f"I am Ana {SECRET}", user_id="ana")
        by_user(other)
        assert said(graph.get_state(here()).values) == []
        assert tell(graph, "hello again") == ["hello again", "ok"]
        assert not holds(other, SECRET)
    assert SECRET.encode() not in Path(path).read_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_under_way_does_not_bring_back_what_is_erased_meanwhile(
    tmp_path: Path, way: Callable[[Context], None]
) -> None:
    path = str(tmp_path / "agent.db")
    with strongroom.open(path) as ctx, strongroom.open(path) as other:
        turns = []

        def say(state: Any) -> Any:
            turns.append(1)
            if len(turns) == 2:
                way(other)
            return {"messages": [AIMessage("ok")]}

        graph = agent(StrongroomSaver(ctx), say)
        tell(graph, f"I am Ana {SECRET}", user_id="ana")
        with pytest.raises(NotFound, match="nothing changed"):
            tell(graph, "hello again", user_id="ana")
        assert not holds(other, SECRET)


@pytest.mark.parametrize("given", ["config", "saver"])
def test_a_thread_belongs_to_the_user_that_is_named(given: str) -> None:
    with strongroom.open("memory://") as ctx:
        named = given == "config"
        graph = agent(StrongroomSaver(ctx, user_id=None if named else "ana"))
        tell(graph, "hi", **({"user_id": "ana"} if named else {}))
        assert [(one.id, one.tags["user_id"]) for one in ctx.sessions.list(user_id="ana")] == [("langgraph/t1", "ana")]


def test_a_live_agent_that_goes_on_after_an_erasure_keeps_the_owner() -> None:
    with strongroom.open("memory://") as ctx:
        ctx.sessions.open("langgraph/t1", user_id="ana")
        graph = agent(StrongroomSaver(ctx))
        for _ in range(3):
            tell(graph, "hi")
            by_user(ctx)
            assert not holds(ctx, "hi")


class Notes(TypedDict):
    note: str


def test_a_thread_without_messages_is_erased_with_its_user() -> None:
    with strongroom.open("memory://") as ctx:
        graph = StateGraph(Notes)
        graph.add_node("a", lambda state: {"note": state["note"]})
        graph.add_edge(START, "a")
        compiled: Any = graph.compile(checkpointer=StrongroomSaver(ctx))
        compiled.invoke({"note": SECRET}, here(user_id="ana"))
        by_user(ctx)
        assert not holds(ctx, SECRET) and compiled.get_state(here()).values == {}


def test_what_inner_graphs_keep_goes_too() -> None:
    with strongroom.open("memory://") as ctx:
        inner = StateGraph(MessagesState)
        inner.add_node("b", lambda state: {"messages": [AIMessage("inner")]})
        inner.add_edge(START, "b")
        outer = StateGraph(MessagesState)
        outer.add_node("a", inner.compile(checkpointer=True))
        outer.add_edge(START, "a")
        graph = outer.compile(checkpointer=StrongroomSaver(ctx))
        tell(graph, SECRET, user_id="ana")
        by_user(ctx)
        assert not holds(ctx, SECRET) and not holds(ctx, "inner")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("to", ["the newest checkpoint", "one that is not there yet"])
def test_what_a_task_writes_while_its_thread_is_taken_away_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, way: Callable[[Context], None]
) -> None:
    monkeypatch.setattr(large, "INLINE", 100)
    path, place = str(tmp_path / "agent.db"), here(user_id="ana", checkpoint_ns="")
    with strongroom.open(path) as ctx, strongroom.open(path) as other:
        saver, first = StrongroomSaver(ctx), empty_checkpoint()
        first["channel_values"], first["channel_versions"] = (
            {"messages": [HumanMessage("hi", id="h1")]},
            {"messages": 1},
        )
        saver.put(place, first, {}, {"messages": 1})
        late = [first["id"] if to == "the newest checkpoint" else empty_checkpoint()["id"]]
        commit = Taking.commit

        async def then_a_task_ends(self: Taking, *given: Any) -> None:
            while late:
                saver.put_writes(here(checkpoint_ns="", checkpoint_id=late.pop()), [("x", SECRET * 20)], "task")
            await commit(self, *given)

        monkeypatch.setattr(Taking, "commit", then_a_task_ends)
        way(other)
        assert not late and not holds(other, SECRET)


@pytest.mark.parametrize("erases", [False, True])
def test_a_thread_that_holds_no_messages_is_deleted_and_erased_by_its_name(erases: bool) -> None:
    with strongroom.open("memory://") as ctx:
        saver = StrongroomSaver(ctx)
        saver.put(here(checkpoint_ns=""), empty_checkpoint(), {}, {})
        if erases:
            ctx.sessions.open("langgraph/t1")
            session = ctx.sessions.get("langgraph/t1")
            ctx.store.commit(Commit(new_id(), (), (Delete(Key(ctx.space, SESSION, session.id)),)))
            session.erase(all=True)
        else:
            ctx.sessions.delete("langgraph/t1")
        assert saver.get_tuple(here()) is None
        with pytest.raises(NotFound):
            ctx.sessions.delete("langgraph/t1")


def test_whoever_erases_a_person_is_told_of_items_which_are_nobodys() -> None:
    with strongroom.open("memory://") as ctx:
        StrongroomStore(ctx).put(("memories", "ana"), "k", {"text": SECRET})
        assert "LangGraph store items" in ctx.erase(user_id="ana").not_covered
        assert holds(ctx, SECRET)
