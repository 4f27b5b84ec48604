"""The public names that `strongroom` loads when one of them is first used, and what opens a context."""

from __future__ import annotations

import os
from collections.abc import Callable as Callable
from typing import Any
from typing import Literal as Literal

from strongroom.arguments import explained as explained
from strongroom.blocking import Context as Context
from strongroom.blocking.runs import Run as Run
from strongroom.blocking.sessions import Session as Session
from strongroom.blocking.threads import Thread as Thread
from strongroom.blocking.turns import Turn as Turn
from strongroom.context import AsyncContext as AsyncContext
from strongroom.context import Opening as Opening
from strongroom.embedders import Embedder as Embedder
from strongroom.encryption import Secret as Secret
from strongroom.meaning import split
from strongroom.opening import open_async_scope, open_scope
from strongroom.payloads import ErrorTold as ErrorTold
from strongroom.payloads import EventType as EventType
from strongroom.payloads import ModelAction as ModelAction
from strongroom.payloads import ModelUpdate as ModelUpdate
from strongroom.payloads import StepRequest as StepRequest
from strongroom.payloads import ToolCall as ToolCall
from strongroom.payloads import ToolResult as ToolResult
from strongroom.services.files.values import File as File
from strongroom.services.memories import values as memories
from strongroom.services.memories.policy import Policy as Policy
from strongroom.services.memories.values import Batch as Batch
from strongroom.services.memories.values import Memory as Memory
from strongroom.services.memories.values import MemoryRequest as MemoryRequest
from strongroom.services.prompt.values import Prompt as Prompt
from strongroom.services.runs.run import AsyncRun as AsyncRun
from strongroom.services.sessions import values as sessions
from strongroom.services.sessions.session import AsyncSession as AsyncSession
from strongroom.services.sessions.values import Message as Message
from strongroom.services.sessions.values import NewMessage as NewMessage
from strongroom.services.threads.reading import AsyncThread as AsyncThread
from strongroom.services.threads.values import Slot as Slot
from strongroom.services.turns.turn import AsyncTurn as AsyncTurn
from strongroom.store import Durability as Durability
from strongroom.store import Repeats as Repeats
from strongroom.tokens import Tokenizer as Tokenizer
from strongroom.tokens import Window as Window
from strongroom.tokens import fit as fit
from strongroom.values import Brief as Brief
from strongroom.values import Episode as Episode
from strongroom.values import Event as Event
from strongroom.values import Listing as Listing
from strongroom.values import RunConfig as RunConfig
from strongroom.values import Status as Status
from strongroom.values import UpdateFields as UpdateFields
from strongroom.values import Verification as Verification
from strongroom.values import WorkingSet as WorkingSet
from strongroom.vectors import VectorIndex as VectorIndex

# Each is called `Hit` at home; here both are, so each says of what it is one.
MemoryHit = memories.Hit
MessageHit = sessions.Hit
Address = str | os.PathLike[str]


def open_context(address: Address, space: str, options: dict[str, Any]) -> Context:
    """Open a store for blocking code."""
    found, own = split(options)
    scope = open_scope(address, space, own)
    return Context(AsyncContext(scope, embedder=found.embedder, index=found.index))


def open_async_context(address: Address, space: str, options: dict[str, Any]) -> Opening:
    """Open a store for async code, once somebody awaits or enters it."""

    async def opened() -> AsyncContext:
        found, own = split(options)
        scope = await open_async_scope(address, space, own)
        return AsyncContext(scope, embedder=found.embedder, index=found.index)

    return Opening(opened())
