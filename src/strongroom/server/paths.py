"""Which endpoint a path means. It is split where the request has its slashes, and each part is decoded after that.

So an id may hold anything: `langgraph%2Ft1` is one part, the id `langgraph/t1`, and no `%2F` makes one id look like
another, or like the end of a path. What a server hands on as `path` is decoded already; `raw_path` is what was sent.
Where a server tells none, or a middleware has changed the path alone, an encoded slash is as good as a plain one.

No request is redirected: `/sessions/x/` is not `/sessions/x`. A slash too many is forgiven where a path names no id.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from starlette.routing import Match, Route
from starlette.types import Scope

from strongroom.errors import InvalidInput

ASKED = "strongroom.path"


class PathRoute(Route):
    """A route that looks at a path as it was sent."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if not self.param_convertors:
            self.path_regex = re.compile(f"^{re.escape(path)}/?$")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self.path_regex.match(_asked(scope)) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        ids = {name: unquote(part) for name, part in found.groupdict().items()}
        match = Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL
        return match, {"endpoint": self.endpoint, "path_params": ids}


def require_free(id: str | None, taken: frozenset[str], what: str) -> None:
    """Refuse an id that is a word of our own paths: nobody could ask for what is called so by its path."""
    if id in taken:
        words = ", ".join(sorted(taken))
        raise InvalidInput(f"{id!r} cannot be {what} over HTTP: {words} are part of its paths; nothing changed")


def _asked(scope: Scope) -> str:
    """Return the path with each of its parts encoded in the one way that we do it, worked out once for a request."""
    found: str | None = scope.get(ASKED)
    if found is None:
        found = scope[ASKED] = _encoded(scope)
    return found


def _encoded(scope: Scope) -> str:
    path, raw = scope["path"], (scope.get("raw_path") or b"").decode(errors="replace")
    parts = map(unquote, raw.split("/")) if raw and unquote(raw) == path else path.split("/")
    encoded = "/".join(quote(part, safe="") for part in parts)
    root = quote(scope.get("root_path", ""))
    return encoded.removeprefix(root) if encoded == root or encoded.startswith(f"{root}/") else encoded
