"""CPU-bound handlers in other processes: what a `ProcessPoolExecutor` runs, and how the message gets there and back.

A task is names and ids. The message itself goes through the backend as JSON, both ways, so a worker may be a process of
whatever start method. The handler and the class of its payload are named by the process that submits the task.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig, ProcessPoolConfig, SharedBackend
from strongroom.compat.xml_pipeline.memory.shared_backend import ManagerBackend, get_shared_backend
from strongroom.compat.xml_pipeline.memory.slots import portable
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.compat.xml_pipeline.messages import (
    RESPOND_TO_CALLER,
    HandlerMetadata,
    HandlerResponse,
)
from strongroom.errors import InvalidInput, NotFound, StrongroomError
from strongroom.services.threads.payloads import PayloadTypes, type_name


@dataclass(frozen=True)
class WorkerTask:
    """A message for a handler: `payload_uuid` says where it is, the paths are `module.name`."""

    thread_uuid: str
    payload_uuid: str
    handler_path: str
    payload_class_path: str = ""


@dataclass(frozen=True)
class WorkerResult:
    """What became of a task. Without a `response_uuid` the handler had nothing to say."""

    success: bool
    response_uuid: str | None = None
    error: str | None = None


class _Payload(Struct):
    type: str
    payload: msgspec.Raw
    metadata: HandlerMetadata | None = None
    to: str | None = None


def store_task_data(backend: SharedBackend, payload: Any, metadata: HandlerMetadata) -> str:
    """Put a message where a worker finds it; return its id."""
    return _put(backend, _Payload(type_name(payload), msgspec.Raw(portable(payload)), metadata))


def fetch_task_data(backend: SharedBackend, uuid: str, types: Iterable[type] = ()) -> tuple[Any, HandlerMetadata]:
    """Return a message and its metadata. A payload of another type than these comes back as `Inert`."""
    found = _get(backend, uuid)
    assert found.metadata is not None
    return _known(types).build(found.type, found.payload), found.metadata


def store_response(backend: SharedBackend, response: HandlerResponse) -> str:
    """Put a handler's answer where the one who asked finds it; return its id."""
    to = None if response.is_response else str(response.to)
    return _put(backend, _Payload(type_name(response.payload), msgspec.Raw(portable(response.payload)), None, to))


def fetch_response(backend: SharedBackend, uuid: str, types: Iterable[type] = ()) -> HandlerResponse:
    """Return a handler's answer. A payload of another type than these comes back as `Inert`."""
    found = _get(backend, uuid)
    payload = _known(types).build(found.type, found.payload)
    return HandlerResponse(payload, RESPOND_TO_CALLER if found.to is None else found.to)


def cleanup_task_data(backend: SharedBackend, *uuids: str | None) -> None:
    """Remove messages and answers that have been fetched."""
    for uuid in uuids:
        if uuid is not None:
            backend.buffer_delete_thread(_thread_of(uuid))


def execute_handler(task: WorkerTask, backend_config: BackendConfig) -> WorkerResult:
    """Run a handler on its message. What it raises is told, not raised: a worker stays for the next task."""
    try:
        backend = get_shared_backend(backend_config)
        types = [named(task.payload_class_path)] if task.payload_class_path else []
        payload, metadata = fetch_task_data(backend, task.payload_uuid, types)
        response = named(task.handler_path)(payload, metadata)
        if inspect.isawaitable(response):
            response = asyncio.run(_awaited(response))
        if response is None:
            return WorkerResult(True)
        if not isinstance(response, HandlerResponse):
            response = HandlerResponse.respond(response)
        return WorkerResult(True, store_response(backend, response))
    except Exception as problem:
        return WorkerResult(False, None, f"{type(problem).__name__}: {problem}")


class Workers:
    """The processes of a pump, started when they are first needed."""

    def __init__(self, sizes: ProcessPoolConfig, shared: Callable[[], SharedBackend | None]) -> None:
        self._sizes = sizes
        self._shared = shared
        self._own: StoreBackend | None = None
        self._pool: ProcessPoolExecutor | None = None

    async def call(self, listener: Any, payload: Any, metadata: HandlerMetadata, types: Iterable[type]) -> Any:
        """Run a listener's handler in another process and return what it answers."""
        if self._pool is None:
            # Forked workers cannot be replaced after so many tasks, says the library; spawned ones can.
            most = self._sizes.max_tasks_per_child
            context = None if most is None else multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._sizes.workers, mp_context=context, max_tasks_per_child=most)
        backend = self._backend()
        stored = store_task_data(backend, payload, metadata)
        task = WorkerTask(metadata.thread_id, stored, listener.handler_path, listener.payload_class_path)
        answer: str | None = None
        try:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._pool, execute_handler, task, backend.config)
            if not result.success:
                raise StrongroomError(f"{listener.name} failed in its worker: {result.error}")
            answer = result.response_uuid
            return None if answer is None else fetch_response(backend, answer, types)
        finally:
            cleanup_task_data(backend, stored, answer)

    def close(self) -> None:
        """Let the processes go. They are started again if need be."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _backend(self) -> StoreBackend:
        """Return a backend that other processes reach: the buffer's, or, if that is in this process, one of our own."""
        shared = self._shared()
        if isinstance(shared, StoreBackend) and shared.config.backend_type != "memory":
            return shared
        if self._own is None:
            self._own = ManagerBackend()
        return self._own


def named(path: str) -> Any:
    """Return what a path names: a module, a dot, and a name in it."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InvalidInput(f"there is no {path!r:.120}: {problem}") from None


async def _awaited(response: Any) -> Any:
    return await response


def _put(backend: SharedBackend, stored: _Payload) -> str:
    uuid = str(uuid4())
    backend.buffer_append(_thread_of(uuid), msgspec.json.encode(stored))
    return uuid


def _get(backend: SharedBackend, uuid: str) -> _Payload:
    found = backend.buffer_get_thread(_thread_of(uuid))
    if not found:
        raise NotFound(f"there is no task data {uuid!r:.80}", kind="task", id=uuid)
    return msgspec.json.decode(found[0], type=_Payload)


def _thread_of(uuid: str) -> str:
    return f"task:{uuid}"


def _known(types: Iterable[type]) -> PayloadTypes:
    known = PayloadTypes()
    for cls in types:
        with suppress(InvalidInput):  # of two classes of one name, the first one is known
            known.register(cls)
    return known
