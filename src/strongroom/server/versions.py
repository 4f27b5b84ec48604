"""Which version a caller saw: `ETag` tells it, `If-Match` says it again, as another way to fill in what a body expects.

A condition that is not looked at is an update that gets lost, so a write that knows no version takes none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from starlette.datastructures import Headers

from strongroom.errors import InvalidInput
from strongroom.server.request import natural

# What a body calls the version that is expected, and how a header says one.
EXPECTED: dict[str, Callable[[str], int | str | None]] = {
    "expected_seq": natural,
    "expected_version": natural,
    "expected_revision": lambda text: (
        None if text in ("", "*") else text
    ),  # `*` is any version, and so none that was seen
}
ETAG = re.compile(r'(?:W/)?(?:"(?P<quoted>[^"]+)"|(?P<plain>[^"\s]+))')  # as it was told, or without its quotes


def tag(version: int | str) -> dict[str, str]:
    """Return the header that tells which version an answer is."""
    return {"ETag": f'"{version}"'}


def expected_by(body: Any) -> str | None:
    """Return the field in which the body of a write says which version is expected, if it has one."""
    return next((name for name in getattr(body, "__struct_fields__", ()) if name in EXPECTED), None)


def matched(headers: Headers, content: Any) -> Any:
    """Return the body of a write with what its `If-Match` expects."""
    if "if-none-match" in headers:
        raise InvalidInput("a write takes no If-None-Match; nothing changed")
    header = headers.get("if-match")
    if header is None:
        return content
    name = expected_by(type(content))
    if name is None:
        raise InvalidInput("this call knows no version, so it takes no If-Match; nothing changed")
    told = ETAG.fullmatch(header.strip())
    seen = EXPECTED[name](told["quoted"] or told["plain"] or "") if told is not None else None
    if seen is None or getattr(content, name) not in (None, seen):
        raise InvalidInput(f"If-Match must be an ETag that was told, and agree with {name}; nothing changed")
    return replace(content, **{name: seen})
