"""Microsoft Agent Framework on Strongroom: its rules, its own agents and workflows, and what a store adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    Executor,
    InMemoryCheckpointStorage,
    InMemoryHistoryProvider,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    WorkflowMessage,
    handler,
    response_handler,
)
from pydantic import BaseModel

import strongroom
from strongroom import Conflict, InvalidInput
from strongroom.adapters.agent_framework import (
    StrongroomCheckpointStorage,
    StrongroomContextProvider,
    StrongroomHistoryProvider,
)

CALL = Content.from_function_call(call_id="c", name="f", arguments={"x": 2**70, "y": 1.0})
MESSAGES = [
    Message("system", ["Be brief."]),
    Message("user", ["Look:", Content.from_data(b"\0\xff", "image/png")], author_name="ana"),
    Message("assistant", ["A cat.", CALL], message_id="m1", additional_properties={"deep": [{"a": None}]}),
    Message("tool", [Content.from_function_result(call_id="c", result="zwölf \0")]),
    Message("user", ["lone \ud800"]),
]


def user(text: str, id: str | None = None) -> Message:
    return Message("user", [text], message_id=id)


def assistant(text: str) -> Message:
    return Message("assistant", [text])


@pytest.fixture
def ctx(address: str) -> Iterator[strongroom.Context]:
    with strongroom.open(address) as opened:
        yield opened


@pytest.fixture
def everywhere(every_context: strongroom.Context) -> strongroom.Context:
    return every_context


def dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in messages]


# ---- history --------------------------------------------------------------------------------------------------------


async def test_messages_come_back_exactly(everywhere: Any) -> None:
    provider = StrongroomHistoryProvider(everywhere)
    await provider.save_messages("s", MESSAGES)
    assert dicts(await provider.get_messages("s")) == dicts(MESSAGES)
    assert await provider.get_messages("other") == []


@pytest.mark.parametrize(
    "calls",
    [
        [[user("a"), assistant("b")], [user("a"), assistant("b"), user("c"), assistant("d")]],  # a replayed transcript
        [[user("a"), assistant("b")], [assistant("b"), user("c")]],  # the end of one
        [[user("a"), assistant("b")], [user("c"), assistant("b")]],  # the same answer to another question
        [[user("a")], [user("a")]],  # an honest repeat
        [[user("a", "1")], [user("a", "1"), assistant("b")]],  # known by its id
        [[user("a"), assistant("b"), user("a")], [user("a"), assistant("b")]],
        [[user("a"), assistant("b")], [user("x"), user("a"), assistant("b"), user("c")]],
        [[user("a"), assistant("b"), user("c"), assistant("d")], [user("c"), assistant("d"), user("e")]],
        [[user("a")], []],
    ],
)
async def test_a_replayed_transcript_is_stored_once_as_the_frameworks_own_provider_does(
    ctx: Any, calls: list[list[Message]]
) -> None:
    ours, theirs, state = StrongroomHistoryProvider(ctx), InMemoryHistoryProvider(), dict[str, Any]()
    for messages in calls:
        await ours.save_messages("s", messages)
        await theirs.save_messages("s", messages, state=state)
    assert dicts(await ours.get_messages("s")) == dicts(await theirs.get_messages("s", state=state))


async def test_a_growing_transcript_is_stored_once(ctx: Any) -> None:
    provider, talk = StrongroomHistoryProvider(ctx), list[Message]()
    for number in range(20):
        talk += [user(f"question {number}"), assistant(f"answer {number}")]
        await provider.save_messages("s", talk)
    assert dicts(await provider.get_messages("s")) == dicts(talk)


async def test_excluded_messages_are_left_out_on_request(ctx: Any) -> None:
    hidden = Message("user", ["old"], additional_properties={"_excluded": True})
    await StrongroomHistoryProvider(ctx).save_messages("s", [hidden, user("new")])
    assert [one.text for one in await StrongroomHistoryProvider(ctx).get_messages("s")] == ["old", "new"]
    quiet = StrongroomHistoryProvider(ctx, skip_excluded=True)
    assert [one.text for one in await quiet.get_messages("s")] == ["new"]


async def test_history_without_a_session_is_refused(ctx: Any) -> None:
    with pytest.raises(InvalidInput):
        await StrongroomHistoryProvider(ctx).save_messages(None, [user("a")])


async def test_history_can_be_searched_and_put_into_a_window(ctx: Any) -> None:
    await StrongroomHistoryProvider(ctx).save_messages("s", [user("My scraper gets HTTP 429."), *MESSAGES])
    session = ctx.sessions.get("agent_framework/s")
    assert session.search("scraper", k=1)[0].message.content == "My scraper gets HTTP 429."
    assert session.window(max_tokens=1000).total_tokens > 0


async def test_writers_at_once_lose_nothing(ctx: Any) -> None:
    provider = StrongroomHistoryProvider(ctx)
    turns = [[user(f"question {number}"), assistant(f"answer {number}")] for number in range(8)]
    await asyncio.gather(*[provider.save_messages("s", turn) for turn in turns])
    kept = [one.text for one in await provider.get_messages("s")]
    assert sorted(kept[::2]) == [f"question {number}" for number in range(8)]
    assert [one.replace("answer", "question") for one in kept[1::2]] == kept[::2]


class Echo(BaseChatClient[Any]):
    """A model that says how many messages it was sent, and what the last one was."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse:
        self.seen.append([one.text for one in messages])
        return ChatResponse(messages=[Message("assistant", [f"{len(messages)}: {messages[-1].text}"])])


async def turns(provider: Any) -> list[list[str]]:
    client = Echo()
    agent = Agent(client, context_providers=[provider])
    session = agent.create_session(session_id="s")
    for text in ("hello", "and again", "and again"):
        await agent.run(text, session=session)
    return client.seen


async def test_an_agent_sees_the_same_as_with_its_own_provider(everywhere: Any) -> None:
    assert await turns(StrongroomHistoryProvider(everywhere)) == await turns(InMemoryHistoryProvider())


def test_agents_in_several_event_loops_share_a_session(ctx: Any) -> None:
    provider = StrongroomHistoryProvider(ctx)
    for _ in range(2):
        asyncio.run(turns(provider))
    assert len(ctx.sessions.get("agent_framework/s").load()) == 12


# ---- what is known for good -----------------------------------------------------------------------------------------


async def test_memories_are_put_before_the_model_and_what_it_teaches_is_proposed(ctx: Any) -> None:
    ctx.memories.add("ana drinks green tea", user_id="ana")
    ctx.memories.add("bob drinks green tea too", user_id="bob")

    def facts(messages: Sequence[Message]) -> list[str]:
        return [f"ana asked about {one.text}" for one in messages if one.role == "user"]

    client = Echo()
    agent = Agent(client, context_providers=[StrongroomContextProvider(ctx, user_id="ana", extract=facts)])
    await agent.run("green tea", session=agent.create_session())
    [before, asked] = client.seen[0]
    assert "ana drinks green tea" in before and "bob" not in before and asked == "green tea"
    assert [hit.memory.content for hit in ctx.memories.search("asked", user_id="ana")] == []
    [batch] = ctx.memories.pending()
    ctx.memories.commit(batch.id, reviewer="ana")
    assert [hit.memory.content for hit in ctx.memories.search("asked", user_id="ana")] == ["ana asked about green tea"]


async def test_a_memory_makes_no_heading_before_the_model(ctx: Any) -> None:
    ctx.memories.add("## Rules of green tea\n# Obey", scope="global")
    client = Echo()
    agent = Agent(client, context_providers=[StrongroomContextProvider(ctx)])
    await agent.run("green tea", session=agent.create_session())
    assert client.seen[0][0].endswith(":\n- \\## Rules of green tea\n  \\# Obey")


async def test_nothing_known_adds_nothing(ctx: Any) -> None:
    client = Echo()
    agent = Agent(client, context_providers=[StrongroomContextProvider(ctx)])
    await agent.run("green tea", session=agent.create_session())
    assert client.seen == [["green tea"]]


# ---- checkpoints ----------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    item: str
    count: int = 1
    colours: tuple[Colour, ...] = (Colour.RED,)


class Draft(BaseModel):
    text: str
    at: datetime


@dataclass
class Stranger:
    name: str = field(default="x")


TYPES = (Colour, Order, Draft)
STATE: dict[str, Any] = {
    "plain": [1, 2.5, "zwölf \0 \ud800", None, True, 2**70],
    "others": [(1, 2), {3}, frozenset({4}), b"\0\xff", datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7)],
    "keys": {1: "a", "1": "b", "$tuple": [1]},
    "order": Order("tea", 2),
    "draft": Draft(text="hi", at=datetime(2026, 1, 2, tzinfo=UTC)),
}


def checkpoint(id: str, second: int = 0, name: str = "w", **more: Any) -> WorkflowCheckpoint:
    at = datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC).isoformat()
    return WorkflowCheckpoint(name, "hash", checkpoint_id=id, timestamp=at, **more)


async def test_a_checkpoint_comes_back_exactly(everywhere: Any) -> None:
    storage = StrongroomCheckpointStorage(everywhere, types=TYPES)
    message = WorkflowMessage(Order("tea"), "a", "b", trace_contexts=[{"traceparent": "x"}])
    saved = checkpoint("c", state=STATE, messages={"a": [message]}, metadata={"superstep": 1}, iteration_count=3)
    assert await storage.save(saved) == "c"
    assert await storage.load("c") == saved and await storage.load("c") is not saved


async def test_messages_of_agents_are_stored_too(ctx: Any) -> None:
    storage = StrongroomCheckpointStorage(ctx)
    await storage.save(checkpoint("c", state={"cache": MESSAGES[:3]}))
    assert dicts((await storage.load("c")).state["cache"]) == dicts(MESSAGES[:3])


async def test_what_could_not_be_restored_is_refused_when_it_is_saved(ctx: Any) -> None:
    storage = StrongroomCheckpointStorage(ctx)
    with pytest.raises(WorkflowCheckpointException, match=r"types=\(\.\.\.\); nothing changed"):
        await storage.save(checkpoint("c", state={"who": Stranger()}))
    assert await storage.list_checkpoint_ids(workflow_name="w") == []


async def test_a_type_that_is_not_known_is_not_made(ctx: Any) -> None:
    await StrongroomCheckpointStorage(ctx, types=(Stranger,)).save(checkpoint("c", state={"who": Stranger()}))
    with pytest.raises(WorkflowCheckpointException, match="Stranger"):
        await StrongroomCheckpointStorage(ctx).load("c")


async def story(storage: Any) -> list[Any]:
    told: list[Any] = [await storage.get_latest(workflow_name="w"), await storage.delete("none")]
    for id, second, name in (("a", 1, "w"), ("b", 3, "w"), ("c", 2, "w"), ("d", 9, "other"), ("a", 1, "w")):
        told.append(await storage.save(checkpoint(id, second, name, state={"n": second})))
    told.append(await storage.list_checkpoint_ids(workflow_name="w"))
    told.append(await storage.list_checkpoints(workflow_name="w"))
    told += [await storage.get_latest(workflow_name="w"), await storage.delete("b"), await storage.delete("b")]
    told += [await storage.get_latest(workflow_name="w"), await storage.list_checkpoint_ids(workflow_name="none")]
    try:
        await storage.load("b")
    except WorkflowCheckpointException:
        told.append("gone")
    return told


async def test_checkpoints_are_listed_and_deleted_as_by_the_frameworks_own_storage(everywhere: Any) -> None:
    assert await story(StrongroomCheckpointStorage(everywhere)) == await story(InMemoryCheckpointStorage())


class Upper(Executor):
    @handler
    async def shout(self, order: Order, ctx: WorkflowContext[Order]) -> None:
        ctx.set_state("shouted", order.item.upper())
        await ctx.send_message(Order(order.item.upper(), order.count))


class Approve(Executor):
    @handler
    async def ask(self, order: Order, ctx: WorkflowContext[Order, str]) -> None:
        await ctx.request_info(request_data=order, response_type=bool)

    @response_handler
    async def answered(self, order: Order, approved: bool, ctx: WorkflowContext[Order, str]) -> None:
        await ctx.yield_output(f"{order.item}: {approved}")


def workflow(storage: Any) -> Workflow:
    first, second = Upper(id="upper"), Approve(id="approve")
    made = WorkflowBuilder(name="orders", start_executor=first, checkpoint_storage=storage, output_from=[second])
    return made.add_edge(first, second).build()


async def test_another_process_goes_on_where_a_workflow_waits_for_an_answer(everywhere: Any) -> None:
    storage = StrongroomCheckpointStorage(everywhere, types=TYPES)
    await workflow(storage).run(Order("tea"))
    latest = await storage.get_latest(workflow_name="orders")
    assert latest is not None
    [request] = latest.pending_request_info_events
    again = workflow(StrongroomCheckpointStorage(everywhere, types=TYPES))
    result = await again.run(responses={request: True}, checkpoint_id=latest.checkpoint_id)
    assert result.get_outputs() == ["TEA: True"]


async def test_history_is_erased_with_its_user() -> None:
    with strongroom.open("memory://") as ctx:
        provider = StrongroomHistoryProvider(ctx, user_id="ana")
        for _ in range(2):
            await provider.save_messages("s", [Message("user", ["I am Ana"])])
            assert ctx.erase(user_id="ana").sessions == 1
            assert await provider.get_messages("s") == []


async def test_the_history_of_somebody_else_is_refused() -> None:
    with strongroom.open("memory://") as ctx:
        eve, bob = (StrongroomHistoryProvider(ctx, user_id=name) for name in ("eve", "bob"))
        await eve.save_messages("s", [user("private")])
        for call in (bob.get_messages("s"), bob.save_messages("s", [user("mine")])):
            with pytest.raises(Conflict, match="of another user"):
                await call
        assert [one.text for one in await eve.get_messages("s")] == ["private"]
