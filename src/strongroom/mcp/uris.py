"""What things are called from outside: `strongroom://` addresses, written and read. Pure.

Ids may hold anything printable, so each is percent-encoded as one segment.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote

from msgspec import Struct

from strongroom.errors import InvalidInput

SCHEME = "strongroom://"
LONGEST_URI = 4_000


class Address(Struct, frozen=True):
    """An address, taken apart: the kind of thing, the ids that follow, and what is asked besides."""

    kind: str
    parts: tuple[str, ...] = ()
    query: dict[str, str] = {}


def run_uri(run_id: str) -> str:
    return f"{SCHEME}runs/{_segment(run_id)}"


def ledger_uri(run_id: str) -> str:
    return f"{run_uri(run_id)}/ledger"


def session_uri(session_id: str) -> str:
    return f"{SCHEME}sessions/{_segment(session_id)}"


def message_uri(session_id: str, message_id: str) -> str:
    return f"{session_uri(session_id)}/messages/{_segment(message_id)}"


def memory_uri(memory_id: str) -> str:
    return f"{SCHEME}memories/{_segment(memory_id)}"


def batch_uri(batch_id: str) -> str:
    return f"{SCHEME}batches/{_segment(batch_id)}"


def file_uri(path: str) -> str:
    return f"{SCHEME}files/" + quote(path.removeprefix("/"), safe="/")


def path_of(address: Address) -> str:
    """Return the path of a file's address."""
    return "/" + "/".join(address.parts)


def parsed(uri: str) -> Address:
    """Take an address apart, or raise `InvalidInput`."""
    if not uri.startswith(SCHEME) or len(uri) > LONGEST_URI:
        raise InvalidInput(f"an address begins with {SCHEME} and is no longer than {LONGEST_URI}, unlike {uri!r:.80}")
    path, _, query = uri.removeprefix(SCHEME).partition("?")
    kind, *segments = path.split("/")
    try:
        parts = tuple(unquote(segment, errors="strict") for segment in segments)
        asked = dict(parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=8))
    except ValueError:
        raise InvalidInput(f"{uri!r:.80} is no address: what is escaped in it is not text") from None
    return Address(kind, parts, asked)


def _segment(id: str) -> str:
    return quote(id, safe="")
