"""Whether to send a request again, and what to say when there is no point any more. Pure.

A repeat is always safe: reads change nothing, and a commit carries its id, so a server applies it at most once. What
was never answered is *unknown*, and says so.

Patience is for a server that was there: an outage is ridden out. Where nothing has ever answered, a wrong address is
likelier than a server that is about to come, so that is told sooner. TLS that is refused stays refused.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.errors import (
    REFUSING,
    BudgetExceeded,
    CommitUnknown,
    SchemaMismatch,
    StoreError,
    StrongroomError,
    Unavailable,
)
from strongroom.operations import Source
from strongroom.protocol.errors import revive
from strongroom.protocol.wire import MEDIA

PATIENCE_SECONDS = 15.0
SILENT_SECONDS = 5.0  # where nothing has answered yet: as long as a server takes to start again
LONGEST_PAUSE_SECONDS = 2.0
KEY_HINT = "; here: connect(url, key=...), or on the command line --key or STRONGROOM_API_KEY"
AUTHORITY_HINT = ": an authority of your own is named by connect(url, ca_file=...) or SSL_CERT_FILE"
UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # as OpenSSL says it: signed by itself, or by somebody whom nobody knows

WHO = "/store"  # where a server says which space it shows


class Request(Struct, frozen=True):
    """One request. `commit_id` marks those that change something."""

    path: str
    body: bytes | None = None
    media: str = MEDIA
    method: str = "POST"
    commit_id: str | None = None
    timeout_seconds: float = 60.0
    source: Source | None = None  # what follows the body


class Retry:
    """The life of one request: told what happened, it says how long to pause before the next try, or raises."""

    def __init__(
        self,
        request: Request,
        patience_seconds: float,
        clock: Callable[[], float] = monotonic,
        *,
        server: str = "the server",
        keyless: bool = False,
        silent_seconds: float | None = None,
    ) -> None:
        """`silent_seconds` is the patience with a server that has never answered anything; None: the same."""
        self._request = request
        self._server = server
        self._hint = KEY_HINT if keyless else ""
        self._patience = patience_seconds
        self._silence = patience_seconds if silent_seconds is None else silent_seconds
        self._clock = clock
        self._begun = clock()
        self._count = 0
        self._perhaps_done = False

    def lost(self, error: Exception, *, sent: bool, late: bool = False) -> float:
        """The connection failed. `sent`: perhaps after the server had the request. `late`: it has it, and let the time
        for an answer pass."""
        if not sent and (problem := tls_problem(error)) is not None:
            raise self._unanswered(f"{self._server}: {problem}", "tls") from error
        self._perhaps_done |= sent
        pause = self._pause(0.0, self._silence)
        if pause is None:
            seconds = max(self._silence, round(self._clock() - self._begun))
            time = f"{seconds:g} second{'' if seconds == 1 else 's'} ({type(error).__name__})"
            what = (
                f"{self._server} took the request and did not answer within {time}: it may still be at work on it"
                if late
                else f"{self._server} did not answer for {time}: is `strongroom serve` running there, and is the "
                "address right, http or https?"
            )
            raise self._unanswered(what, "unreachable") from error
        return pause

    def answered(self, status: int, headers: Mapping[str, str], content: bytes) -> float | None:
        """Return None if the answer is good, else the pause before the next try."""
        self._silence = self._patience  # somebody is there
        if status < 400:
            return None
        if self._request.path == WHO and status in (404, 405):  # the first thing that is asked, and every server knows
            raise no_server(self._server, f"it answered {status}")
        error = _error(status, content, "" if self._request.commit_id is None else "; nothing changed", self._hint)
        asked = headers.get("retry-after", "")
        again = status in (429, 502, 503, 504) and getattr(error, "reason", "") not in REFUSING
        # A bare StoreError is a server that does not know what happened to it.
        self._perhaps_done |= isinstance(error, CommitUnknown) or type(error) is StoreError or status in (502, 504)
        pause = self._pause(float(asked) if asked.isdecimal() else 0.0, self._patience) if again else None
        if pause is not None:
            return pause
        if self._request.commit_id is not None and self._perhaps_done and isinstance(error, StoreError):
            raise self._unanswered(str(error), error.reason)
        raise error

    def _pause(self, asked: float, patience: float) -> float | None:
        # The first repeat comes at once: the usual loss is a kept connection that the server has closed meanwhile.
        pause = max(asked, 0.0 if self._count == 0 else min(0.05 * 2**self._count, LONGEST_PAUSE_SECONDS))
        self._count += 1
        left = self._begun + patience - self._clock()
        if left <= 0 or asked > left:
            return None
        return min(pause * random.uniform(0.75, 1.25), left)  # the last try comes when the time is over

    def _unanswered(self, message: str, reason: str) -> StoreError:
        if self._request.commit_id is not None and self._perhaps_done:
            return CommitUnknown(
                f"{message}; the commit may or may not have happened, which a repeat with the same id tells",
                reason="connection",
                commit_id=self._request.commit_id,
            )
        suffix = "" if self._request.commit_id is None else " (nothing changed)"
        return Unavailable(f"{message}{suffix}", reason=reason or "unreachable")


def no_server(address: str, why: str) -> SchemaMismatch:
    """Say that an address is not that of a server: another program's, or of something in a server."""
    return SchemaMismatch(
        f"{address.rstrip('/')} is not the address of a Strongroom server ({why}): it ends with the port, such as "
        "http://127.0.0.1:8000, unless a proxy puts a path before everything",
        reason="http",
    )


def tls_problem(error: BaseException | None) -> str | None:
    """Say why the two sides will never agree on TLS; None if they might, or if it is something else.

    A handshake that was cut off says nothing: whoever restarts cuts one off.
    """
    while error is not None and not isinstance(error, ssl.SSLError):
        # Not its context, which may be what the caller was handling. Some wrap what they raise it for, and hide it.
        error = error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = AUTHORITY_HINT if getattr(error, "verify_code", 0) in UNKNOWN_AUTHORITY else ""
        return f"its certificate is not accepted ({error.verify_message}){hint}"
    if error is None or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return None
    return f"what listens there does not speak TLS as this machine does ({error.reason}): is it http:// there?"


def _error(status: int, content: bytes, nothing: str, hint: str) -> StrongroomError:
    try:
        told: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        told = None
    if not isinstance(told, dict) or "code" not in told:
        if status >= 500:
            return Unavailable(f"something in between answered {status}{nothing}", reason="unreachable")
        return SchemaMismatch(f"this is not a Strongroom server (it answered {status}){nothing}", reason="http")
    message, code, details = str(told.get("error", "")), told["code"], told.get("details", {})
    if code == "closed":  # the server is stopping; another may take its place
        return Unavailable(message, reason="unreachable")
    if error := revive(code, message, details):
        return error
    if status == 401:
        return Unavailable(f"{message}{hint}{nothing}", reason="unauthorised")
    if status == 403:
        return Unavailable(f"{message}{nothing}", reason="permission")
    if status == 413:
        return BudgetExceeded(message, limit=details.get("limit", 0), needed=details.get("needed", 0))
    if status == 429:
        return Unavailable(message, reason="too_many_requests")
    if status >= 500:
        return StoreError(message, reason="server")
    return SchemaMismatch(f"the server does not understand this client: {message}", reason="http")
