"""StreamPump: messages in, handlers called, answers back in, until nothing is left to do.

Every message is recorded once, when it is delivered, in its own thread of the process's context buffer. An answer goes
to the caller on the caller's thread; what is sent further opens a thread of its own. Whoever sent a message that cannot
be handled is told so. Messages that must survive a crash go through `strongroom.dispatch`, which has leases.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any
from uuid import uuid4

from msgspec import Struct

import strongroom.compat.xml_pipeline.message_bus.envelope as envelope
from strongroom.compat.xml_pipeline.memory.context_buffer import get_context_buffer
from strongroom.compat.xml_pipeline.memory.shared_backend import get_shared_backend
from strongroom.compat.xml_pipeline.memory.slots import BufferSlot, slot_to_handler_metadata
from strongroom.compat.xml_pipeline.message_bus.organism import ConfigLoader, Listener, ListenerConfig, OrganismConfig
from strongroom.compat.xml_pipeline.message_bus.thread_registry import get_registry
from strongroom.compat.xml_pipeline.message_bus.worker import Workers
from strongroom.compat.xml_pipeline.messages import (
    ROUTING_ERROR,
    HandlerMetadata,
    HandlerResponse,
    MessageState,
    SystemError,
)
from strongroom.errors import InvalidInput

__all__ = ["ConfigLoader", "Listener", "ListenerConfig", "OrganismConfig", "StreamPump", "bootstrap"]

log = logging.getLogger(__name__)
SYSTEM = "system"


class Pipeline(Struct, frozen=True):
    """A pump at work on a source of messages."""

    answers: AsyncGenerator[MessageState]

    def stream(self) -> aclosing[AsyncGenerator[MessageState]]:
        """Offer the answers as they are made. Leaving the block ends what is under way."""
        return aclosing(self.answers)


class StreamPump:
    """The listeners of an organism, and the messages between them."""

    def __init__(self, config: OrganismConfig) -> None:
        self.config = config
        self.queue: asyncio.Queue[MessageState | None] = asyncio.Queue()
        self.listeners: dict[str, Listener] = {}
        self.routing_table: dict[str, list[Listener]] = {}
        self._running = False
        self._per_agent: dict[str, asyncio.Semaphore] = {}
        self._workers = Workers(config.process_pool, lambda: get_context_buffer().backend)

    def register_listener(self, lc: ListenerConfig) -> Listener:
        """Add a listener. Its messages are those to its name whose payload has the name of its class."""
        listener = Listener.of(lc)
        if listener.is_agent:
            self._per_agent[listener.name] = asyncio.Semaphore(self.config.max_concurrent_per_agent)
        self.routing_table.setdefault(listener.root_tag, []).append(listener)
        self.listeners[listener.name] = listener
        return listener

    def register_all(self) -> None:
        """Add the listeners of the configuration, and tell agents how to talk to their peers."""
        for lc in self.config.listeners:
            self.register_listener(lc)
        for listener in self.listeners.values():
            if listener.is_agent and listener.peers:
                listener.usage_instructions = listener.instructions(self.listeners)

    async def inject(self, raw_bytes: bytes, thread_id: str, from_id: str) -> None:
        """Put a message in, as an envelope."""
        await self.queue.put(MessageState(raw_bytes=raw_bytes, thread_id=thread_id, from_id=from_id))

    async def run(self) -> None:
        """Handle messages until `shutdown`."""
        self._running = True
        try:
            async with self.build_pipeline(self._queue_source()).stream() as answers:
                async for _ in answers:
                    pass
        finally:
            self._running = False
            self._workers.close()

    async def shutdown(self) -> None:
        """Take no more messages. What is being handled is finished; what is queued stays so."""
        self._running = False
        await self.queue.put(None)

    def build_pipeline(self, source: AsyncIterator[MessageState]) -> Pipeline:
        """Return the way of messages from a source to their handlers."""
        return Pipeline(self._answers(source))

    async def _queue_source(self) -> AsyncIterator[MessageState]:
        while self._running:
            state = await self.queue.get()
            if state is not None:
                yield state

    async def _answers(self, source: AsyncIterator[MessageState]) -> AsyncGenerator[MessageState]:
        """Handle messages side by side and yield their answers, each put back in first."""
        room = asyncio.Semaphore(self.config.max_concurrent_handlers)
        made: asyncio.Queue[MessageState | None] = asyncio.Queue()

        async def handle(state: MessageState) -> None:
            try:
                for answer in await self._handled(state):
                    await self._reinject_responses(answer)
                    await made.put(answer)
            finally:
                room.release()

        async def feed() -> None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    async for state in source:
                        await room.acquire()
                        tasks.create_task(handle(state))
            finally:
                made.put_nowait(None)

        feeding = asyncio.create_task(feed())
        try:
            while (answer := await made.get()) is not None:
                yield answer
            await feeding
        finally:
            feeding.cancel()

    async def _reinject_responses(self, state: MessageState) -> None:
        await self.queue.put(state)

    async def _handled(self, state: MessageState) -> list[MessageState]:
        """Deliver a message to its listeners and return what they answer."""
        try:
            targets = self._opened(state)
        except InvalidInput as problem:
            log.warning("message from %r on %s: %s", state.from_id, state.thread_id, problem)
            return self._told(state, SystemError("validation", str(problem)))
        if not targets:
            if state.to_id in self.listeners and state.from_id != SYSTEM:
                return self._told(state, ROUTING_ERROR)
            self._record(state, None)  # for somebody outside, who reads it in the thread
            return []
        return [answer for listener in targets for answer in await self._delivered(state, listener)]

    def _opened(self, state: MessageState) -> list[Listener]:
        """Find out who gets a message, and make its payload of the bytes it came in."""
        if state.payload is None and state.raw_bytes is not None:
            read = envelope.read(state.raw_bytes)
            state.from_id, state.to_id = read.from_id or state.from_id, read.to_id or state.to_id
            state.thread_id = read.thread_id or state.thread_id or str(uuid4())
            targets = self._targets(state.to_id, read.tag)
            if not targets:
                raise InvalidInput(f"nobody listens for a {read.tag!r:.60} to {state.to_id!r:.60}")
            state.payload = envelope.load(targets[0].payload_class, read.payload)
            return targets
        targets = self._targets(state.to_id, type(state.payload).__name__)
        if targets:
            state.payload = envelope.fitted(targets[0].payload_class, state.payload)
        return targets

    def _targets(self, to_id: str | None, tag: str) -> list[Listener]:
        if to_id:
            return self.routing_table.get(f"{to_id}.{tag}".lower(), [])
        return [one for one in self.listeners.values() if one.payload_class.__name__.lower() == tag.lower()]

    async def _delivered(self, state: MessageState, listener: Listener) -> list[MessageState]:
        thread_id = state.thread_id or str(uuid4())
        registry = get_registry()
        if registry.lookup(thread_id) is None:
            registry.register_thread(thread_id, state.from_id or "external", listener.name)
        try:
            slot = self._record(state, listener)
            response = await self._called(listener, slot.payload, slot_to_handler_metadata(slot))
            several = response if isinstance(response, list) else [] if response is None else [response]
            return [answer for one in several for answer in self._answered(one, listener, thread_id)]
        except Exception as problem:
            log.exception("%r failed on a message of thread %s", listener.name, thread_id)
            code = "full" if isinstance(problem, MemoryError) else "handler"
            failed = SystemError(code, f"{listener.name} could not handle the message: {type(problem).__name__}")
            return self._told(state, failed, registry.prune_for_response(thread_id)[1])

    def _record(self, state: MessageState, listener: Listener | None) -> BufferSlot:
        name = state.to_id or "" if listener is None else listener.name
        return get_context_buffer().append(
            state.thread_id or "",
            state.payload,
            state.from_id or "external",
            name,
            own_name=name if listener is not None and listener.is_agent else None,
            is_self_call=state.from_id == name,
            usage_instructions="" if listener is None else listener.usage_instructions,
        )

    def _answered(self, response: Any, listener: Listener, thread_id: str) -> list[MessageState]:
        """Say where a handler's answer goes."""
        if isinstance(response, bytes):
            return [MessageState(raw_bytes=response, thread_id=thread_id, from_id=listener.name)]
        if not isinstance(response, HandlerResponse):
            response = HandlerResponse.respond(response)
        registry = get_registry()
        if response.is_response:
            to, thread = registry.prune_for_response(thread_id)
            if to is None or thread is None:
                return []
        else:
            to = str(response.to)
            if listener.is_agent and listener.peers and to not in listener.peers:
                log.warning("%r may not send to %r", listener.name, to)
                return [envelope.message(ROUTING_ERROR, SYSTEM, listener.name, thread_id)]
            thread = registry.extend_chain(thread_id, to)
        return [envelope.message(response.payload, listener.name, to, thread)]

    def _told(self, state: MessageState, error: SystemError, thread_id: str | None = None) -> list[MessageState]:
        """Tell the sender of a message that it was not handled. What the system says is answered by nobody."""
        if state.from_id is None or state.from_id == SYSTEM:
            return []
        return [envelope.message(error, SYSTEM, state.from_id, thread_id or state.thread_id or "")]

    async def _called(self, listener: Listener, payload: Any, metadata: HandlerMetadata) -> Any:
        async with self._per_agent.get(listener.name) or nullcontext():
            if listener.cpu_bound and self.config.process_pool.enabled:
                types = [one.payload_class for one in self.listeners.values()]
                return await self._workers.call(listener, payload, metadata, types)
            response = listener.handler(payload, metadata)
            return await response if inspect.isawaitable(response) else response


async def bootstrap(config_path: str = "config/organism.yaml") -> StreamPump:
    """Make the pump that a file describes, with its listeners, over the backend it names."""
    config = ConfigLoader.load(config_path)
    if config.backend.backend_type != "memory":
        get_context_buffer(backend=get_shared_backend(config.backend))
    pump = StreamPump(config)
    pump.register_all()
    get_registry().initialize_root(config.name)
    return pump
