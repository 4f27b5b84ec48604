"""Asking the person at the assistant, in both families of the protocol.

In 2025-11-25 the server sends a request of its own and waits for the answer. In 2026-07-28 it answers "input required",
and the client calls again with what the person said. A client that can do neither is asked nothing: `ask` returns None
and the tool takes its plain path.

Nothing is sealed into the state that travels with the question: the second call names the same batch as the first, and
what a batch proposes never changes. So any worker can take the second call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from strongroom.errors import BudgetExceeded

ANSWER = "answer"  # what the one question of a call is called
LONGEST_MESSAGE = 32_000  # characters; more is read nowhere in a chat


class Reply(Struct, frozen=True):
    """What a person did with a form: filled it in, declined, or closed it."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any]


class InputRequired(Exception):
    """The call cannot go on before a person has answered; `result` is what the client is told."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


class Elicitation(Protocol):
    """Asks a person."""

    async def ask(self, message: str, form: dict[str, Any]) -> Reply | None:
        """Return what the person answered, or None if this client asks nobody. They see the whole message, or nobody
        is asked: what was cut off would be agreed to unseen."""
        ...


class ClientElicitation:
    """Asks through the client that made a call."""

    def __init__(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> None:
        self._context = context
        self._params = params

    async def ask(self, message: str, form: dict[str, Any]) -> Reply | None:
        session = self._context.session
        if not shows_forms(session.client_capabilities):
            return None
        modern = self._context.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not modern and not session.can_send_request:
            return None
        if len(message) > LONGEST_MESSAGE:
            raise BudgetExceeded(
                f"this is {len(message):,} characters, and a person is shown {LONGEST_MESSAGE:,} in a form; decide it "
                "with `strongroom review` or in the console, which show all of it; nothing changed",
                limit=LONGEST_MESSAGE,
                needed=len(message),
            )
        if modern:
            return self._answered(message, form)
        return _reply(await session.elicit_form(message, form, related_request_id=self._context.request_id))

    def _answered(self, message: str, form: dict[str, Any]) -> Reply:
        given = (self._params.input_responses or {}).get(ANSWER)
        if isinstance(given, ElicitResult):
            return _reply(given)
        question = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))
        raise InputRequired(InputRequiredResult(input_requests={ANSWER: question}))


def shows_forms(client: ClientCapabilities | None) -> bool:
    """Tell whether a client shows forms: it says so, or that it asks its person and not how."""
    asks = None if client is None else client.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


def _reply(result: ElicitResult) -> Reply:
    return Reply(result.action, result.content or {})
