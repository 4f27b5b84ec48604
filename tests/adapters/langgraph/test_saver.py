"""StrongroomSaver under real graphs: the same as the framework's own saver, and what a store adds to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import strongroom
from strongroom import InvalidInput
from strongroom.adapters.langgraph import StrongroomSaver, upkeep
from strongroom.adapters.langgraph.finding import Lines
from strongroom.services.sessions.layouts import CHECKPOINT, ITEM, TASK_WRITES, line_id
from strongroom.store import Commit, Key, Range, Scan, Slice, Truncate, new_id
from tests.adapters.langgraph.savers import MODES, ask, chat, config
from tests.server.serving import served


@pytest.fixture
def saver(address: str) -> Iterator[StrongroomSaver]:
    with StrongroomSaver(address) as made:
        yield made


def graph_of(node: Any, saver: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(checkpointer=saver)


def texts(state: Any) -> list[Any]:
    return [(type(one), one.content, one.id, one.additional_kwargs) for one in state.values.get("messages", [])]


def story(graph: Any, thread: str) -> list[Any]:
    """Return all that a graph tells of a thread but for ids and times."""
    return [
        (texts(state), state.next, state.metadata["step"], state.metadata["source"], len(state.tasks))
        for state in graph.get_state_history(config(thread))
    ]


def put(saver: StrongroomSaver, thread: str, values: dict[str, Any], new: dict[str, Any], parent: Any = None) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = new
    return saver.put(parent or config(thread, checkpoint_ns=""), checkpoint, {"step": 0}, new)


# ---- the same as the framework's own ---------------------------------------------------------------------------------


def interrupted(savers: Any) -> list[Any]:
    def node(state: MessagesState) -> dict[str, Any]:
        name, age = interrupt("who?"), interrupt("how old?")
        return {"messages": [AIMessage(f"{name} {age}", id="a")]}

    first = graph_of(node, next(savers)).invoke({"messages": [HumanMessage("hi", id="h")]}, config("t"))
    assert first["__interrupt__"][0].value == "who?"
    graph_of(node, next(savers)).invoke(Command(resume="Ann"), config("t"))
    last = graph_of(node, next(savers))
    assert last.invoke(Command(resume="33"), config("t"))["messages"][-1].content == "Ann 33"
    return story(last, "t")


def test_an_interrupted_graph_goes_on_in_another_process(address: str) -> None:
    def savers() -> Iterator[Any]:
        while True:
            with StrongroomSaver(address) as made:  # another object each time, as another process has
                yield made

    def same() -> Iterator[Any]:
        kept = InMemorySaver()
        while True:
            yield kept

    ours = savers()
    assert interrupted(ours) == interrupted(same())
    ours.close()  # type: ignore[attr-defined]


def edited(saver: Any) -> tuple[list[Any], list[Any]]:
    """Take out, replace, change in place, fork, and write by hand."""

    def node(state: MessagesState) -> dict[str, Any]:
        count = len(state["messages"])
        if count == 4:
            return {"messages": [RemoveMessage(id="m1"), AIMessage("four", id="a4")]}
        if count == 6:
            return {"messages": [HumanMessage("changed", id="m2"), AIMessage("six", id="a6")]}
        if count == 8:
            state["messages"][0].content = "changed in place"
            state["messages"][0].additional_kwargs["k"] = [1]
            return {"messages": [ToolMessage("t", tool_call_id="c", id="a8")]}
        call = {"id": "c", "name": "f", "args": {"x": count}}
        return {"messages": [AIMessage(f"n{count}", id=f"a{count}", tool_calls=[call])]}

    graph = graph_of(node, saver)
    seen = []
    for number in range(1, 9):
        ask(graph, "t", f"m{number}")
        seen.append(texts(graph.get_state(config("t"))))
    old = list(graph.get_state_history(config("t")))[9]
    graph.invoke({"messages": [HumanMessage("fork", id="f")]}, old.config)
    graph.update_state(config("t"), {"messages": [HumanMessage("by hand", id="u")]})
    seen.append(texts(graph.get_state(config("t"))))
    return seen, story(graph, "t")


def test_edits_and_forks_are_as_in_memory(saver: StrongroomSaver) -> None:
    assert edited(saver) == edited(InMemorySaver())


def test_a_session_shows_what_the_newest_checkpoint_holds(saver: StrongroomSaver) -> None:
    seen, _ = edited(saver)
    session = saver.opened.ctx.sessions.get("langgraph/t")
    assert [one.content for one in session.load()] == [content for _, content, _, _ in seen[-1]]


MESSAGES = [
    HumanMessage("plain", id="1"),
    HumanMessage([{"type": "text", "text": "part"}, {"type": "image_url", "image_url": "x"}], id="2", name="ann"),
    AIMessage("", id="3", tool_calls=[{"id": "c1", "name": "f", "args": {"a": [1, 2.5, None]}}]),
    AIMessage("b", id="4", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    AIMessage("c", id="5", additional_kwargs={"bytes": b"\0\xff"}),
    ToolMessage("r", id="6", tool_call_id="c1", artifact={"deep": {"x": 1}}, status="error"),
    SystemMessage("be kind", id="7", response_metadata={"a": True, "b": 1, "c": 1.0}),
    HumanMessage("no id"),
    HumanMessage("lone \ud800", id="8"),
    HumanMessage("zero \0 byte", id="9"),
]


@pytest.mark.parametrize("channel", ["messages", "history"])
def test_messages_come_back_exactly(saver: StrongroomSaver, channel: str) -> None:
    put(saver, "t", {channel: MESSAGES}, {channel: "1"})
    for _ in range(2):  # as remembered, and as read
        found = saver.get_tuple(config("t"))
        assert found is not None
        back = found.checkpoint["channel_values"][channel]
        # What LangGraph's own serializer makes of them: it has no lone surrogates.
        exact = [saver.serde.loads_typed(saver.serde.dumps_typed(one)) for one in MESSAGES]
        assert [type(one) for one in back] == [type(one) for one in exact] and back == exact
        assert list(map(spelled, back)) == list(map(spelled, exact))
        saver._lines = Lines()


def spelled(message: BaseMessage) -> str:
    """Return a message in letters, where 1, 1.0 and True differ. The order of keys is free."""
    return json.dumps(message.model_dump(), sort_keys=True, default=repr)


def test_what_is_given_out_is_nobody_elses(saver: StrongroomSaver) -> None:
    put(
        saver,
        "t",
        {"messages": [HumanMessage("as said", id="1")], "notes": {"a": [1]}},
        {"messages": "1", "notes": "1"},
    )
    for _ in range(2):
        found = saver.get_tuple(config("t"))
        assert found is not None
        values = found.checkpoint["channel_values"]
        assert values["messages"][0].content == "as said" and values["notes"] == {"a": [1]}
        values["messages"][0].content = "changed"
        values["notes"]["a"].append(2)


# ---- what a store adds -----------------------------------------------------------------------------------------------


def test_a_conversation_can_be_searched_and_put_into_a_window(address: str) -> None:
    with strongroom.open(address) as ctx:
        graph = chat(StrongroomSaver(ctx))
        for text in ("my printer is on fire", "what shall I do", "thank you"):
            ask(graph, "support-7", text)
        session = ctx.sessions.get("langgraph/support-7")
        assert [hit.message.content for hit in session.search("printer", k=1)] == ["my printer is on fire"]
        window = session.window(max_tokens=30)
        assert 0 < len(window.messages) < 6 and window.messages[-1]["content"] == "answer 5"
        assert all("class" not in str(message) for message in window.messages)
        assert [one.role for one in session.load(k=2)] == ["user", "assistant"]


def test_a_channel_that_did_not_change_is_stored_once(saver: StrongroomSaver) -> None:
    large = "x" * 10_000
    stored = put(saver, "t", {"large": large, "n": 0}, {"large": "1", "n": "0"})
    for number in range(1, 20):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"large": large, "n": number}
        checkpoint["channel_versions"] = {"large": "1", "n": f"{number}"}
        stored = saver.put(stored, checkpoint, {"step": number}, {"n": f"{number}"})
    assert all(one.checkpoint["channel_values"]["large"] == large for one in saver.list(config("t")))
    assert written(saver, CHECKPOINT) < 40_000


def test_a_message_is_stored_once_however_many_checkpoints_hold_it(saver: StrongroomSaver) -> None:
    graph = chat(saver)
    for number in range(10):
        message = HumanMessage("x" * 1000, id=f"{number}")
        graph.invoke({"messages": [message]}, config("t"), durability="sync")
    assert written(saver, "message") < 12_000 and written(saver, CHECKPOINT) < 45_000


def written(saver: StrongroomSaver, kind: str) -> int:
    """Return how many bytes lie in the streams of a kind."""
    store: Any = saver.opened.ctx.store
    after, total = None, 0
    while True:
        exported = store.unload(after, 1000)
        parts = [one for one in exported.items if one.key.kind == kind]
        total += sum(len(record.body or b"") + len(record.text or "") for one in parts for record in one.records)
        after = exported.next
        if after is None:
            return total


def test_a_list_may_hold_one_message_twice(saver: StrongroomSaver) -> None:
    said = [HumanMessage(text, id=text) for text in "abc"]
    first = put(saver, "t", {"messages": said}, {"messages": "1"})
    put(saver, "t", {"messages": [*said[1:], said[1]]}, {"messages": "2"}, first)
    found = saver.get_tuple(config("t"))
    assert found is not None and [one.id for one in found.checkpoint["channel_values"]["messages"]] == ["b", "c", "b"]
    assert [one.content for one in saver.opened.ctx.sessions.get("langgraph/t").load()] == ["b", "c"]


def test_a_serializer_of_ones_own_is_never_gone_round(address: str) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if _has_aes() else Reversed()
    with StrongroomSaver(address, serde=serde) as saver:
        graph = chat(saver)
        ask(graph, "t", "a secret word")
        assert [one.content for one in graph.get_state(config("t")).values["messages"]] == ["a secret word", "answer 1"]
        assert written(saver, "message") == written(saver, ITEM) == 0
        assert saver.opened.ctx.sessions.list() == ()


class Reversed:
    """A serializer that makes everything unreadable."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = StrongroomSaver("memory://").serde.dumps_typed(obj)
        return kind, bytes(data)[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return StrongroomSaver("memory://").serde.loads_typed((data[0], data[1][::-1]))


def _has_aes() -> bool:
    try:
        import Crypto.Cipher  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError:
        return False
    return True


def test_a_type_that_nobody_allowed_is_not_made_on_loading(saver: StrongroomSaver) -> None:
    put(saver, "t", {"path": Unwanted("x")}, {"path": "1"})
    found = saver.get_tuple(config("t"))
    assert found is not None and not isinstance(found.checkpoint["channel_values"]["path"], Unwanted)


class Unwanted:
    def __init__(self, name: str) -> None:
        self.name = name

    def model_dump(self) -> dict[str, Any]:
        return {"name": self.name}


# ---- whole threads ---------------------------------------------------------------------------------------------------


def test_a_deleted_thread_leaves_nothing_to_be_read(saver: StrongroomSaver) -> None:
    graph = chat(saver)
    ask(graph, "t", "a secret word")
    saver.put_writes(config("t", checkpoint_ns="", checkpoint_id="never-came"), [("c", "secret")], "task")
    saver.delete_thread("t")
    assert saver.get_tuple(config("t")) is None and list(saver.list(config("t"))) == []
    assert [written(saver, kind) for kind in (CHECKPOINT, TASK_WRITES, ITEM, "message")] == [0, 0, 0, 0]
    ask(graph, "t", "again")
    assert [one.content for one in graph.get_state(config("t")).values["messages"]] == ["again", "answer 1"]
    assert [one.content for one in saver.opened.ctx.sessions.get("langgraph/t").load()] == ["again", "answer 1"]


def test_pruning_erases_what_the_newest_checkpoint_does_not_need(saver: StrongroomSaver) -> None:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=one.id) for one in state["messages"] if one.id == "a secret word"]}

    graph = graph_of(node, saver)
    ask(graph, "t", "a secret word")
    ask(graph, "t", "harmless")
    saver.prune(["t"])
    store: Any = saver.opened.ctx.store
    bodies = [record for one in store.unload(None, 1000).items for record in one.records]
    assert not any(b"secret" in (record.body or b"") or "secret" in (record.text or "") for record in bodies)
    assert [one.content for one in graph.get_state(config("t")).values["messages"]] == ["harmless"]
    [left] = saver.list(config("t"))
    assert left.parent_config is None


def checkpoints(saver: StrongroomSaver) -> Key:
    return Key(saver.opened.ctx.space, CHECKPOINT, line_id("t", ""))


def first_left(saver: StrongroomSaver) -> tuple[int, int]:
    """Return where the stored checkpoints of a thread begin, and end."""
    [part] = saver.opened.ctx.store.read([Range(checkpoints(saver), 0, 0)])
    assert isinstance(part, Slice)
    return part.first, part.length


def grown(saver: StrongroomSaver, count: int) -> list[Any]:
    configs: list[Any] = []
    for number in range(count):
        configs.append(put(saver, "t", {"c": number}, {"c": number + 1}, configs[-1] if configs else None))
        saver.put_writes(configs[-1], [("c", number)], "task")
    return configs


class Failing:
    """Lets a store make so many commits more, and keeps them."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
        self._commit, self._more, self.made = store.commit, more, list[Commit]()
        monkeypatch.setattr(store, "commit", self.commit)

    def commit(self, commit: Commit) -> Any:
        if len(self.made) >= self._more:
            raise strongroom.Unavailable("away; nothing changed", reason="test")
        self.made.append(commit)
        return self._commit(commit)


def test_no_commit_of_a_pruning_removes_many_checkpoints(
    saver: StrongroomSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(saver, 12)
    monkeypatch.setattr(upkeep, "AT_ONCE", 3)
    made = Failing(saver.opened.ctx.store, monkeypatch, 100).made
    saver.prune(["t"])
    cut = [write.before for commit in made for write in commit.writes if isinstance(write, Truncate)]
    assert cut == [3, 6, 9, 11] and len(made) == 8 and first_left(saver) == (11, 12)


def test_a_pruning_that_stops_midway_says_so_lists_nothing_more_and_is_finished_by_a_repeat(
    saver: StrongroomSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, whole = grown(saver, 12)[-1], written(saver, TASK_WRITES)
    with monkeypatch.context() as patching:
        patching.setattr(upkeep, "AT_ONCE", 3)
        Failing(saver.opened.ctx.store, patching, 6)
        with pytest.raises(strongroom.Unavailable, match="part of it is done, and a repeat goes on"):
            saver.prune(["t"])
    assert 0 < first_left(saver)[0] < 11
    [left] = saver.list(config("t"))
    assert left.config == newest and left.parent_config is None
    saver.prune(["t"])
    assert first_left(saver) == (11, 12) and written(saver, TASK_WRITES) < whole / 10


def test_nothing_goes_on_from_a_checkpoint_that_is_about_to_go(
    saver: StrongroomSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = grown(saver, 12)
    with monkeypatch.context() as patching:
        patching.setattr(upkeep, "AT_ONCE", 3)
        Failing(saver.opened.ctx.store, patching, 1)
        with pytest.raises(strongroom.Unavailable):
            saver.prune(["t"])
    with pytest.raises(strongroom.NotFound, match="nothing changed"):
        put(saver, "t", {"c": 5}, {}, configs[5])


def test_a_checkpoint_is_looked_for_while_those_before_it_are_removed(
    saver: StrongroomSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs, store = grown(saver, 12), saver.opened.ctx.store
    read, key = store.read, checkpoints(saver)

    def removing(questions: Any) -> Any:
        if isinstance(questions[0], Range):
            store.commit(Commit(new_id(), (), (Truncate(key, 8),)))
        return read(questions)

    monkeypatch.setattr(store, "read", removing)
    assert saver.get_tuple(configs[2]) is None
    found = saver.get_tuple(configs[9])
    assert found is not None and found.config == configs[9]


def test_a_copied_conversation_is_a_session_of_its_own(saver: StrongroomSaver) -> None:
    graph = chat(saver)
    ask(graph, "t", "hello")
    saver.copy_thread("t", "copy")
    ask(graph, "copy", "only here")
    sessions = saver.opened.ctx.sessions
    assert [one.content for one in sessions.get("langgraph/copy").load()] == [
        "hello",
        "answer 1",
        "only here",
        "answer 3",
    ]
    assert [one.content for one in sessions.get("langgraph/t").load()] == ["hello", "answer 1"]


@pytest.mark.parametrize("thread", ["a/b", "x" * 400, "line\nfeed", "ünï", "' OR 1=1 --"])
def test_a_thread_may_have_any_name(saver: StrongroomSaver, thread: str) -> None:
    graph = chat(saver)
    ask(graph, thread, "hello")
    assert len(list(saver.list(config(thread)))) == 3
    assert list(saver.list(config(thread), filter={"' OR 1=1 --": 1, "a.b": {}})) == []
    saver.delete_thread(thread)
    assert saver.get_tuple(config(thread)) is None


def test_a_filter_reaches_into_metadata_by_names_with_dots(saver: StrongroomSaver) -> None:
    told: Any = {"user": {"access-level": "nested"}, "a.b": 1}
    saver.put(config("t", checkpoint_ns=""), empty_checkpoint(), told, {})
    asked: list[Any] = [{"user.access-level": "nested"}, {"a.b": 1}, {"user.other": None}, {"user.access-level.x": 1}]
    assert [len(list(saver.list(None, filter=filter))) for filter in asked] == [1, 1, 0, 0]


def test_a_value_without_a_version_is_kept_and_never_taken_for_the_one_before(saver: StrongroomSaver) -> None:
    parent = config("t", checkpoint_ns="")
    for value in ("one", "two"):
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"loose": value}}
        parent = saver.put(parent, checkpoint, {}, {})
        found = saver.get_tuple(parent)
        assert found is not None and found.checkpoint["channel_values"] == {"loose": value}


# ---- many at once ----------------------------------------------------------------------------------------------------


def test_one_saver_serves_threads_and_loops_at_once(every_address: str) -> None:
    with StrongroomSaver(every_address) as saver:
        graph = chat(saver)

        def block(name: str) -> None:
            for number in range(3):
                ask(graph, name, f"{number}")

        async def wait(name: str) -> None:
            for number in range(3):
                message = HumanMessage(f"{number}", id=f"{number}")
                await graph.ainvoke({"messages": [message]}, config(name), durability="sync")

        with ThreadPoolExecutor(4) as pool:
            calls = [partial(block, f"thread-{n}") for n in range(2)]
            calls += [lambda n=n: asyncio.run(wait(f"loop-{n}")) for n in range(2)]  # type: ignore[misc]
            for future in [pool.submit(call) for call in calls]:
                future.result()
        for name in ("thread-0", "thread-1", "loop-0", "loop-1"):
            assert len(graph.get_state(config(name)).values["messages"]) == 6


def test_four_writers_of_one_thread_lose_no_checkpoint(address: str) -> None:
    with StrongroomSaver(address) as saver:

        def puts(writer: int) -> None:
            for number in range(8):
                values = [HumanMessage(f"{writer}.{n}", id=f"{writer}.{n}") for n in range(number + 1)]
                stored = put(saver, "t", {"messages": values}, {"messages": f"{writer}.{number}"})
                saver.put_writes(stored, [("x", writer), ("y", number)], f"task-{writer}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(puts, range(4)))
        found = list(saver.list(config("t")))
        ids = [one.config["configurable"]["checkpoint_id"] for one in found]
        assert len(found) == 32 and ids == sorted(ids, reverse=True)
        for one in found:
            held = [message.id for message in one.checkpoint["channel_values"]["messages"]]
            writer = str(held[0]).partition(".")[0]
            assert held == [f"{writer}.{n}" for n in range(len(held))] and len(one.pending_writes or ()) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_keeps_checkpoints_for_a_writer(tmp_path: Path, mode: str) -> None:
    with (
        served(str(tmp_path / "agent.db")) as server,
        MODES[mode](server.url, key=server.key(role="writer")) as saver,
    ):
        graph = chat(saver)
        await graph.ainvoke({"messages": [HumanMessage("hi", id="h")]}, config("t"))
        assert [one.content for one in (await graph.aget_state(config("t"))).values["messages"]] == [
            "hi",
            "answer 1",
        ]
        assert saver.opened.ctx.sessions.get("langgraph/t").search("hi", k=1)[0].message.content == "hi"


@pytest.mark.parametrize("mode", MODES)
async def test_a_writer_prunes_and_deletes_through_a_server_without_erasing(tmp_path: Path, mode: str) -> None:
    with (
        served(str(tmp_path / "agent.db")) as server,
        MODES[mode](server.url, key=server.key(role="writer")) as saver,
    ):
        graph = chat(saver)
        for text in ("one", "two", "three"):
            await graph.ainvoke({"messages": [HumanMessage(text, id=text)]}, config("t"))
        before = (await graph.aget_state(config("t"))).values["messages"]
        await saver.aprune(["t"])
        assert len([one async for one in saver.alist(config("t"))]) == 1
        assert (await graph.aget_state(config("t"))).values["messages"] == before
        await graph.ainvoke({"messages": [HumanMessage("four", id="four")]}, config("t"))
        assert len((await graph.aget_state(config("t"))).values["messages"]) == len(before) + 2
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(config("t")) is None


def test_wrong_ways_to_open_are_refused() -> None:
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="is open already"):
            StrongroomSaver(ctx, space="other")
        with pytest.raises(InvalidInput, match="serves blocking code too"):
            StrongroomSaver(ctx.awaitable)  # type: ignore[arg-type]
        StrongroomSaver(ctx).close()
        assert ctx.sessions.list() == ()  # a context that somebody else opened stays open
        assert ctx.store.read([Scan("default", "langgraph_line")])


def test_messages_that_a_task_wrote_come_back_as_they_were(every_address: str) -> None:
    call = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    given: list[Any] = [
        [AIMessage("hi", id="m1", tool_calls=[call]), HumanMessage("zero \0", name="ana")],
        [HumanMessage([{"type": "text", "text": "x" * 100_000}])],
        [AIMessage("a", id="1", response_metadata={"model": "m"}), HumanMessage("b")],
        [],
        AIMessage("alone"),
    ]
    with StrongroomSaver(every_address) as saver:
        checkpoint = empty_checkpoint()
        at = saver.put(config("t", checkpoint_ns=""), checkpoint, {}, {})
        saver.put_writes(at, [("messages", value) for value in given], "task")
        found = saver.get_tuple(config("t"))
        assert found is not None and found.pending_writes is not None
        assert [value for _, _, value in found.pending_writes] == given
