"""StrongroomSession under the OpenAI Agents SDK: its rules, its own runner, and what a store adds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import strongroom
from strongroom import Closed, Conflict
from strongroom.adapters.contexts import Opened
from strongroom.adapters.items import see
from strongroom.adapters.openai_agents import StrongroomSession
from strongroom.copying import copy
from tests.server.serving import served

ITEMS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "hello", "annotations": [], "logprobs": None}]},
    {"type": "function_call", "id": "m", "call_id": "c1", "name": "f", "arguments": '{"x": 1.0}'},
    {"type": "function_call_output", "call_id": "c1", "output": "2"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"},
    {"type": "compaction", "id": "m", "encrypted_content": "x"},
    {"role": "user", "content": "lone \ud800 and zero \0", "n": 2**70, "sidecar": True, "tokens": 1, "timestamp": "no"},
    {"role": "user", "content": "hi"},
]  # fmt: skip


@pytest.fixture
def session(address: str) -> Iterator[StrongroomSession]:
    with StrongroomSession("support-7", address) as made:
        yield made


def test_it_is_a_session_to_the_sdk(session: StrongroomSession) -> None:
    assert isinstance(session, Session)


async def test_items_come_back_exactly_and_may_have_the_same_id(session: StrongroomSession) -> None:
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS
    assert all(type(item) is dict for item in await session.get_items())


@pytest.mark.parametrize(("limit", "count"), [(None, 8), (0, 0), (3, 3), (100, 8), (-1, 8)])
async def test_a_limit_is_of_the_newest(session: StrongroomSession, limit: int | None, count: int) -> None:
    await session.add_items(ITEMS)
    assert await session.get_items(limit) == (ITEMS[-count:] if count else [])


async def test_a_limit_of_the_settings_counts_unless_another_is_named(address: str) -> None:
    with StrongroomSession("s", address, session_settings=SessionSettings(limit=2)) as session:
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS[-2:] and await session.get_items(1) == ITEMS[-1:]


async def test_settings_may_be_a_plain_dictionary_and_must_be_known() -> None:
    with StrongroomSession("s", "memory://", session_settings={"limit": 2}) as session:
        assert session.session_settings == SessionSettings(limit=2)
    with pytest.raises(TypeError, match="limitt"):
        StrongroomSession("s", "memory://", session_settings={"limitt": 2})


async def test_exactly_the_last_item_is_popped(session: StrongroomSession) -> None:
    assert await session.pop_item() is None
    await session.add_items(ITEMS)
    for item in reversed(ITEMS):
        assert await session.pop_item() == item
    assert await session.pop_item() is None and await session.get_items() == []


async def test_a_cleared_session_goes_on_and_keeps_what_it_had(session: StrongroomSession) -> None:
    await session.add_items(ITEMS)
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items(ITEMS[:1])
    assert await session.get_items() == ITEMS[:1]
    session.opened.ctx.sessions.get("support-7").restore()
    assert await session.get_items() == [*ITEMS, *ITEMS[:1]]


async def test_nothing_to_add_is_nothing_and_a_closed_session_says_so(address: str) -> None:
    session = StrongroomSession("s", address)
    await session.add_items([])
    assert await session.get_items() == []
    session.close()
    for call in (session.add_items([]), session.get_items(), session.pop_item(), session.clear_session()):
        with pytest.raises(Closed):
            await call


async def test_a_session_that_somebody_deleted_begins_anew(session: StrongroomSession) -> None:
    await session.add_items(ITEMS)
    session.opened.ctx.sessions.delete("support-7")
    await session.add_items(ITEMS[:2])
    assert await session.get_items() == ITEMS[:2]


@pytest.mark.parametrize("owner", ["eve", None])
async def test_a_name_that_is_somebody_elses_now_is_refused(every_address: str, owner: str | None) -> None:
    with StrongroomSession("support-7", every_address, user_id="bob") as session:
        await session.add_items(ITEMS[:1])
        snapshot = await session._get_compaction_snapshot(5)
        session.opened.ctx.sessions.delete("support-7")
        session.opened.ctx.sessions.open("support-7", user_id=owner).append({"role": "user", "content": "private"})
        for call in (
            session.get_items(),
            session.get_items(1),
            session.add_items(ITEMS[:1]),
            session.pop_item(),
            session.clear_session(),
            session._get_compaction_snapshot(5),
        ):
            with pytest.raises(Conflict, match="now; open it again; nothing changed"):
                await call
        assert snapshot is not None and not await snapshot.replace_suffix(0, ITEMS[:1])
        assert [one["content"] for one in session.opened.ctx.sessions.get("support-7").load()] == ["private"]


async def test_two_of_one_user_add_to_a_session_at_once(every_address: str) -> None:
    with StrongroomSession("s", every_address, user_id="bob") as session:
        other = StrongroomSession("s", session.opened.ctx, user_id="bob")
        await asyncio.gather(*(one.add_items(ITEMS[:1]) for _ in range(5) for one in (session, other)))
        assert await session.get_items() == ITEMS[:1] * 10


@pytest.mark.parametrize("since", [[], ["other"], ["other", "others"]])
async def test_what_a_failover_or_a_backup_has_set_back_is_not_shown(tmp_path: Path, since: list[str]) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx, strongroom.open(tmp_path / "backup.db") as backup:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "kept"})
        copy(ctx.store, backup.store)
        session.append({"role": "user", "content": "lost"})
        seen = await see(Opened(ctx, {}).awaitable, "s", None, None)
        for text in since:
            backup.sessions.get("s").append({"role": "user", "content": text})
        found = await see(Opened(backup, {}).awaitable, "s", seen, None)
        assert [one["content"] for one in found.newest(None)] == ["kept", *since]


async def test_a_write_that_has_begun_ends_although_it_is_cancelled(session: StrongroomSession) -> None:
    await session.get_items()
    writing = asyncio.ensure_future(session.add_items(ITEMS))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    found = await session.get_items()
    assert found in ([], ITEMS)  # all or nothing, and nothing comes after the cancellation was told
    await session.add_items(ITEMS[:1])
    assert await session.get_items() == [*found, *ITEMS[:1]]


async def test_what_others_do_to_a_session_shows_at_once(every_address: str) -> None:
    with StrongroomSession("s", every_address) as session:
        said: list[Any] = [{"role": "user", "content": f"{number}"} for number in range(100)]
        await session.add_items(said)
        assert await session.get_items() == said
        same = session.opened.ctx.sessions.get("s")
        same.append([{"role": "user", "content": "100"}])
        assert await session.get_items(2) == [said[-1], {"role": "user", "content": "100"}]
        same.append([{"role": "user", "content": f"{number}"} for number in range(101, 150)])
        assert [item["content"] for item in cast("Any", await session.get_items())] == [f"{n}" for n in range(150)]
        messages = same.load()
        same.erase([messages[3].id])
        assert len(await session.get_items()) == 149 and said[3] not in await session.get_items()
        same.truncate_from(messages[10].id)
        assert await session.get_items() == [*said[:3], *said[4:10]] and await session.get_items(3) == said[7:10]
        same.restore()
        assert len(await session.get_items()) == 149
        session.opened.ctx.sessions.delete("s")
        assert await session.get_items() == []


async def test_who_gets_items_may_change_them(session: StrongroomSession) -> None:
    await session.add_items(ITEMS)
    for _ in range(2):
        found = cast("Any", await session.get_items())
        assert found == ITEMS
        found[1]["content"][0]["text"] = "changed"
        found.clear()


async def test_a_longer_conversation_than_one_read_comes_whole(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.adapters.items.PAGE", 7)
    said: list[Any] = [{"role": "user", "content": f"{number}"} for number in range(40)]
    with StrongroomSession("s", address) as session:
        await session.add_items(said)
        same = session.opened.ctx.sessions.get("s")
        same.erase([same.load()[20].id])
        shown = [*said[:20], *said[21:]]
        assert await session.get_items() == shown and await session.get_items(23) == shown[-23:]
        with StrongroomSession("s", session.opened.ctx) as other:
            assert await other.get_items(23) == shown[-23:] and await other.get_items() == shown


# ---- the SDK's own runner --------------------------------------------------------------------------------------------


class Fake(Model):
    """A model that calls a tool once and then answers."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
        self.seen.append(input)
        last = input[-1]
        if last.get("role") == "user":
            call = ResponseFunctionToolCall(
                type="function_call", call_id=f"c{len(input)}", name="add", arguments='{"a": 1, "b": 2}', id="fc"
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text="three", annotations=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


QUIET = RunConfig(tracing_disabled=True)


async def conversation(session: Any) -> tuple[list[Any], list[Any]]:
    model = Fake()
    agent = Agent(name="adder", model=model, tools=[add])
    for text in ("what is 1 + 2?", "and again?"):
        result = await Runner.run(agent, text, session=session, run_config=QUIET)
        assert result.final_output == "three"
    return model.seen, await session.get_items()


async def test_the_runner_sees_and_leaves_the_same_as_with_its_own_store(session: StrongroomSession) -> None:
    with closing(SQLiteSession("theirs")) as theirs:
        assert await conversation(session) == await conversation(theirs)


def test_blocking_runs_use_the_same_object(session: StrongroomSession) -> None:
    agent = Agent(name="adder", model=Fake(), tools=[add])

    def block() -> None:
        loop = asyncio.new_event_loop()  # the SDK uses the thread's own, and leaves it open
        asyncio.set_event_loop(loop)
        Runner.run_sync(agent, "what is 1 + 2?", session=session, run_config=QUIET)
        loop.close()

    for _ in range(2):
        thread = threading.Thread(target=block)
        thread.start()
        thread.join()
    assert len(asyncio.run(session.get_items())) == 8


async def test_a_conversation_can_be_searched_and_put_into_a_window(address: str) -> None:
    with strongroom.open(address) as ctx:
        await conversation(StrongroomSession("sums", ctx))
        kept = ctx.sessions.get("sums")
        assert [hit.message.content for hit in kept.search("again", k=1)] == ["and again?"]
        assert kept.window(max_tokens=1000).messages


# ---- compaction ------------------------------------------------------------------------------------------------------


async def test_a_suffix_is_replaced_unless_the_session_has_changed(session: StrongroomSession) -> None:
    await session.add_items(ITEMS[:5])
    snapshot = await session._get_compaction_snapshot(3)
    assert snapshot is not None and (snapshot.items, snapshot.complete) == (ITEMS[2:5], False)
    assert await snapshot.replace_suffix(1, ITEMS[5:6])
    assert await session.get_items() == [*ITEMS[:3], ITEMS[5]]
    assert not await snapshot.replace_suffix(0, [])  # it was read before that
    whole = await session._get_compaction_snapshot(10)
    assert whole is not None and whole.complete and not await whole.replace_suffix(4, [])
    await session.add_items(ITEMS[:1])
    assert not await whole.replace_suffix(0, [])
    assert len(await session.get_items()) == 5


@pytest.mark.parametrize(("expired", "left"), [(0, 3), (2, 1), (3, 0)])
async def test_what_has_expired_goes_from_the_beginning_when_a_suffix_is_replaced(
    session: StrongroomSession, expired: int, left: int
) -> None:
    await session.add_items(ITEMS[:5])
    snapshot = await session._get_compaction_snapshot(2, prune_prefix=lambda item: item in ITEMS[:expired])
    assert snapshot is not None and (snapshot.items, snapshot.complete) == (ITEMS[3:5], False)
    assert await snapshot.replace_suffix(0, ITEMS[5:6])
    assert await session.get_items() == [*ITEMS[expired : expired + left], ITEMS[5]]


async def test_an_encrypted_conversation_is_compacted(session: StrongroomSession) -> None:
    compacting = OpenAIResponsesCompactionSession(
        "support-7", session, client=cast("Any", Compacting(session)), compaction_mode="input"
    )
    encrypted: Any = EncryptedSession("support-7", compacting, encryption_key="a key")
    await encrypted.add_items(ITEMS[:4])
    await encrypted.run_compaction({"force": True})
    assert [item["type"] for item in await encrypted.get_items()] == ["compaction"]
    assert len(await session.get_items()) == 1


class Compacting:
    """Stands for the service that compacts."""

    def __init__(self, session: StrongroomSession) -> None:
        self.responses, self.session = self, session

    async def compact(self, **asked: Any) -> Any:
        class Answer:
            output = ({"type": "compaction", "id": "cmp", "encrypted_content": "all of it"},)

        return Answer()


async def test_forced_compaction_keeps_the_originals(session: StrongroomSession) -> None:
    await session.add_items(ITEMS[:4])
    compacting = OpenAIResponsesCompactionSession(
        "support-7", session, client=cast("Any", Compacting(session)), compaction_mode="input"
    )
    await compacting.run_compaction({"force": True})
    assert [item["type"] for item in cast("Any", await session.get_items())] == ["compaction"]
    session.opened.ctx.sessions.get("support-7").restore()
    assert ITEMS[0] in await session.get_items()


# ---- several processes and a server ----------------------------------------------------------------------------------


async def test_two_sessions_of_one_name_lose_nothing(address: str) -> None:
    with StrongroomSession("s", address) as one, StrongroomSession("s", one.opened.ctx) as other:
        await asyncio.gather(*[(one, other)[n % 2].add_items([{"role": "user", "content": f"{n}"}]) for n in range(20)])
        found = cast("Any", await one.get_items())
        assert {item["content"] for item in found} == {f"{n}" for n in range(20)} and found == await other.get_items()


async def test_a_server_keeps_a_conversation_for_a_writer(tmp_path: Path) -> None:
    with (
        served(str(tmp_path / "agent.db")) as server,
        StrongroomSession("s", server.url, key=server.key(role="writer")) as session,
    ):
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS and await session.pop_item() == ITEMS[-1]


@pytest.mark.parametrize("given", [True, False])
async def test_a_live_session_that_was_erased_is_empty_and_begins_anew_for_the_same_user(given: bool) -> None:
    with strongroom.open("memory://") as ctx:
        if not given:
            ctx.sessions.open("s-7", user_id="ana")
        session = StrongroomSession("s-7", ctx, user_id="ana" if given else None)
        for _ in range(2):
            await session.add_items([{"role": "user", "content": "I am Ana"}])
            assert ctx.erase(user_id="ana").sessions == 1
            assert await session.get_items() == []
