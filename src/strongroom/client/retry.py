"""Whether to send a request again, and what to say when there is no point any more. Pure.

A repeat is safe: reads change nothing, and a commit carries its id, so a server applies it at most once for as long as
it knows the id (one of ours for an hour after it was made), and nothing is repeated later than that. What the server
itself never answered is *unknown*, and says so: whatever stands in between may have passed it on.

Patience is for a server that was there: an outage is ridden out. Where nothing has ever answered, a wrong address is
likelier than a server that is about to come, so that is told sooner. TLS that is refused stays refused.
"""

from __future__ import annotations

import math
import random
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.elapsed import elapsed
from strongroom.errors import (
    REFUSING,
    BudgetExceeded,
    Closed,
    CommitUnknown,
    SchemaMismatch,
    StoreError,
    StrongroomError,
    Unavailable,
)
from strongroom.operations import UNCHANGED, Source, unchanged
from strongroom.protocol.errors import revive
from strongroom.protocol.wire import MEDIA

PATIENCE_SECONDS = 15.0
SILENT_SECONDS = 5.0  # where nothing has answered yet: as long as a server takes to start again
LONGEST_PAUSE_SECONDS = 2.0
KEY_HINT = "; here: connect(url, key=...), or on the command line --key or STRONGROOM_API_KEY"
AUTHORITY_HINT = ": an authority of your own is named by connect(url, ca_file=...) or SSL_CERT_FILE"
UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # as OpenSSL says it: signed by itself, or by somebody whom nobody knows

BUSY = (429, 502, 503, 504)
BETWEEN = 520  # from here on only what stands before a server answers: that it did not come, or not in time

WHO = "/store"  # where a server says which space it shows


class Request(Struct, frozen=True):
    """One request. `commit_id` marks those that change something; a repeat is sure to be known as one for
    `known_seconds`."""

    path: str
    body: bytes | None = None
    media: str = MEDIA
    method: str = "POST"
    commit_id: str | None = None
    known_seconds: float = math.inf
    timeout_seconds: float = 60.0
    source: Source | None = None  # what follows the body


class Retry:
    """The life of one request: told what happened, it says how long to pause before the next try, or raises."""

    def __init__(
        self,
        request: Request,
        patience_seconds: float,
        clock: Callable[[], float] = elapsed,
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
        if status < 300:
            return None
        # The first thing that is asked, which every server knows.
        if self._request.path == WHO and (status < 400 or status in (404, 405)):
            raise no_server(self._server, f"it answered {status}")
        told = _told(content)
        error = _error(status, told, self._hint)
        asked = headers.get("retry-after", "")
        # Any other that is not ours, a bare 500 above all, is one that a repeat would only get again.
        again = status in BUSY or (status >= BETWEEN and told is None)
        again = again and getattr(error, "reason", "") not in REFUSING
        # Only the server can say that nothing changed: whoever stands in between may refuse its answer, whatever the
        # status of that is. A bare StoreError is a server that does not know what happened.
        self._perhaps_done |= told is None or isinstance(error, CommitUnknown) or type(error) is StoreError
        pause = self._pause(float(asked) if asked.isdecimal() else 0.0, self._patience) if again else None
        if pause is not None:
            return pause
        if self._request.commit_id is None:
            raise error
        if self._perhaps_done and isinstance(error, StoreError):
            raise self._unanswered(str(error), error.reason)
        raise unchanged(error)

    def rested(self) -> None:
        """Look at the clock after a pause, before the next try: the machine may have been suspended meanwhile."""
        if self._perhaps_done and self._clock() - self._begun > self._request.known_seconds:
            raise self._unanswered(f"{self._server} did not answer as long as it knew what was asked", "unreachable")

    def garbled(self, error: Exception) -> StoreError:
        """Say what became of a request that was answered with what cannot be read."""
        why = f"what it answered cannot be read ({type(error).__name__})"
        if self._request.path == WHO:
            return no_server(self._server, why)
        return foreign(self._request, f"{self._server}: {why}")

    def closed(self) -> StrongroomError:
        """Say what became of a request whose connection was closed on this side."""
        if self._request.commit_id is None:
            return Closed("this connection is closed")
        if self._perhaps_done:
            return unknown("this connection was closed before an answer came", self._request.commit_id)
        return Closed(f"this connection is closed; {UNCHANGED}")

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
            return unknown(message, self._request.commit_id)
        suffix = "" if self._request.commit_id is None else f" ({UNCHANGED})"
        return Unavailable(f"{message}{suffix}", reason=reason or "unreachable")


def unknown(message: str, commit_id: str) -> CommitUnknown:
    """Say that nobody can tell what became of a commit, although its last try may have changed nothing."""
    return CommitUnknown(
        f"{message.removesuffix(f'; {UNCHANGED}')}; the commit may or may not have happened, which a repeat with the "
        "same id tells",
        reason="connection",
        commit_id=commit_id,
    )


def foreign(request: Request, message: str) -> StoreError:
    """Say that what answered was not the server, or does not speak as it does. It may still have been asked."""
    if request.commit_id is None:
        return SchemaMismatch(message, reason="http")
    return unknown(message, request.commit_id)


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


def _told(content: bytes) -> dict[str, Any] | None:
    """Return what a server of ours says of an error; None if it is somebody else who speaks."""
    try:
        told: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    ours = isinstance(told, dict) and isinstance(told.get("code"), str) and isinstance(told.get("details", {}), dict)
    return told if ours and "error" in told else None


def _error(status: int, told: dict[str, Any] | None, hint: str) -> StrongroomError:
    if told is None:
        if status >= 500 or status in BUSY:
            return Unavailable(f"something in between answered {status}", reason="unreachable")
        return SchemaMismatch(f"this is not a Strongroom server (it answered {status})", reason="http")
    message, code, details = str(told["error"]), told["code"], told.get("details", {})
    if code == "closed":  # the server is stopping; another may take its place
        return Unavailable(message, reason="unreachable")
    if error := revive(code, message, details):
        return error
    if status == 401:
        return Unavailable(f"{message}{hint}", reason="unauthorised")
    if status == 403:
        return Unavailable(message, reason="permission")
    if status == 413:
        return BudgetExceeded(message, limit=details.get("limit", 0), needed=details.get("needed", 0))
    if status == 429:
        return Unavailable(message, reason="too_many_requests")
    if status >= 500:
        return StoreError(message, reason="server")
    return SchemaMismatch(f"the server does not understand this client: {message}", reason="http")
