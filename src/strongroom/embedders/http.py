"""An embedder behind an OpenAI-compatible HTTP API, with nothing but the standard library.

Refusals that may pass (busy, overloaded, no connection, a time-out) are tried again with growing pauses; all others
are reported at once. What comes back is bounded in bytes and in time, its headers too; an answer that drips is given
up. Redirects are not followed: they would carry the key to another host.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast

from strongroom.alarms import Alarm
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, Unavailable

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE_SECONDS = 30.0
MAX_ANSWER_BYTES = 256 * 1024 * 1024
CHUNK = 65_536


def http(
    model: str,
    *,
    url: str = "https://api.openai.com/v1",
    api_key: str | None = None,
    revision: str = "",
    dimension: int | None = None,
    batch_size: int = 64,
    timeout_seconds: float = 30.0,
    attempts: int = 5,
    pause: Callable[[float], object] = time.sleep,
) -> Embedder:
    """Return an embedder that asks `url`/embeddings for the vectors of `model`."""
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"an embedding service has an http:// or https:// address, not {url!r:.80}")
    address = url.rstrip("/") + "/embeddings"
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"

    opener = urllib.request.build_opener(_NoRedirects(), _Http(), _Https())

    def embed(texts: list[str]) -> list[Any]:
        body = json.dumps({"model": model, "input": texts, "encoding_format": "float"}).encode()
        for attempt in range(1, attempts + 1):
            with Alarm(timeout_seconds) as alarm:
                request = _Request(address, data=body, headers=headers, method="POST")
                request.alarm = alarm
                try:
                    with opener.open(request, timeout=timeout_seconds) as answer:
                        return _vectors(_bounded(answer, MAX_ANSWER_BYTES, alarm), len(texts))
                except urllib.error.HTTPError as refusal:
                    with refusal:
                        problem = f"HTTP {refusal.code}: {_bounded(refusal, 500, alarm).decode(errors='replace')}"
                        wait = _retry_after(refusal.headers.get("Retry-After"))
                    if refusal.code not in PASSING:
                        raise Unavailable(f"{address} refused: {problem}", reason="embedder") from None
                except (OSError, HTTPException) as failure:
                    problem, wait = "timed out" if alarm.rang else str(failure) or type(failure).__name__, None
            if attempt < attempts:
                pause(min(LONGEST_PAUSE_SECONDS, wait if wait is not None else 0.5 * 2 ** (attempt - 1)))
        raise Unavailable(f"{address} did not answer in {attempts} attempts: {problem}", reason="embedder")

    return Embedder(embed, name=f"http:{model}", revision=revision, dimension=dimension, batch_size=batch_size)


def _bounded(answer: Any, most: int, alarm: Alarm) -> bytes:
    """Read the first bytes of an answer while there is time."""
    raw = bytearray()
    try:
        while len(raw) < most and (chunk := answer.read1(min(most - len(raw), CHUNK))):
            raw += chunk
    finally:
        if alarm.rang:  # what was cut off may look like an end
            raise Unavailable("the embedding service did not finish its answer in time", reason="embedder")
    return bytes(raw)


def _vectors(raw: bytes, count: int) -> list[Any]:
    try:
        rows = json.loads(raw)["data"]
        found = {row["index"]: row["embedding"] for row in rows}
        return [found[place] for place in range(count)]
    except (ValueError, KeyError, TypeError) as problem:
        raise Unavailable(f"the embedding service sent no embeddings: {problem!r}", reason="embedder") from None


def _retry_after(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() else None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Request(urllib.request.Request):
    alarm: Alarm


class _Connection(HTTPConnection):
    """A connection that an alarm watches."""

    alarm: Alarm

    def connect(self) -> None:
        super().connect()
        self.alarm.watch(self.sock)


class _TlsConnection(HTTPSConnection, _Connection):
    """Likewise, from before it speaks TLS."""


def _watched(kind: type[_Connection], request: urllib.request.Request) -> Any:
    """Return what makes the connection for a request."""

    def made(host: str, **options: Any) -> _Connection:
        connection = kind(host, **options)
        connection.alarm = cast("_Request", request).alarm
        return connection

    return made


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_watched(_Connection, request), request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_watched(_TlsConnection, request), request)
