"""Answers: msgspec bytes, and one shape for everything that is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strongroom.errors import (
    BudgetExceeded,
    Closed,
    CommitUnknown,
    Conflict,
    Damaged,
    Immutable,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StrongroomError,
    Unavailable,
    help_of,
)
from strongroom.protocol.errors import facts
from strongroom.remedies import known

JSON = "application/json"
PIECE_BYTES = 256 * 1024

# The first line that fits decides.
STATUS: tuple[tuple[type[StrongroomError], int], ...] = (
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
    (StrongroomError, 500),
)

# The text that clients of the run API have been promised for a lost race.
CONFLICT = "Conflict: State has changed. Reload and retry."


class Refusal(StrongroomError):
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


class Whole(Response):
    """An answer that is in memory. A long one is sent in pieces: whoever reads slowly keeps one copy of it, not two."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body, start = self.body, 0
        while len(body) - start > PIECE_BYTES:
            piece = body[start : start + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            start += PIECE_BYTES
        await send({"type": "http.response.body", "body": body[start:] if start else body})


def reply(value: object, status: int = 200, *, headers: dict[str, str] | None = None) -> Whole:
    """Answer with a value as JSON bytes."""
    return Whole(msgspec.json.encode(value), status, headers, JSON)


class Tidy:
    """What of an error's text is for callers: no folder of the server, and of a read not that nothing changed."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = sorted((folder.rstrip("/") for folder in folders if len(folder) > 1), key=len)[::-1]

    def __call__(self, text: str, *, reads: bool) -> str:
        for folder in self._folders:
            text = text.replace(f"{folder}/", "").replace(folder, "the server's folder")
        return _NOTHING.sub("", text) if reads else text


_NOTHING = re.compile(r"[;,]? \(?nothing (?:was )?changed\)?$")


def lost_race(conflict: Conflict, headers: dict[str, str] | None = None, told: str = CONFLICT) -> Refusal:
    """Refuse who lost a race, in the words that clients were promised unless others say it better."""
    return Refusal(409, conflict.code, told, headers=headers, details={**facts(conflict), "message": str(conflict)})


def problem(error: Exception, request_id: str, *, tidy: Tidy | None = None, reads: bool = False) -> Whole:
    """Answer with an error: what is wrong, a stable code, and the id to look for in the log. Never a traceback."""
    tidy = tidy or Tidy()
    if isinstance(error, Conflict):
        error = lost_race(error)
    elif isinstance(error, ClientDisconnect):
        error = Refusal(400, "body_incomplete", "the body ended before it was complete; nothing changed")
    if isinstance(error, Refusal):
        status, headers, details = error.status, error.headers, error.details or {}
    elif isinstance(error, StrongroomError):
        status = next(number for kind, number in STATUS if isinstance(error, kind))
        if getattr(error, "reason", "") == "disk_full":
            status = 507
        headers, details = {"Retry-After": "1"} if status == 503 else {}, facts(error)
    else:
        message = "something went wrong inside the server; the log has more under this id"
        return reply(_body(message, "internal", request_id, {}), 500)
    told = {name: tidy(fact, reads=reads) if isinstance(fact, str) else fact for name, fact in details.items()}
    body = _body(tidy(str(error), reads=reads), error.code, request_id, told, conflict=status == 409)
    return reply(body, status, headers=headers)


def _body(
    message: str, code: str, request_id: str, details: dict[str, Any], *, conflict: bool = False
) -> dict[str, Any]:
    # Every 409 has both, so that whoever handles one can look: null where it is not about versions.
    versions = {name: details.get(name) for name in ("expected", "actual") if conflict or name in details}
    body: dict[str, Any] = {"ok": False, "error": message, "code": code, "id": request_id, **versions}
    if word := known(details.get("reason") or code):
        body["help"] = help_of(word)
    return {**body, "details": details} if details else body


def in_words(value: Any) -> str:
    """Return what somebody stored as text: itself, nothing for nothing, and anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def shortened(value: Any, most: int) -> str:
    """Return a value as text, cut to so many characters."""
    text = in_words(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
