"""What the frameworks' own classes take and ours do not is answered with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom import InvalidInput
from tests.adapters.frameworks import has

pytestmark = pytest.mark.skipif(not (has("langgraph") and has("agents")), reason="needs LangGraph and OpenAI Agents")


def classes() -> tuple[Any, Any, Any]:
    from strongroom.adapters.langgraph import StrongroomSaver, StrongroomStore
    from strongroom.adapters.openai_agents import StrongroomSession

    return StrongroomSaver, StrongroomStore, StrongroomSession


def test_the_usual_way_to_make_one_is_answered_with_ours() -> None:
    saver, store, session = classes()
    for kind, name in ((saver, "from_conn_string"), (store, "from_conn_string"), (session, "from_url")):
        assert not hasattr(kind, name)
        with pytest.raises(AttributeError, match=rf"^{kind.__name__} has no attribute '{name}'; use .*where\)`: an"):
            getattr(kind, name)


def test_a_saver_and_a_store_need_no_setup_and_say_so() -> None:
    saver, store, _ = classes()
    with strongroom.open("memory://") as ctx:
        for kind in (saver, store):
            with pytest.raises(AttributeError, match=r"'setup'; use nothing: a store is set up when it is opened"):
                kind(ctx).setup()


def test_an_adapter_that_is_told_no_store_says_what_names_one() -> None:
    saver, store, session = classes()
    for make in (saver, store, lambda **more: session("chat-9", **more)):
        with pytest.raises(TypeError, match=r"pass `where` it is kept: an address such as 'agent.db', or a context"):
            make()
        with pytest.raises(TypeError, match=r"; did you mean where='x.db' by db_path\?$"):
            make(db_path="x.db")


@pytest.mark.parametrize("items", ["hi", ["hi"], {"role": "user", "content": "hi"}])
async def test_what_is_no_list_of_items_is_refused_in_words(items: Any) -> None:
    _, _, session = classes()
    with strongroom.open("memory://") as ctx:
        chat = session("s", ctx)
        with pytest.raises(InvalidInput, match=r"pass a list of items such as .*; nothing changed$"):
            await chat.add_items(items)
        assert await chat.get_items() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put("users", "k", {"a": 1}),
        lambda store: store.get("users", "k"),
        lambda store: store.delete("users", "k"),
        lambda store: store.search("users"),
        lambda store: store.list_namespaces(prefix="users"),
    ],
)
def test_a_text_is_no_namespace(call: Callable[[Any], object]) -> None:
    _, store, _ = classes()
    with strongroom.open("memory://") as ctx:
        with pytest.raises(ValueError, match=r"^a namespace is a tuple such as \('users',\), not 'users'"):
            call(store(ctx))
        assert store(ctx).list_namespaces() == []
