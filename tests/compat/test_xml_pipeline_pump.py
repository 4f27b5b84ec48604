"""The pump by its own names: messages in, handlers called, each message recorded once."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from strongroom.compat.xml_pipeline.llm import BackendError, LLMRequest, LLMResponse, complete, use_model
from strongroom.compat.xml_pipeline.memory.backend_config import ProcessPoolConfig, load_sections
from strongroom.compat.xml_pipeline.memory.context_buffer import BufferSlot, get_context_buffer, reset_context_buffer
from strongroom.compat.xml_pipeline.message_bus import (
    ConfigLoader,
    HandlerMetadata,
    HandlerResponse,
    ListenerConfig,
    MessageState,
    OrganismConfig,
    StreamPump,
    bootstrap,
    envelope,
)
from strongroom.compat.xml_pipeline.message_bus.message_state import SystemError
from strongroom.errors import InvalidInput

# A pool of Python 3.12 and later warns of forking with threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@dataclass
class Greeting:
    name: str


@dataclass
class Shout:
    text: str
    times: int = 1
    tags: list[str] = field(default_factory=list)


async def greet(payload: Greeting, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse(Shout(f"hello {payload.name}", 2), to="shouter")


async def relay(payload: Shout, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload) if metadata.from_id == "shouter" else HandlerResponse(payload, to="shouter")


def shout(payload: Shout, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Shout(payload.text.upper() * payload.times))


async def pass_on(payload: Shout, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)


def crash(payload: Greeting, metadata: HandlerMetadata) -> None:
    raise ValueError("secret detail")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset_context_buffer()
    yield
    reset_context_buffer()
    use_model(None)


def pump_of(*listeners: ListenerConfig, **config: Any) -> StreamPump:
    pump = StreamPump(OrganismConfig("test", listeners=list(listeners), **config))
    pump.register_all()
    return pump


def listener(name: str, payload_class: type, handler: Any, **more: Any) -> ListenerConfig:
    return ListenerConfig(name, payload_class=payload_class, handler=handler, **more)


def message(payload: Any, to_id: str, thread_id: str) -> bytes:
    return envelope.write(payload, from_id="user", to_id=to_id, thread_id=thread_id)


async def drained(pump: StreamPump) -> None:
    """Handle what is queued, and what that leads to, until nothing is left."""
    while not pump.queue.empty():
        state = pump.queue.get_nowait()
        assert state is not None

        async def source(state: MessageState = state) -> AsyncIterator[MessageState]:
            yield state

        async with pump.build_pipeline(source()).stream() as answers:
            async for _ in answers:
                pass


def slots_of(thread_id: str) -> list[BufferSlot]:
    return get_context_buffer().get_thread_slots(thread_id)


def everything() -> list[BufferSlot]:
    return [slot for name in get_context_buffer().get_stats()["threads"] for slot in slots_of(name)]


async def test_a_message_is_recorded_and_handled_and_its_answer_comes_home() -> None:
    pump = pump_of(listener("shouter", Shout, shout))
    await pump.inject(message(Shout("hi", 2, ["a", "b"]), "shouter", "t-1"), "t-1", "user")
    await drained(pump)
    [*slots, answer] = everything()
    assert len(slots) == 1
    assert (answer.payload, answer.to_id) == (Shout("HIHI"), "user")
    assert (slots[0].payload, slots[0].from_id, slots[0].to_id) == (Shout("hi", 2, ["a", "b"]), "user", "shouter")


def another_greeting(**fields: type) -> type:
    """Return a class of the same name, as another module would have it."""
    return make_dataclass("Greeting", fields.items())


async def test_a_listener_gets_its_own_class_though_the_sender_has_one_of_that_name() -> None:
    sent = another_greeting(name=str)("ana")
    got: list[Any] = []
    pump = pump_of(
        listener("router", Shout, lambda payload, metadata: HandlerResponse(sent, to="greeter")),
        listener("greeter", Greeting, lambda payload, metadata: got.append(payload)),
    )
    await pump.inject(message(Shout("hi"), "router", "t-1"), "t-1", "user")
    await drained(pump)
    assert got == [Greeting("ana")] and type(got[0]) is Greeting
    assert [slot.payload for slot in everything() if slot.to_id == "greeter"] == [Greeting("ana")]


async def test_a_sender_whose_class_of_that_name_does_not_fit_is_told() -> None:
    sent = another_greeting(colour=str)("red")
    pump = pump_of(
        listener("router", Shout, lambda payload, metadata: HandlerResponse(sent, to="greeter")),
        listener("greeter", Greeting, greet),
    )
    await pump.inject(message(Shout("hi"), "router", "t-1"), "t-1", "user")
    await drained(pump)
    [told] = [slot for slot in everything() if slot.metadata.payload_type == "SystemError"]
    assert (told.payload.code, told.to_id) == ("validation", "router")


async def test_a_chain_of_listeners_records_every_message_once() -> None:
    pump = pump_of(listener("relay", Shout, relay), listener("shouter", Shout, shout))
    await pump.inject(message(Shout("<Ana> & Bob", 2), "relay", "t-2"), "t-2", "user")
    await drained(pump)
    assert [(slot.from_id, slot.to_id) for slot in slots_of("t-2")] == [("user", "relay"), ("shouter", "relay")]
    assert slots_of("t-2")[1].payload == Shout("<ANA> & BOB<ANA> & BOB")
    assert sorted(slot.to_id for slot in everything()) == ["relay", "relay", "shouter", "user"]


async def test_two_conversations_on_one_route_stay_apart() -> None:
    pump = pump_of(listener("relay", Shout, relay), listener("shouter", Shout, shout))
    for name in ("a", "b"):
        await pump.inject(message(Shout(name), "relay", f"conversation {name}"), f"conversation {name}", "user")
    await drained(pump)
    for name in ("a", "b"):
        assert [slot.payload.text for slot in slots_of(f"conversation {name}")] == [name, name.upper()]


async def test_an_answer_that_its_receiver_does_not_take_is_told_to_the_one_who_answered() -> None:
    pump = pump_of(listener("greeter", Greeting, greet), listener("shouter", Shout, shout))
    await pump.inject(message(Greeting("x"), "greeter", "t-9"), "t-9", "user")
    await drained(pump)
    [told] = [slot for slot in everything() if slot.from_id == "system"]
    assert (told.to_id, told.payload.code) == ("shouter", "routing")


async def test_a_handler_that_fails_is_told_to_the_sender_without_details(caplog: pytest.LogCaptureFixture) -> None:
    pump = pump_of(listener("broken", Greeting, crash))
    await pump.inject(message(Greeting("x"), "broken", "t-3"), "t-3", "user")
    with caplog.at_level(logging.CRITICAL):
        await drained(pump)
    [told] = [slot for slot in everything() if slot.from_id == "system"]
    assert (told.to_id, told.payload.code) == ("user", "handler")
    assert "secret" not in told.payload.message


async def test_an_agent_may_send_to_its_peers_alone() -> None:
    pump = pump_of(
        listener("greeter", Greeting, greet, is_agent=True, peers=["somebody else"]), listener("shouter", Shout, shout)
    )
    assert "somebody else, who is not here now" in pump.listeners["greeter"].usage_instructions
    await pump.inject(message(Greeting("x"), "greeter", "t-4"), "t-4", "user")
    await drained(pump)
    slots = slots_of("t-4")
    assert (slots[1].from_id, slots[1].to_id, slots[1].payload.code) == ("system", "greeter", "routing")
    assert (slots[0].metadata.own_name, slots[0].metadata.is_self_call) == ("greeter", False)


async def test_the_pipeline_can_be_driven_by_hand() -> None:
    pump = pump_of(listener("shouter", Shout, shout))
    back: list[Any] = []

    async def keep(state: Any) -> None:
        back.append(state)

    pump._reinject_responses = keep  # type: ignore[method-assign]
    await pump.inject(message(Shout("hi"), "shouter", "t-5"), "t-5", "user")
    pump._running = True
    async with pump.build_pipeline(pump._queue_source()).stream() as answers:
        async for answer in answers:
            assert (answer.payload, answer.to_id) == (Shout("HI"), "user")
            break
    assert len(back) == 1


async def test_a_cpu_bound_handler_runs_in_another_process() -> None:
    pump = pump_of(listener("shouter", Shout, shout, cpu_bound=True), listener("first", Shout, pass_on))
    await pump.inject(message(Shout("hi", 3), "shouter", "t-6"), "t-6", "user")
    await drained(pump)
    assert [slot.payload for slot in everything() if slot.to_id == "user"] == [Shout("HIHIHI")]


def where(payload: Shout, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Shout(str(os.getpid())))


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_cpu_bound_handler_runs_in_its_pumps_process_if_there_is_to_be_no_pool(enabled: bool) -> None:
    pump = pump_of(listener("asked", Shout, where, cpu_bound=True), process_pool=ProcessPoolConfig(enabled=enabled))
    await pump.inject(message(Shout("hi"), "asked", "t-6"), "t-6", "user")
    await drained(pump)
    [answer] = [slot.payload.text for slot in everything() if slot.to_id == "user"]
    assert (answer != str(os.getpid())) is enabled


async def test_a_pump_runs_until_it_is_shut_down_also_with_a_message_queued() -> None:
    seen = asyncio.Event()

    async def note(payload: Greeting, metadata: HandlerMetadata) -> None:
        seen.set()

    pump = pump_of(listener("greeter", Greeting, note))
    running = asyncio.create_task(pump.run())
    await pump.inject(message(Greeting("x"), "greeter", "t-7"), "t-7", "user")
    async with asyncio.timeout(30):
        await seen.wait()
        await pump.shutdown()
        await pump.inject(message(Greeting("late"), "greeter", "t-8"), "t-8", "user")
        await running
    assert (len(slots_of("t-7")), len(slots_of("t-8")), pump.queue.qsize()) == (1, 0, 1)


# ---- envelopes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"no xml", "is not XML"),
        (b"<message/>", "is a <message>"),
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><message/>', "document type"),
        (b'<message xmlns="https://xml-pipeline.org/ns/envelope/v1"><meta/></message>', "one payload"),
    ],
)
def test_what_is_no_envelope_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        envelope.read(raw)


def test_a_payload_is_read_whatever_the_case_of_its_fields() -> None:
    raw = b"""<message xmlns="https://xml-pipeline.org/ns/envelope/v1">
        <meta><from>user</from><to>greeter</to><thread>T-1</thread></meta>
        <Greeting xmlns=""><Name>Alice</Name></Greeting>
    </message>"""
    read = envelope.read(raw)
    assert (read.from_id, read.to_id, read.thread_id, read.tag) == ("user", "greeter", "T-1", "Greeting")
    assert envelope.load(Greeting, read.payload) == Greeting("Alice")
    with pytest.raises(InvalidInput, match=r"does not fit Shout|no field"):
        envelope.load(Shout, read.payload)


# ---- organism.yaml --------------------------------------------------------------------------------------------------

ORGANISM = f"""
organism: {{name: demo, port: 9000}}
backend:
  type: redis
  redis_url: redis://example:6379
  redis_prefix: "mine:"
  redis_ttl: 60
process_pool:
  enabled: true
  workers: 3
  max_tasks_per_child: 50
listeners:
  - {{name: shouter, payload_class: {__name__}.Shout, handler: {__name__}.shout, description: shouts, cpu_bound: true}}
llm: {{strategy: failover}}
something_else: [1, 2]
"""


def test_the_sections_backend_and_process_pool_are_read(tmp_path: Path) -> None:
    path = tmp_path / "organism.yaml"
    path.write_text(ORGANISM)
    backend, process_pool = load_sections(path)
    assert (backend.backend_type, backend.redis_url, backend.redis_ttl) == ("redis", "redis://example:6379", 60)
    assert (backend.redis_prefix, backend.max_threads) == ("mine:", 1000)
    assert (process_pool.workers, process_pool.max_tasks_per_child) == (3, 50)
    config = ConfigLoader.load(path)
    assert (config.name, config.backend, config.process_pool) == ("demo", backend, process_pool)
    assert (config.listeners[0].handler, config.listeners[0].cpu_bound) == (shout, True)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("organism: {name: demo}", ProcessPoolConfig(True, 4, None)),
        ("process_pool:", ProcessPoolConfig(True, 4, 100)),
        ("process_pool: {enabled: false, max_tasks_per_child: null}", ProcessPoolConfig(False, 4, None)),
    ],
)
def test_what_a_file_does_not_say_of_its_pool_is_as_usual(tmp_path: Path, text: str, meant: ProcessPoolConfig) -> None:
    path = tmp_path / "organism.yaml"
    path.write_text(text)
    assert load_sections(path)[1] == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("backend: {type: postgres}", "one of memory, manager, redis"),
        ("backend: {redis_uri: x}", "no 'redis_uri'"),
        ("process_pool: 4", "must be a mapping"),
        ("- a list", "must hold a mapping"),
        ("listeners: [{name: x}]", "needs a 'payload_class'"),
    ],
)
def test_what_a_file_says_wrong_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "organism.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        ConfigLoader.load(path)


async def test_a_file_makes_a_pump_over_its_backend(tmp_path: Path) -> None:
    path = tmp_path / "organism.yaml"
    path.write_text(ORGANISM.replace("type: redis", f"type: manager\n  manager_address: {tmp_path / 'shared.db'}"))
    pump = await bootstrap(str(path))
    assert list(pump.routing_table) == ["shouter.shout"]
    assert get_context_buffer().is_shared


# ---- the model ------------------------------------------------------------------------------------------------------


async def test_a_handler_asks_the_model_that_was_named() -> None:
    with pytest.raises(BackendError, match="use_model"):
        await complete("m", [])

    async def ask(request: LLMRequest) -> LLMResponse:
        return LLMResponse(f"{request.model}: {len(request.messages)}", request.model, {}, "stop")

    use_model(ask)
    assert (await complete("m", [{"role": "user", "content": "x"}])).content == "m: 1"


def test_a_system_error_is_xml_with_its_text_escaped() -> None:
    told = ElementTree.fromstring(SystemError("routing", "a < b & c", retry_allowed=False).to_xml())
    assert told.tag == "SystemError"
    assert {each.tag: each.text for each in told} == {
        "code": "routing", "message": "a < b & c", "retry-allowed": "false"
    }  # fmt: skip
