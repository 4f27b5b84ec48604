"""Shared backends by their own names: several processes, one set of threads and chains."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strongroom import scope
from strongroom.compat.xml_pipeline.memory import manager_backend, memory_backend, redis_backend, store_backend
from strongroom.compat.xml_pipeline.memory.context_buffer import (
    BufferSlot,
    ContextBuffer,
    get_context_buffer,
    reset_context_buffer,
)
from strongroom.compat.xml_pipeline.memory.shared_backend import (
    BackendConfig,
    SharedBackend,
    StoreBackend,
    deserialize_slot,
    get_shared_backend,
    reset_shared_backend,
    serialize_slot,
)
from strongroom.compat.xml_pipeline.message_bus.thread_registry import ThreadRegistry
from strongroom.errors import Damaged, InvalidInput
from strongroom.services.threads.payloads import Inert, PayloadTypes

spawn = multiprocessing.get_context("spawn")


@dataclass
class Text:
    message: str


@dataclass
class Located:
    name: str
    where: Path


@pytest.fixture(params=["memory", "manager", "redis"])
def config(request: pytest.FixtureRequest) -> BackendConfig:
    made = BackendConfig(request.param)
    if request.param == "redis":
        made.redis_url = request.getfixturevalue("redis")
        made.redis_prefix = f"xp:{os.urandom(4).hex()}:"
    return made


@pytest.fixture
def backend(config: BackendConfig) -> Iterator[StoreBackend]:
    opened = get_shared_backend(config)
    yield opened
    opened.close()


@pytest.fixture
def manager() -> Iterator[StoreBackend]:
    opened = get_shared_backend(BackendConfig("manager"))
    yield opened
    opened.close()


# ---- which backend --------------------------------------------------------------------------------------------------


@pytest.fixture
def none_yet() -> Iterator[None]:
    reset_shared_backend()
    yield
    reset_shared_backend()


@pytest.mark.usefixtures("none_yet")
def test_an_equal_configuration_gives_the_backend_that_is_there() -> None:
    for kind in ("memory", "manager"):
        made = get_shared_backend(BackendConfig(kind))
        assert get_shared_backend(BackendConfig(kind)) is made is get_shared_backend(made.config)
    assert get_shared_backend() is get_shared_backend(BackendConfig("memory"))


@pytest.mark.usefixtures("none_yet")
def test_another_configuration_gives_another_backend() -> None:
    one, other = (get_shared_backend(BackendConfig("memory", max_threads=most)) for most in (1, 2))
    one.buffer_append("t", b"x")
    assert other.buffer_list_threads() == []


@pytest.mark.usefixtures("none_yet")
def test_a_closed_backend_is_there_no_more() -> None:
    first = get_shared_backend()
    first.close()
    second = get_shared_backend()
    reset_shared_backend()
    assert second is not first and second.closed and get_shared_backend() is not second


@pytest.mark.usefixtures("none_yet")
def test_threads_that_ask_at_once_get_one_backend() -> None:
    begin = threading.Barrier(8)

    def ask(_: int) -> StoreBackend:
        begin.wait()
        return get_shared_backend(BackendConfig("manager"))

    with ThreadPoolExecutor(8) as pool:
        [made] = {id(one): one for one in pool.map(ask, range(8))}.values()
    assert made.buffer_append("t", b"x") == 0


def test_a_manager_may_be_asked_for_by_the_path_of_its_file(tmp_path: Path) -> None:
    backend = manager_backend.ManagerBackend(tmp_path / "shared.db", authkey=b"unused")
    backend.buffer_append("t", b"x")
    assert backend.info() == {"buffer_threads": 1, "registry_entries": 0}
    backend.close()
    with pytest.raises(InvalidInput, match="path of a file"):
        get_shared_backend(BackendConfig("manager", manager_address=("localhost", 5000)))  # type: ignore[arg-type]


# ---- the backend itself ---------------------------------------------------------------------------------------------


def test_bytes_are_kept_in_order_as_they_came(backend: StoreBackend) -> None:
    assert isinstance(backend, SharedBackend)
    parts = [b"slot0", b"\x00\xff", b""]
    assert [backend.buffer_append("t", part) for part in parts] == [0, 1, 2]
    assert backend.buffer_get_thread("t") == parts
    assert [backend.buffer_get_slot("t", index) for index in (1, 3, -1)] == [parts[1], None, None]
    assert backend.buffer_thread_len("t") == 3


def test_threads_are_listed_by_the_names_they_have(backend: StoreBackend) -> None:
    for name in ("a:b", "c"):
        backend.buffer_append(name, b"x")
    assert sorted(backend.buffer_list_threads()) == ["a:b", "c"]
    assert all(backend.buffer_thread_exists(name) for name in backend.buffer_list_threads())


def test_a_thread_is_deleted_once(backend: StoreBackend) -> None:
    backend.buffer_append("t", b"x")
    assert [backend.buffer_delete_thread("t") for _ in range(2)] == [True, False]
    assert not backend.buffer_thread_exists("t")
    assert backend.buffer_get_thread("t") == []


def test_bytes_are_counted_from_the_oldest_that_is_there(backend: StoreBackend) -> None:
    for _ in range(2):
        assert [backend.buffer_append("t", part) for part in (b"a", b"b")] == [0, 1]
        assert [backend.buffer_get_slot("t", index) for index in (0, 1, 2, -1)] == [b"a", b"b", None, None]
        backend.buffer_clear()


def test_clearing_leaves_no_thread(backend: StoreBackend) -> None:
    for name in "ab":
        backend.buffer_append(name, b"x")
    backend.buffer_clear()
    assert backend.buffer_list_threads() == []


def test_chains_and_ids_are_found_both_ways(backend: StoreBackend) -> None:
    backend.registry_set("console.router", "u1")
    assert backend.registry_get_uuid("console.router") == "u1"
    assert backend.registry_get_chain("u1") == "console.router"
    assert backend.registry_list_all() == {"u1": "console.router"}
    assert [backend.registry_delete("u1") for _ in range(2)] == [True, False]
    assert backend.registry_get_uuid("console.router") is None
    backend.registry_set("a", "u2")
    backend.registry_clear()
    assert backend.registry_list_all() == {}


def test_a_full_thread_takes_no_more_bytes() -> None:
    backend = get_shared_backend(BackendConfig(max_slots_per_thread=2))
    for _ in range(2):
        backend.buffer_append("t", b"x")
    with pytest.raises(MemoryError, match="exceeded max slots"):
        backend.buffer_append("t", b"x")
    assert backend.buffer_thread_len("t") == 2


def test_an_unknown_kind_of_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown backend type"):
        get_shared_backend(BackendConfig("postgres"))  # type: ignore[arg-type]


def test_a_memory_backend_does_not_pretend_to_be_shared() -> None:
    with pytest.raises(InvalidInput, match="belongs to its process"):
        get_shared_backend().__reduce__()


def test_a_managers_file_goes_with_it() -> None:
    backend = get_shared_backend(BackendConfig("manager"))
    folder = Path(str(backend.config.manager_address)).parent
    assert (folder.exists(), folder.stat().st_mode & 0o077) == (True, 0)
    backend.close()
    del backend
    assert not folder.exists()


# ---- a buffer over it -----------------------------------------------------------------------------------------------


def test_a_buffer_keeps_its_threads_in_the_backend(backend: StoreBackend) -> None:
    buffer = ContextBuffer(backend=backend)
    payload = Text("hello")
    slot = buffer.append("t", payload, "a", "b")
    assert (buffer.is_shared, slot.payload is payload, slot.index) == (True, True, 0)
    thread = buffer.get_thread("t")
    assert thread is not None
    assert thread is buffer.get_thread("t")
    assert [one.payload for one in thread] == [payload]
    assert [one.payload for one in buffer.get_thread_slots("t")] == [payload]
    stats = buffer.get_stats()
    assert (stats["backend"], stats["threads"], stats["total_slots"]) == ("shared", ["t"], 1)


def test_whoever_holds_a_thread_reaches_everybody(backend: StoreBackend) -> None:
    one, other = ContextBuffer(backend), ContextBuffer(backend)
    one.get_or_create_thread("t").append(Text("from one"), "a", "b")
    there = other.get_thread("t")
    assert there is not None
    there.append(Text("from the other"), "b", "a")
    assert [slot.from_id for slot in one.get_thread_slots("t")] == ["a", "b"]


def test_an_unknown_thread_of_a_backend_is_none(backend: StoreBackend) -> None:
    buffer = ContextBuffer(backend)
    assert (buffer.get_thread("t"), buffer.get_thread_slots("t"), buffer.delete_thread("t")) == (None, [], False)


def test_both_limits_hold_over_a_backend(backend: StoreBackend) -> None:
    buffer = ContextBuffer(backend)
    buffer.max_slots_per_thread, buffer.max_threads = 2, 2
    for _ in range(2):
        buffer.append("a", Text("x"), "a", "b")
    with pytest.raises(MemoryError, match="exceeded max slots"):
        buffer.append("a", Text("x"), "a", "b")
    buffer.append("b", Text("x"), "a", "b")
    buffer.append("c", Text("x"), "a", "b")
    assert sorted(buffer.get_stats()["threads"]) == ["b", "c"]
    assert buffer.append("a", Text("x"), "a", "b").index == 2


def test_a_type_nobody_named_comes_back_as_data(backend: StoreBackend) -> None:
    ContextBuffer(backend).append("t", {"plain": 1}, "a", "b")
    slot = ContextBuffer(backend).append("t", Text("x"), "a", "b")
    raw = deserialize_slot(backend.buffer_get_thread("t")[1], PayloadTypes())
    assert isinstance(raw.payload, Inert)
    assert (raw.payload.type, raw.payload.data, raw.metadata) == ("Text", {"message": "x"}, slot.metadata)


def test_resetting_the_buffer_of_one_process_leaves_what_others_share(backend: StoreBackend) -> None:
    reset_context_buffer()
    get_context_buffer(backend=backend).append("t", Text("x"), "a", "b")
    reset_context_buffer()
    assert backend.buffer_thread_len("t") == 1


def test_sweeping_ends_what_waited(backend: StoreBackend) -> None:
    backend.buffer_append("t", b"x")
    assert tuple(backend.sweep()) == ()
    assert backend.buffer_thread_len("t") == 1
    instant: Any = 1e-6
    backend.config.redis_ttl = instant
    assert tuple(backend.sweep()) == ("t",)
    assert backend.buffer_thread_len("t") == 0


@pytest.mark.parametrize("never", [0, None])
def test_without_a_time_to_live_no_thread_ends(backend: StoreBackend, never: int | None) -> None:
    backend.config.redis_ttl = never
    backend.buffer_append("t", b"x")
    assert (tuple(backend.sweep()), backend.buffer_thread_len("t")) == ((), 1)


def test_on_redis_a_time_to_live_of_0_is_for_ever(redis: str) -> None:
    backend = redis_backend.RedisBackend(redis, f"xp:{os.urandom(4).hex()}:", ttl=0)
    backend.buffer_append("t", b"x")
    assert backend.buffer_get_thread("t") == [b"x"]
    assert backend.info() == {"buffer_threads": 1, "registry_entries": 0, "ttl_seconds": 0}
    assert (backend.url, backend.ttl) == (redis, 0)
    backend.close()


def test_on_redis_a_thread_ends_by_itself_within_a_bounded_time(redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0  # seconds by which all clocks are put forward
    later = SimpleNamespace(
        monotonic=lambda: time.monotonic() + passed, time_ns=lambda: time.time_ns() + int(passed * 1e9)
    )
    monkeypatch.setattr(scope, "time", later)
    monkeypatch.setattr(store_backend, "time", later)
    config = BackendConfig("redis", redis, f"xp:{os.urandom(4).hex()}:", redis_ttl=86_400)
    buffer = ContextBuffer(get_shared_backend(config))
    buffer.append("t", Text("x"), "a", "b")
    passed = 86_400 / 2
    assert buffer.thread_exists("t")
    passed = 86_400 + store_backend.SWEEP_SECONDS
    assert not buffer.thread_exists("t")


def test_a_payload_that_cannot_leave_its_process_is_refused_by_the_name_of_its_field(backend: StoreBackend) -> None:
    buffer = ContextBuffer(backend)
    with pytest.raises(InvalidInput, match="field 'where', a PosixPath, cannot leave this process"):
        buffer.append("t", Located("x", Path("/tmp")), "a", "b")
    with pytest.raises(InvalidInput, match="cannot leave this process"):
        buffer.append("t", object(), "a", "b")
    assert buffer.get_thread("t") is None


def test_a_slot_of_a_backend_is_a_frozen_dataclass_too(backend: StoreBackend) -> None:
    slot = ContextBuffer(backend).append("t", Text("x"), "a", "b")
    found = ContextBuffer(backend).get_thread_slots("t")[0]
    assert dataclasses.replace(found, payload=1) == dataclasses.replace(slot, payload=1)
    assert pickle.loads(pickle.dumps(slot)) == slot == copy.copy(slot)


def test_a_slot_travels_as_json() -> None:
    types = PayloadTypes()
    types.register(Text)
    slot = ContextBuffer().append("t", Text("x"), "a", "b", own_name="b")
    again = deserialize_slot(serialize_slot(slot), types)
    assert (again.payload, again.metadata) == (slot.payload, slot.metadata)


def test_a_slot_comes_back_as_itself_where_its_class_was_given() -> None:
    slot = ContextBuffer().append("t", Text("x"), "a", "b")
    assert deserialize_slot(serialize_slot(slot)) == slot
    assert deserialize_slot(serialize_slot(BufferSlot({"plain": [1]}, slot.metadata))).payload == {"plain": [1]}


def test_data_of_another_class_of_that_name_comes_back_as_data() -> None:
    slot = ContextBuffer().append("t", Text("x"), "a", "b")
    data = serialize_slot(slot).replace(b'"message":"x"', b'"number":1')
    assert isinstance(deserialize_slot(data).payload, Inert)


@pytest.mark.parametrize("data", [b"", b"\x80\x04\x95", b"cos\nsystem\n(S'true'\ntR.", b'{"type": 1}', b"[]"])
def test_what_is_no_slot_is_refused_and_nothing_runs(data: bytes) -> None:
    with pytest.raises(Damaged):
        deserialize_slot(data)


def test_an_entry_that_is_no_slot_leaves_its_thread_readable(backend: StoreBackend) -> None:
    buffer = ContextBuffer(backend)
    buffer.append("t", Text("before"), "a", "b")
    backend.buffer_append("t", b"\x80\x04 not a slot")
    buffer.append("t", Text("after"), "a", "b")
    assert [slot.metadata.payload_type for slot in buffer.get_thread_slots("t")] == ["Text", "SlotBytes", "Text"]


# ---- processes ------------------------------------------------------------------------------------------------------


def _append(backend: StoreBackend, name: str, count: int, indexes: multiprocessing.Queue[list[int]]) -> None:
    buffer = ContextBuffer(backend)
    indexes.put([buffer.append("t", Text(f"{name}{number}"), name, "b").index for number in range(count)])


def test_two_processes_never_get_the_same_index(manager: StoreBackend) -> None:
    queue: multiprocessing.Queue[list[int]] = spawn.Queue()
    workers = [spawn.Process(target=_append, args=(manager, name, 100, queue)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    given = [*queue.get(timeout=60), *queue.get(timeout=60)]
    for worker in workers:
        worker.join()
    assert sorted(given) == list(range(200))
    assert manager.buffer_thread_len("t") == 200


def _answer(config: BackendConfig, thread_id: str, found: multiprocessing.Queue[object]) -> None:
    backend = get_shared_backend(config)
    buffer = ContextBuffer(backend)
    buffer.register(Text)
    found.put(
        (ThreadRegistry(backend).lookup(thread_id), [slot.payload for slot in buffer.get_thread_slots(thread_id)])
    )


def test_a_worker_given_the_configuration_sees_chains_and_messages(manager: StoreBackend) -> None:
    thread_id = ThreadRegistry(manager).start_chain("console", "worker")
    ContextBuffer(manager).append(thread_id, Text("to do"), "console", "worker")
    queue: multiprocessing.Queue[object] = spawn.Queue()
    worker = spawn.Process(target=_answer, args=(manager.config, thread_id, queue))
    worker.start()
    assert queue.get(timeout=60) == ("console.worker", [Text("to do")])
    worker.join()


def test_each_backend_is_had_from_the_module_that_has_always_held_it(redis: str) -> None:
    prefix = f"xp:{os.urandom(4).hex()}:"
    made: list[StoreBackend] = [
        memory_backend.InMemoryBackend(),
        manager_backend.ManagerBackend(),
        redis_backend.RedisBackend(url=redis, prefix=prefix, ttl=300),
    ]
    for backend in made:
        ContextBuffer(backend).append("t", Text("x"), "a", "b")
        assert ThreadRegistry(backend).is_shared and not ThreadRegistry().is_shared
        backend.registry_set("a.b", "id-1")
        assert (backend.buffer_list_threads(), backend.registry_list_all()) == (["t"], {"id-1": "a.b"})
        assert {"buffer_threads": 1, "registry_entries": 1}.items() <= backend.info().items()
        if isinstance(backend, redis_backend.RedisBackend):
            assert backend.ping() and backend.info()["ttl_seconds"] == 300
            assert (backend.config.redis_prefix, backend.config.redis_ttl) == (prefix, 300)
        backend.close()


def test_a_redis_that_does_not_answer_is_told_by_a_ping() -> None:
    with pytest.raises(InvalidInput):
        redis_backend.RedisBackend(BackendConfig("redis"), prefix="another:")
    assert not redis_backend.RedisBackend(url="redis://127.0.0.1:1").ping()


@pytest.mark.usefixtures("zone")
def test_the_documented_redis_usage(redis: str) -> None:
    reset_context_buffer()
    config = BackendConfig(backend_type="redis", redis_url=redis)
    backend = get_shared_backend(config)
    buffer = get_context_buffer(backend=backend)
    buffer.append("t", Text("x"), "a", "b")
    assert buffer.get_stats()["total_slots"] == 1
    reset_context_buffer()
    backend.close()
