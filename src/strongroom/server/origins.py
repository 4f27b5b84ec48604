"""Which web pages of other sites may call this server from a browser (CORS). Pure.

Nobody's, unless told. A page that may has to send its key itself, in the Authorization header: cookies and the like are
never asked for, so no browser adds anything of its own to a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from strongroom.errors import InvalidInput

Headers = list[tuple[bytes, bytes]]

ANY = "*"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
SENT = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Request-Id"
SHOWN = "ETag, Retry-After, WWW-Authenticate, X-Request-Id"
PREFLIGHT_SECONDS = 600


def parse_origins(text: str) -> tuple[str, ...]:
    """Return the origins of a setting: exact ones, or `*` alone."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    if given == [ANY]:
        return (ANY,)
    return tuple(dict.fromkeys(_origin(part) for part in given))


def _origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and text == f"{parts.scheme}://{parts.netloc}"
        if good and "@" not in parts.netloc and ANY not in text and (parts.port is None or parts.port > 0):
            return text.lower()
    except ValueError:
        pass
    raise InvalidInput(
        "STRONGROOM_ALLOWED_ORIGINS must be origins such as https://app.example or http://localhost:3000, separated by "
        f"commas and without a path (or * alone), not {text!r:.80}"
    )


class Origins:
    """What to tell browsers."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(allowed)

    def headers(self, asked: Mapping[str, str]) -> Headers:
        """Return what to add to the answer to a request with these headers."""
        if not self._allowed:
            return []
        if ANY in self._allowed:
            return _allowing(ANY)
        origin = asked.get("origin")
        told = _allowing(origin) if origin is not None and origin.lower() in self._allowed else []
        return [*told, (b"vary", b"Origin")]

    def preflight(self, method: str, asked: Mapping[str, str]) -> Headers | None:
        """Return the answer to a browser that asks whether it may ask, or None if this is something else."""
        if method != "OPTIONS" or "access-control-request-method" not in asked or len(self.headers(asked)) < 2:
            return None
        return [
            (b"access-control-allow-methods", METHODS.encode()),
            (b"access-control-allow-headers", SENT.encode()),
            (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        ]


def _allowing(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", SHOWN.encode()),
    ]
