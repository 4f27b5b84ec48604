"""What goes over the wire: one shape for errors, msgspec bytes for answers, strict JSON for questions."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.wire import facts
from holdfast.codec import parse
from holdfast.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    HoldfastError,
    Immutable,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    Unavailable,
)

JSON = "application/json"

# The first line that fits decides.
STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (BudgetExceeded, 413),
    (Immutable, 422),
    (InvalidInput, 422),
    (CommitUnknown, 503),
    (Closed, 503),
    (Damaged, 500),
    (SchemaMismatch, 500),
    (Unavailable, 503),
    (HoldfastError, 500),
)

# The text that clients of the run API have been promised for a lost race.
CONFLICT = "Conflict: State has changed. Reload and retry."


class Refusal(HoldfastError):
    """A request that the server itself turns away."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = details
        self.status = status
        self.code = code
        self.headers = headers or {}


def reply(value: object, status: int = 200, *, headers: dict[str, str] | None = None) -> Response:
    """Answer with a value as JSON bytes."""
    return Response(msgspec.json.encode(value), status, headers=headers, media_type=JSON)


def problem(error: Exception, correlation: str) -> Response:
    """Answer with an error: what is wrong, a stable code, and the id to look for in the log. Never a traceback."""
    if isinstance(error, Refusal):
        return reply(_body(str(error), error.code, correlation, error.details), error.status, headers=error.headers)
    if isinstance(error, Conflict):
        details = {**facts(error), "message": str(error)}
        return reply(_body(CONFLICT, error.code, correlation, details), 409)
    if isinstance(error, HoldfastError):
        status = next(number for kind, number in STATUS if isinstance(error, kind))
        if getattr(error, "reason", "") == "disk_full":
            status = 507
        headers = {"Retry-After": "1"} if status == 503 else None
        return reply(_body(str(error), error.code, correlation, facts(error)), status, headers=headers)
    message = "something went wrong inside the server; the log has more under this id"
    return reply(_body(message, "internal", correlation), 500)


def _body(message: str, code: str, correlation: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"ok": False, "error": message, "code": code, "id": correlation, **({"details": details} if details else {})}


async def body(request: Request) -> Any:
    """Return the JSON body of a request, parsed strictly. Its size was bounded before we were called."""
    raw = await request.body()
    if not raw:
        return {}
    kind = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise Refusal(415, "unsupported_media_type", f"send {JSON}, not {kind[:60]!r}; nothing changed")
    return parse(raw)


def correlation_id(request: Request) -> str:
    """Return the id that joins an answer to the log: the caller's own if it is sensible, else a new one."""
    given = request.headers.get("x-request-id", "")
    return (
        given if 0 < len(given) <= 64 and given.isascii() and given.replace("-", "").isalnum() else os.urandom(8).hex()
    )
