"""CPU-bound handlers in other processes: what a `ProcessPoolExecutor` runs, and how the message gets there and back.

A task is names and ids. The message itself goes through the backend as JSON, both ways, so a worker may be a process of
whatever start method. The handler is named by the process that submits the task; the class of its payload too, or by
the handler itself, in the annotation of its first parameter.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_type_hints
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
from strongroom.errors import InvalidInput, StrongroomError
from strongroom.services.threads.payloads import PayloadTypes, type_name


@dataclass
class WorkerTask:
    """A message for a handler: the ids say where it is, the paths are `module.name`."""

    thread_uuid: str
    payload_uuid: str
    handler_path: str
    metadata_uuid: str
    listener_name: str
    is_agent: bool = False
    peers: list[str] = field(default_factory=list)
    payload_class_path: str = ""


@dataclass
class WorkerResult:
    """What became of a task."""

    success: bool
    response_uuid: str | None = None
    error: str | None = None
    error_traceback: str | None = None
    elapsed_ms: float = 0.0


class _Payload(Struct):
    type: str
    payload: msgspec.Raw
    to: str | None = None


def store_task_data(
    backend: SharedBackend, payload: Any, metadata: HandlerMetadata, ttl: int = 3600
) -> tuple[str, str]:
    """Put a message and its metadata where a worker finds them; return their ids. They stay until they are removed."""
    sealed = msgspec.json.encode(_Payload(type_name(payload), msgspec.Raw(portable(payload))))
    return _put(backend, "payload", sealed), _put(backend, "metadata", msgspec.json.encode(metadata))


def fetch_task_data(
    backend: SharedBackend, payload_uuid: str, metadata_uuid: str, types: Iterable[type] = ()
) -> tuple[Any, HandlerMetadata]:
    """Return a message and its metadata. A payload of another type than these comes back as `Inert`."""
    found = msgspec.json.decode(_get(backend, "payload", payload_uuid), type=_Payload)
    metadata = msgspec.json.decode(_get(backend, "metadata", metadata_uuid), type=HandlerMetadata)
    return _known(types).build(found.type, found.payload), metadata


def store_response(backend: SharedBackend, response: HandlerResponse | None) -> str:
    """Put a handler's answer where the one who asked finds it, also that there is none; return its id."""
    if response is None:
        return _put(backend, "response", msgspec.json.encode(None))
    to = None if response.is_response else str(response.to)
    sealed = _Payload(type_name(response.payload), msgspec.Raw(portable(response.payload)), to)
    return _put(backend, "response", msgspec.json.encode(sealed))


def fetch_response(backend: SharedBackend, response_uuid: str, types: Iterable[type] = ()) -> HandlerResponse | None:
    """Return a handler's answer. A payload of another type than these comes back as `Inert`."""
    found = msgspec.json.decode(_get(backend, "response", response_uuid), type=_Payload | None)
    if found is None:
        return None
    payload = _known(types).build(found.type, found.payload)
    return HandlerResponse(payload, RESPOND_TO_CALLER if found.to is None else found.to)


def cleanup_task_data(
    backend: SharedBackend, payload_uuid: str, metadata_uuid: str, response_uuid: str | None = None
) -> None:
    """Remove a message, and its answer if there is one, that have been fetched."""
    for kind, uuid in (("payload", payload_uuid), ("metadata", metadata_uuid), ("response", response_uuid)):
        if uuid is not None:
            backend.buffer_delete_thread(_thread_of(kind, uuid))


def execute_handler(task: WorkerTask, backend_config: BackendConfig | Mapping[str, Any] | None = None) -> WorkerResult:
    """Run a handler on its message. What it raises is told, not raised: a worker stays for the next task."""
    began = time.monotonic()
    try:
        result = WorkerResult(True, _executed(task, backend_config))
    except Exception as problem:
        result = WorkerResult(False, None, str(problem) or type(problem).__name__, traceback.format_exc())
    result.elapsed_ms = (time.monotonic() - began) * 1000
    return result


def execute_handler_sync(
    task: WorkerTask, backend_config: BackendConfig | Mapping[str, Any] | None = None
) -> WorkerResult:
    """Run a handler on its message, as `execute_handler` does."""
    return execute_handler(task, backend_config)


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
        task = WorkerTask(
            metadata.thread_id,
            stored[0],
            listener.handler_path,
            stored[1],
            listener.name,
            listener.is_agent,
            listener.peers,
            listener.payload_class_path,
        )
        answer: str | None = None
        try:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._pool, execute_handler, task, backend.config)
            if not result.success:
                raise StrongroomError(f"{listener.name} failed in its worker: {result.error}")
            answer = result.response_uuid
            return None if answer is None else fetch_response(backend, answer, types)
        finally:
            cleanup_task_data(backend, *stored, answer)

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


def _executed(task: WorkerTask, backend_config: BackendConfig | Mapping[str, Any] | None) -> str:
    config = BackendConfig(**backend_config) if isinstance(backend_config, Mapping) else backend_config
    backend, handler = get_shared_backend(config), named(task.handler_path)
    types = [named(task.payload_class_path)] if task.payload_class_path else _taken(handler)
    response = handler(*fetch_task_data(backend, task.payload_uuid, task.metadata_uuid, types))
    if inspect.isawaitable(response):
        response = asyncio.run(_awaited(response))
    if response is not None and not isinstance(response, HandlerResponse):
        response = HandlerResponse.respond(response)
    return store_response(backend, response)


def _taken(handler: Any) -> list[type]:
    """Return the class that a handler says it takes, if it says one."""
    with suppress(NameError, TypeError, ValueError):  # of a name that is only there for type checkers, or no function
        first = next(iter(inspect.signature(handler).parameters), "")
        cls = get_type_hints(handler).get(first)
        return [cls] if isinstance(cls, type) else []
    return []


def _put(backend: SharedBackend, kind: str, stored: bytes) -> str:
    uuid = str(uuid4())
    backend.buffer_append(_thread_of(kind, uuid), stored)
    return uuid


def _get(backend: SharedBackend, kind: str, uuid: str) -> bytes:
    found = backend.buffer_get_thread(_thread_of(kind, uuid))
    if not found:
        raise InvalidInput(f"{kind.capitalize()} not found: {uuid:.80}")
    return found[0]


def _thread_of(kind: str, uuid: str) -> str:
    return f"worker:{kind}:{uuid}"


def _known(types: Iterable[type]) -> PayloadTypes:
    known = PayloadTypes()
    for cls in types:
        with suppress(InvalidInput):  # of two classes of one name, the first one is known
            known.register(cls)
    return known
