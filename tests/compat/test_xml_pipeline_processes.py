"""One set of threads and chains for many processes, however they are started."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer, get_context_buffer, reset_context_buffer
from strongroom.compat.xml_pipeline.memory.shared_backend import (
    BackendConfig,
    StoreBackend,
    get_shared_backend,
    reset_shared_backend,
)
from strongroom.compat.xml_pipeline.message_bus.message_state import HandlerMetadata, HandlerResponse
from strongroom.compat.xml_pipeline.message_bus.thread_registry import ThreadRegistry
from strongroom.compat.xml_pipeline.message_bus.worker import (
    WorkerTask,
    cleanup_task_data,
    execute_handler,
    execute_handler_sync,
    fetch_response,
    store_task_data,
)

# Forking a process that has threads is what this is about; Python 3.12 and later warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
# How workers start, over a store that a fork cannot carry along; a server's is tried with the start that could.
STARTS = [("manager", "fork"), ("manager", "spawn"), ("manager", "forkserver"), ("redis", "fork")]
every_start = pytest.mark.parametrize(("backend", "start"), STARTS, indirect=["backend"])


@dataclass
class Text:
    message: str


@pytest.fixture(params=["manager", "redis"])
def backend(request: pytest.FixtureRequest) -> Iterator[StoreBackend]:
    config = BackendConfig(request.param)
    if request.param == "redis":
        config = BackendConfig("redis", request.getfixturevalue("redis"), f"xp:{os.urandom(4).hex()}:")
    opened = get_shared_backend(config)
    yield opened
    opened.close()


@pytest.fixture
def singleton(backend: StoreBackend) -> Iterator[ContextBuffer]:
    reset_context_buffer()
    yield get_context_buffer(backend=backend)
    reset_context_buffer()


def pool(start: str) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start))


def texts(buffer: ContextBuffer) -> set[str]:
    return {slot.payload.message for slot in buffer.get_thread_slots("t")}


def with_backend(backend: StoreBackend, number: int) -> int:
    return ContextBuffer(backend).append("t", Text(str(number)), "worker", "b").index


def with_config(config: BackendConfig, number: int) -> int:
    return get_context_buffer(backend=get_shared_backend(config)).append("t", Text(str(number)), "worker", "b").index


def with_what_is_inherited(number: int) -> int:
    return get_context_buffer().append("t", Text(str(number)), "worker", "b").index


@every_start
def test_a_backend_may_be_passed_to_a_pool(backend: StoreBackend, start: str) -> None:
    buffer = ContextBuffer(backend)
    buffer.append("t", Text("mine"), "a", "b")
    with pool(start) as workers:
        given = list(workers.map(with_backend, [backend] * 4, range(4)))
    assert sorted(given) == [1, 2, 3, 4]
    assert texts(buffer) == {"mine", "0", "1", "2", "3"}
    assert buffer.append("t", Text("after"), "a", "b").index == 5


@every_start
def test_a_configuration_may_be_passed_to_a_pool(backend: StoreBackend, start: str) -> None:
    buffer = ContextBuffer(backend)
    buffer.append("t", Text("mine"), "a", "b")
    with pool(start) as workers:
        given = list(workers.map(with_config, [backend.config] * 4, range(4)))
    assert sorted(given) == [1, 2, 3, 4]
    assert texts(buffer) == {"mine", "0", "1", "2", "3"}


def test_a_forked_pool_inherits_the_buffer_of_its_process(singleton: ContextBuffer) -> None:
    singleton.append("t", Text("mine"), "a", "b")
    with pool("fork") as workers:
        given = list(workers.map(with_what_is_inherited, range(4)))
        singleton.append("t", Text("meanwhile"), "a", "b")
        given += list(workers.map(with_what_is_inherited, range(4, 8)))
    assert sorted(given) == [1, 2, 3, 4, 6, 7, 8, 9]
    assert texts(singleton) == {"mine", "meanwhile", *map(str, range(8))}


def test_a_forked_child_has_a_copy_of_a_local_buffer() -> None:
    reset_context_buffer()
    get_context_buffer().append("t", Text("mine"), "a", "b")
    with pool("fork") as workers:
        assert workers.submit(with_what_is_inherited, 1).result() == 1
    assert len(get_context_buffer().get_thread_slots("t")) == 1
    reset_context_buffer()


def test_a_fork_while_other_threads_write_loses_nothing(backend: StoreBackend) -> None:
    backend.config.max_slots_per_thread = 10**9
    buffer, stop = ContextBuffer(backend), threading.Event()
    written: list[int] = []

    def write() -> None:
        while not stop.is_set():
            written.append(buffer.append("t", Text("x"), "thread", "b").index)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pool("fork") as workers:
            given = list(workers.map(with_backend, [backend] * 8, range(8)))
    finally:
        stop.set()
        writer.join()
    assert sorted([*written, *given]) == list(range(len(written) + 8))


@every_start
def test_chains_are_seen_by_every_process(backend: StoreBackend, start: str) -> None:
    thread_id = ThreadRegistry(backend).start_chain("console", "worker")
    with pool(start) as workers:
        further = workers.submit(extend, backend, thread_id).result()
    assert ThreadRegistry(backend).lookup(further) == "console.worker.calculator.add"
    assert ThreadRegistry(backend).prune_for_response(further) == ("worker", thread_id)


def extend(backend: StoreBackend, thread_id: str) -> str:
    return ThreadRegistry(backend).extend_chain(thread_id, "calculator.add")


# ---- CPU-bound handlers ---------------------------------------------------------------------------------------------


def shout(payload: Text, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse(Text(f"{payload.message.upper()} {metadata.from_id}"), to="printer")


async def reply(payload: Text, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Text(payload.message[::-1]))


def say_nothing(payload: Text, metadata: HandlerMetadata) -> None: ...


def take_anything(payload, metadata):  # type: ignore[no-untyped-def]
    return HandlerResponse.respond(Text(payload.message))


def fail(payload: Text, metadata: HandlerMetadata) -> None:
    raise ValueError("out of ideas")


def task(backend: StoreBackend, handler: str) -> WorkerTask:
    payload, metadata = store_task_data(backend, Text("hello"), HandlerMetadata("t", "user"))
    return WorkerTask("t", payload, f"{__name__}.{handler}", metadata, "shouter")


@every_start
def test_a_handler_runs_in_a_worker_and_its_answer_comes_back(backend: StoreBackend, start: str) -> None:
    with pool(start) as workers:
        result = workers.submit(execute_handler, task(backend, "shout"), backend.config).result()
    assert result.success and result.response_uuid is not None and result.elapsed_ms > 0
    response = fetch_response(backend, result.response_uuid, [Text])
    assert response == HandlerResponse(Text("HELLO user"), to="printer")


def test_an_async_handler_runs_in_a_worker(backend: StoreBackend) -> None:
    result = execute_handler(task(backend, "reply"), backend.config)
    assert result.response_uuid is not None
    assert fetch_response(backend, result.response_uuid, [Text]) == HandlerResponse.respond(Text("olleh"))


def test_a_handler_that_has_nothing_to_say_is_told_by_an_answer_too(backend: StoreBackend) -> None:
    result = execute_handler_sync(task(backend, "say_nothing"), backend.config)
    assert result.success and result.response_uuid is not None
    assert fetch_response(backend, result.response_uuid) is None


def test_a_handler_that_does_not_say_what_it_takes_is_told_by_the_task(backend: StoreBackend) -> None:
    given = task(backend, "take_anything")
    assert not execute_handler(given, backend.config).success
    assert execute_handler(replace(given, payload_class_path=f"{__name__}.Text"), backend.config).success


def test_a_configuration_may_be_a_mapping(backend: StoreBackend) -> None:
    assert execute_handler(task(backend, "shout"), asdict(backend.config)).success


def test_without_a_configuration_the_backend_of_the_process_is_asked() -> None:
    reset_shared_backend()
    assert execute_handler(task(get_shared_backend(), "shout")).success
    reset_shared_backend()


def test_what_a_handler_raises_is_told(backend: StoreBackend) -> None:
    result = execute_handler(task(backend, "fail"), backend.config)
    assert (result.success, result.response_uuid, result.error) == (False, None, "out of ideas")
    assert result.error_traceback is not None and "ValueError: out of ideas" in result.error_traceback


def test_task_data_can_be_removed(backend: StoreBackend) -> None:
    given = task(backend, "shout")
    answer = execute_handler(given, backend.config).response_uuid
    assert answer is not None
    cleanup_task_data(backend, given.payload_uuid, given.metadata_uuid, answer)
    assert backend.buffer_list_threads() == []
    assert execute_handler(given, backend.config).error == f"Payload not found: {given.payload_uuid}"
    with pytest.raises(ValueError, match="Response not found"):
        fetch_response(backend, answer)


def test_a_handler_that_does_not_exist_is_told(backend: StoreBackend) -> None:
    result: Any = execute_handler(task(backend, "nobody"), backend.config)
    assert not result.success and "nobody" in result.error
