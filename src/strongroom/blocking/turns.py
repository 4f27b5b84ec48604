"""Turn: the blocking twin of AsyncTurn. It collects; only its end waits for the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, overload

from strongroom.arguments import got_by
from strongroom.blocking.runs import Run
from strongroom.blocking.sessions import Session
from strongroom.bridge import blocking, run
from strongroom.entering import EnteredBlocking
from strongroom.errors import InvalidInput, shown
from strongroom.meant import Meant
from strongroom.payloads import ErrorTold, EventType, ModelAction, ModelUpdate, Said, StepRequest, ToolCall, ToolResult
from strongroom.services.memories.values import MemoryRequest, Request
from strongroom.services.sessions.values import Messages
from strongroom.services.sessions.writes import Ids
from strongroom.services.turns.turn import AsyncTurn
from strongroom.values import ListFields, Removed, UpdateFields


@got_by("`with ctx.turn() as turn`", lambda given: isinstance(given, AsyncTurn))
class Turn(EnteredBlocking, Meant):
    """A unit of work over everything in a space. Made by `ctx.turn`; its calls are made when its block ends.

    >>> ctx = strongroom.open("memory://")
    >>> run, chat = ctx.runs.create(objective="Answer a ticket"), ctx.sessions.open("support-7")
    >>> with ctx.turn() as turn:
    ...     turn.append(chat, {"role": "user", "content": "Hello!"})
    ...     turn.update(run, status="BUSY")
    >>> len(chat), run.working_set.status
    (1, 'BUSY')
    """

    _ENTER = "with ctx.turn() as turn"

    def __init__(self, turn: AsyncTurn) -> None:
        self._async = turn

    def __repr__(self) -> str:
        return repr(self._async).replace("Async", "", 1)

    def append(
        self,
        session: Session,
        messages: Messages,
        *,
        sidecars: Sequence[Any] | None = None,
        ids: Ids = "unique",
        expected_revision: str | None = None,
    ) -> None:
        """Add messages to a session. See `Session.append`."""
        self._async.append(
            _handle(session, Session), messages, sidecars=sidecars, ids=ids, expected_revision=expected_revision
        )

    def update(
        self,
        run: Run,
        /,
        *,
        expected_seq: int | None = None,
        append: ListFields | None = None,
        remove: Removed | None = None,
        state_patch: Mapping[str, Any] | None = None,
        actor: str | None = None,
        parent: str | None = None,
        **fields: Unpack[UpdateFields],
    ) -> None:
        """Update a run. See `Run.update`; what is expected is said of the run as it was before the turn."""
        self._async.update(
            _handle(run, Run),
            expected_seq=expected_seq,
            append=append,
            remove=remove,
            state_patch=state_patch,
            actor=actor,
            parent=parent,
            **fields,
        )

    @overload
    def record(self, run: Run, type: Literal["STEP_REQUEST"], payload: StepRequest, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: Literal["MODEL_ACTION"], payload: ModelAction, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: Literal["TOOL_CALL"], payload: ToolCall, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: Literal["TOOL_RESULT"], payload: ToolResult, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: Literal["MODEL_UPDATE"], payload: ModelUpdate, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: Literal["ERROR"], payload: ErrorTold, **said: Unpack[Said]) -> None: ...
    @overload
    def record(self, run: Run, type: EventType, payload: Mapping[str, Any], **said: Unpack[Said]) -> None: ...
    def record(
        self, run: Run, type: str, payload: Mapping[str, Any], *, actor: str | None = None, parent: str | None = None
    ) -> None:
        """Add an event to a run's ledger. See `Run.record`."""
        self._async.record(_handle(run, Run), EventType(type), payload, actor=actor, parent=parent)

    def send(self, thread_id: str, payload: Any, *, from_id: str, to_id: str = "") -> None:
        """Add a message to a thread. See `ctx.threads.append`."""
        self._async.send(thread_id, payload, from_id=from_id, to_id=to_id)

    def propose(
        self,
        requests: MemoryRequest | Request | Sequence[MemoryRequest | Request],
        *,
        proposer: str,
        run_id: str | None = None,
        batch_id: str | None = None,
    ) -> None:
        """Stage memories for review. See `ctx.memories.propose`."""
        self._async.propose(requests, proposer=proposer, run_id=run_id, batch_id=batch_id)

    results = blocking(AsyncTurn.results)

    def __enter__(self) -> Turn:
        self._async._begin()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        run(self._async.__aexit__(kind, *rest))


def _handle(given: Any, kind: type[Run | Session]) -> Any:
    if not isinstance(given, kind):
        got = f"ctx.{kind.__name__.lower()}s.get(...)"
        raise InvalidInput(
            f"a {kind.__name__} of this context was expected, as {got} returns it, not {shown(given)}: a turn reads "
            "nothing before its end, so it takes no ids; nothing changed"
        )
    return given._async
