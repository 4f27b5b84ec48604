"""The services for ADK: the same answers as its own services in memory, and what a store adds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.artifacts import InMemoryArtifactService
from google.adk.cli.service_registry import get_service_registry
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

import strongroom
from strongroom.adapters import large
from strongroom.adapters.adk import (
    StrongroomArtifactService,
    StrongroomMemoryService,
    StrongroomSessionService,
    register,
)
from strongroom.store import Scan, ask

APP: Any = {"app_name": "A", "user_id": "u"}
ONE: Any = {**APP, "session_id": "x"}


@pytest.fixture
def ctx(every_context: strongroom.Context) -> Any:
    return every_context


def event(number: int, author: str = "user", delta: dict[str, Any] | None = None, **more: Any) -> Event:
    part = types.Part(text=f"text number {number}")
    content = types.Content(role=author, parts=[part])
    return Event(
        id=f"e{number}", invocation_id="i", author=author, timestamp=1000.0 + number, content=content,
        actions=EventActions(state_delta=delta or {}), **more,
    )  # fmt: skip


async def story(service: Any) -> list[Any]:
    """Do a bit of everything and return what was answered."""
    told: list[Any] = []
    state = {"app:k": 1, "user:z": [1], "own": {"d": 1}, "temp:t": 5}
    first = await service.create_session(**APP, session_id=" x ", state=state)
    told.append((first.id, {name: value for name, value in first.state.items() if name != "temp:t"}))
    try:
        await service.create_session(**ONE)
    except AlreadyExistsError:
        told.append("exists")
    other = await service.create_session(app_name="A", user_id="v", session_id="x")
    await service.append_event(first, event(1, delta={"own": 2, "app:k": 2, "user:w": "ü", "temp:q": 1}))
    await service.append_event(first, event(2, "model"))
    await service.append_event(first, event(3, partial=True))
    picture = event(4, "model")
    assert picture.content is not None and picture.content.parts is not None
    picture.content.parts.append(types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256)))))
    for _ in range(2):
        await service.append_event(first, picture)
    await service.append_event(first, picture.model_copy(deep=True))
    found = await service.get_session(**ONE)
    told.append((found.events == first.events, found.state, found.last_update_time, first.last_update_time))
    told.append({name: value for name, value in first.state.items() if name.startswith("temp:q")})
    configs: list[Any] = [
        {"num_recent_events": 0}, {"num_recent_events": 2}, {"after_timestamp": 1002.0},
        {"num_recent_events": 1, "after_timestamp": 1001.0},
    ]  # fmt: skip
    for config in configs:
        part = await service.get_session(**ONE, config=GetSessionConfig(**config))
        told.append([one.id for one in part.events])
    await service.append_event(other, event(9))
    listed = (await service.list_sessions(app_name="A")).sessions
    told.append([(one.user_id, one.id, one.state, len(one.events)) for one in listed])
    told.append(len((await service.list_sessions(app_name="A", user_id="")).sessions))
    told.append(await service.get_user_state(**APP))
    await service.delete_session(**ONE)
    told.append(await service.get_session(**ONE))
    try:
        await service.append_event(first, event(11))
    except ValueError as problem:
        told.append(type(problem).__name__)
    again = await service.create_session(**ONE)
    told.append((dict(again.state), len(again.events)))
    await service.append_event(again, event(12))
    told.append([one.id for one in (await service.get_session(**ONE)).events])
    return told


async def test_a_session_is_as_in_memory(ctx: Any) -> None:
    assert await story(StrongroomSessionService(ctx)) == await story(InMemorySessionService())


async def test_what_is_read_equals_what_the_caller_has(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    session = await service.create_session(**ONE, state={"a": 1})
    await service.append_event(session, event(1, delta={"user:b": {"c": [1.5, None]}, "d": "ü"}))
    assert await service.get_session(**ONE) == session


async def test_a_stale_writer_is_refused(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    first = await service.create_session(**ONE)
    second = await service.get_session(**ONE)
    assert second is not None
    await service.append_event(first, event(1))
    with pytest.raises(StaleSessionError):
        await service.append_event(second, event(2))
    await service.append_event(first, event(3))
    found = await service.get_session(**ONE)
    assert found is not None and [one.id for one in found.events] == ["e1", "e3"]
    made_by_hand = Session(id="x", app_name="A", user_id="u", last_update_time=1.0)
    with pytest.raises(StaleSessionError):
        await service.append_event(made_by_hand, event(4))


async def test_of_two_copies_of_a_session_one_writes(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    session = await service.create_session(**ONE)
    copies = [session.model_copy(deep=True) for _ in range(2)]
    told = await asyncio.gather(
        *[service.append_event(copy, event(number)) for number, copy in enumerate(copies)], return_exceptions=True
    )
    [refused] = [one for one in told if isinstance(one, Exception)]
    assert isinstance(refused, StaleSessionError) and "modified in storage" in str(refused)
    found = await service.get_session(**ONE)
    assert found is not None and len(found.events) == 1


@pytest.mark.parametrize("late", [True, False])
async def test_a_session_of_somebody_else_s_making_is_current_if_it_ends_like_the_stored_one(
    ctx: Any, late: bool
) -> None:
    service = StrongroomSessionService(ctx)
    session = await service.create_session(**ONE)
    await service.append_event(session, event(1))
    made = Session(**{**session.model_dump(), "events": session.events, "last_update_time": 0.0})
    assert type(session) is Session and made.events == session.events
    if late:
        await service.append_event(session, event(2))
        with pytest.raises(StaleSessionError):
            await service.append_event(made, event(3))
    else:
        await service.append_event(made, event(3))
        assert made == await service.get_session(**ONE)


async def test_a_redelivered_event_is_stored_once_also_by_a_stale_writer(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    first = await service.create_session(**ONE)
    second = await service.get_session(**ONE)
    assert second is not None
    await service.append_event(first, event(1))
    await service.append_event(second, event(1))
    found = await service.get_session(**ONE)
    assert found is not None and [one.id for one in found.events] == ["e1"]


async def test_sessions_that_write_one_state_at_once_lose_nothing(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    many = [await service.create_session(**APP, session_id=f"s{number}") for number in range(8)]
    await asyncio.gather(*[service.append_event(one, event(n, delta={f"app:k{n}": n})) for n, one in enumerate(many)])
    found = await service.get_session(**APP, session_id="s0")
    assert found is not None and {name for name in found.state if name.startswith("app:")} == {
        f"app:k{n}" for n in range(8)
    }


async def test_state_that_is_not_json_is_kept_as_text(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    session = await service.create_session(**ONE, state={"call": print, "n": 1})
    assert session.state["n"] == 1 and "print" in session.state["call"]


async def test_events_can_be_searched_and_put_into_a_window(ctx: Any) -> None:
    service = StrongroomSessionService(ctx)
    session = await service.create_session(**ONE)
    for number in range(3):
        await service.append_event(session, event(number, "user" if number % 2 else "model"))
    same = ctx.sessions.get("adk/A/u/x")
    assert [one.role for one in same.load()] == ["assistant", "user", "assistant"]
    assert same.window(max_tokens=1000).messages[0]["content"] == "text number 0"


class Echo(BaseAgent):
    """An agent that answers without a model, and counts in its state."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        count = ctx.session.state.get("count", 0) + 1
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=f"answer {count}")]),
            actions=EventActions(state_delta={"count": count, "user:seen": count}),
        )


async def test_adk_s_own_runner_goes_on_where_another_process_ended(address: str) -> None:
    for turn in (1, 2):
        with StrongroomSessionService(address) as service:
            if turn == 1:
                await service.create_session(**ONE)
            runner = Runner(app_name="A", agent=Echo(name="echo"), session_service=service)
            message = types.Content(role="user", parts=[types.Part(text="hello")])
            said = [one async for one in runner.run_async(user_id="u", session_id="x", new_message=message)]
            assert said[-1].content.parts[0].text == f"answer {turn}"
            found = await service.get_session(**ONE)
            assert found is not None and len(found.events) == 2 * turn
            assert await service.get_user_state(**APP) == {"seen": turn}


# ---- memory ----------------------------------------------------------------------------------------------------------


async def remembered(service: Any) -> list[Any]:
    session = Session(id="x", app_name="A", user_id="u", events=[event(1), event(2), Event(author="a", id="mute")])
    told = []

    async def found(query: str, user: str = "u") -> list[Any]:
        answer = await service.search_memory(app_name="A", user_id=user, query=query)
        return sorted((one.id, one.author, one.timestamp, one.content.parts[0].text) for one in answer.memories)

    for _ in range(2):  # again and again
        await service.add_session_to_memory(session)
    told.append(await found("number"))
    told.append(await found("number", "v"))
    await service.add_events_to_memory(**APP, events=[event(2), event(3)], session_id="x")
    told.append(await found("text"))
    await service.delete_memory(**APP, memory_id="e2")
    await service.add_session_to_memory(session)
    told.append(await found("text"))
    told.append(await found("nothing like it"))
    return told


async def test_memory_is_as_in_memory(ctx: Any) -> None:
    ours, theirs = await remembered(StrongroomMemoryService(ctx)), await remembered(InMemoryMemoryService())
    assert [[(id, author, text) for id, author, _, text in one] for one in ours] == [
        [(id, author, text) for id, author, _, text in one] for one in theirs
    ]


async def test_at_most_ten_memories_come_back(ctx: Any) -> None:
    service = StrongroomMemoryService(ctx)
    await service.add_session_to_memory(
        Session(id="x", app_name="A", user_id="u", events=[event(n) for n in range(15)])
    )
    assert len((await service.search_memory(**APP, query="number")).memories) == 10


# ---- artifacts -------------------------------------------------------------------------------------------------------


async def kept(service: Any) -> list[Any]:
    told: list[Any] = []
    text, data = types.Part(text="one"), types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\0\xff"))
    for part in (text, data, {"text": "three"}):
        told.append(await service.save_artifact(**ONE, filename="a.txt", artifact=part, custom_metadata={"k": 1}))
    told.append(await service.save_artifact(**APP, filename="user:b.txt", artifact=text))
    for version in (None, 0, 1, 2, 3, -1):
        told.append(await service.load_artifact(**ONE, filename="a.txt", version=version))
    told.append(await service.list_artifact_keys(**ONE))
    told.append(await service.list_artifact_keys(**APP))
    told.append(await service.list_versions(**ONE, filename="a.txt"))
    for one in await service.list_artifact_versions(**ONE, filename="a.txt"):
        told.append((one.version, one.mime_type, one.custom_metadata))
    reference = "artifact://apps/A/users/u/sessions/x/artifacts/a.txt/versions/1"
    pointer = types.Part(file_data=types.FileData(file_uri=reference))
    await service.save_artifact(**ONE, filename="pointer", artifact=pointer)
    told.append(await service.load_artifact(**ONE, filename="pointer"))
    newest = await service.get_artifact_version(**ONE, filename="a.txt")
    told.append((newest.version, await service.get_artifact_version(**ONE, filename="a.txt", version=9)))
    await service.delete_artifact(**ONE, filename="a.txt")
    told.append(await service.load_artifact(**ONE, filename="a.txt"))
    told.append(await service.save_artifact(**ONE, filename="a.txt", artifact=text))
    told.append(await service.list_versions(**ONE, filename="a.txt"))
    told.append(await service.load_artifact(**ONE, filename="nothing"))
    return told


async def test_artifacts_are_as_in_memory(ctx: Any) -> None:
    assert await kept(StrongroomArtifactService(ctx)) == await kept(InMemoryArtifactService())


async def test_fifty_megabytes_are_an_artifact_and_go_with_it(tmp_path: Path) -> None:
    data = os.urandom(50_000_000)
    with StrongroomArtifactService(tmp_path / "agent.db") as service:
        part = types.Part(inline_data=types.Blob(mime_type="video/mp4", data=data))
        assert await service.save_artifact(**ONE, filename="film", artifact=part) == 0
        assert await service.load_artifact(**ONE, filename="film") == part
        newest = await service.get_artifact_version(**ONE, filename="film")
        assert newest is not None and newest.mime_type == "video/mp4"
        await service.delete_artifact(**ONE, filename="film")
        ctx = service.opened.ctx
        assert ask(ctx.store, Scan(ctx.space, large.KIND)).documents == ()


async def test_an_artifact_that_is_saved_while_it_is_deleted_leaves_no_large_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "INLINE", 100)
    path, one = tmp_path / "agent.db", {**ONE, "filename": "film", "artifact": types.Part(text="x" * 1000)}
    with StrongroomArtifactService(path) as service, StrongroomArtifactService(path) as other:
        await service.save_artifact(**one)
        ctx, late, commit = service.opened.ctx, [one], type(service._scope.store).commit

        async def then_saved(self: Any, given: Any) -> Any:
            if late:
                await other.save_artifact(**late.pop())
            return await commit(self, given)

        monkeypatch.setattr(type(service._scope.store), "commit", then_saved)
        await service.delete_artifact(**ONE, filename="film")
        assert not late and ask(ctx.store, Scan(ctx.space, large.KIND)).documents == ()


async def test_a_deleted_session_leaves_no_summary(tmp_path: Path) -> None:
    with StrongroomSessionService(tmp_path / "agent.db") as service:
        session = await service.create_session(**ONE)
        for number in range(30):
            await service.append_event(session, event(number))
        ctx = service.opened.ctx
        talk = ctx.sessions.get("adk/A/u/x")
        talk.window(100, strategy="summarize_oldest", summarizer=lambda messages: "Zebrowski")
        store: Any = ctx.store
        assert "Zebrowski" in str(store.unload(None, 10_000))
        await service.delete_session(**ONE)
        assert "Zebrowski" not in str(store.unload(None, 10_000))


async def test_what_an_artifact_may_not_be_is_refused(ctx: Any) -> None:
    service = StrongroomArtifactService(ctx)
    with pytest.raises(InputValidationError, match="Session ID"):
        await service.save_artifact(**APP, filename="a", artifact=types.Part(text="x"))
    with pytest.raises(InputValidationError, match="Not supported"):
        await service.save_artifact(**ONE, filename="a", artifact=types.Part())
    foreign = types.Part(file_data=types.FileData(file_uri="artifact://apps/A/users/v/artifacts/a/versions/0"))
    with pytest.raises(InputValidationError):
        await service.save_artifact(**ONE, filename="a", artifact=foreign)
    assert await service.list_artifact_keys(**ONE) == []


async def test_two_writers_of_an_artifact_get_two_versions(ctx: Any) -> None:
    service = StrongroomArtifactService(ctx)
    part = types.Part(text="x")
    saved = await asyncio.gather(*[service.save_artifact(**ONE, filename="a", artifact=part) for _ in range(6)])
    assert sorted(saved) == list(range(6))


def test_services_are_opened_by_their_address(tmp_path: Any) -> None:
    register()
    registry = get_service_registry()
    made = registry.create_session_service(f"strongroom://{tmp_path}/agent.db", agents_dir="")
    assert isinstance(made, StrongroomSessionService)
    made.close()


async def test_erasing_a_user_leaves_nothing_of_sessions_states_memories_and_artifacts() -> None:
    with strongroom.open("memory://") as ctx:
        sessions, memories = StrongroomSessionService(ctx), StrongroomMemoryService(ctx)
        artifacts = StrongroomArtifactService(ctx)
        live = await sessions.create_session(**ONE, state={"user:name": "Ana", "app:kept": 1})
        await sessions.append_event(live, event(1))
        await memories.add_session_to_memory(live)
        await artifacts.save_artifact(**ONE, filename="a.txt", artifact=types.Part(text="text number 2"))
        await artifacts.save_artifact(**APP, filename="user:b.txt", artifact=types.Part(text="text number 3"))
        assert ctx.erase(user_id="u").sessions == 1
        assert await sessions.get_session(**ONE) is None
        with pytest.raises(ValueError, match="not found"):
            await sessions.append_event(live, event(4))
        store: Any = ctx.store
        items = [one for one in store.unload(None, 1000).items if one.key.kind.startswith(("adk", "message"))]
        left = [one.value or b"" for one in items] + [one.body or b"" for item in items for one in item.records]
        assert [one for one in left if b"text" in one or b"Ana" in one] == []
        assert any(b"kept" in one for one in left)  # the app's is nobody's


async def test_an_event_that_was_erased_from_its_session_is_no_longer_read() -> None:
    with strongroom.open("memory://") as ctx:
        sessions = StrongroomSessionService(ctx)
        live = await sessions.create_session(**ONE)
        for number in (1, 2):
            await sessions.append_event(live, event(number))
        talk = ctx.sessions.get("adk/A/u/x")
        talk.erase([talk.load()[0].id])
        found = await sessions.get_session(**ONE)
        assert found is not None and [one.id for one in found.events] == ["e2"]
