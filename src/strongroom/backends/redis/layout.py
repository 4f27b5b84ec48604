"""Where things are on the server, and the address that says so.

Every key of a space begins with the hash tag `{prefix:space}`, so a cluster keeps a space in one slot and a commit in
one script. Parts are joined by the control character 31, which no name can hold, so no two names can meet.

| key | type | what |
|---|---|---|
| `{prefix:space}␟heads` | hash | everything that makes a commit visible, see below |
| `{prefix:space}␟index` | sorted set, scores 0 | lists, see below |
| `{prefix:space}␟records␟kind␟id` | hash | a stream's records by index |

| field of heads | what |
|---|---|
| `kind␟id` | the head of a document or stream (common.lua) |
| `kind␟id␟` | the document's value and text |
| `␟order` | how many documents and streams were ever created here, how many receipts, how many groups were forgotten |
| `␟receipt␟commit id` | 8 hex digits of SHA-1 over field and rest, then number, end, versions, digest and answer |
| `␟due␟number` | the commit id of that receipt; the last of each 16 has the time in front |

A receipt under an id that we chose has a number and no end: the numbers are a queue, swept after 25 hours, because
`Core` counts on the last receipt of a space for 24. One under an id that a caller chose has the number 0 and an end,
in seconds since 1970, or `inf`.

| member of index | what |
|---|---|
| `kind␟tag␟order␟id` | living documents by tag; by an empty one, all of them |
| `␟order␟kind␟id` | everything, in order of creation |
| `␟␟end␟commit id` | receipts, by when they end |

A hash of records and not a list: the place of an index is found at once wherever it is, and a record that no head
counts is invisible. A list is some 10 % smaller and must be walked.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit
from zlib import crc32

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.store import Key

SEP = b"\x1f"
DEFAULT_PREFIX = "strongroom"

_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Layout(Struct, frozen=True):
    """The names of one store's keys."""

    prefix: str

    def space(self, space: str) -> bytes:
        return _tag(self.prefix, space)

    def heads(self, space: str) -> bytes:
        return self.space(space) + b"heads"

    def index(self, space: str) -> bytes:
        return self.space(space) + b"index"

    def records(self, key: Key) -> bytes:
        return b"%brecords\x1f%b" % (_tag(self.prefix, key.space), field(key))


@lru_cache(1024)
def _tag(prefix: str, space: str) -> bytes:
    return b"{%b:%b}\x1f" % (prefix.encode(), space.encode())


@lru_cache(4096)
def field(key: Key) -> bytes:
    """Return the name of a thing inside its space."""
    return f"{key.kind}\x1f{key.id}".encode()


@lru_cache(4096)
def checksum_seed(key: Key) -> int:
    """Return what the checksums of a thing start from, so that nothing passes for a part of another thing."""
    return crc32(field(key))


def receipt_field(id: str) -> bytes:
    """Return the name of a commit's receipt."""
    return b"\x1freceipt\x1f" + id.encode()


def tag_pair(name: str, value: str) -> bytes:
    """Return one tag as it is stored and indexed. Sizes in front: a tag may hold any character."""
    return b"".join(b"%d:%b" % (len(raw), raw) for raw in (name.encode(), value.encode()))


class Address(Struct, frozen=True):
    """A store's address, taken apart. `url` goes to the driver; `shown` has no secret in it."""

    url: str
    shown: str
    prefix: str


def parse_address(url: str, prefix: str | None) -> Address:
    """Take `prefix` out of `redis://[user:password@]host[:port][/db][?prefix=name]`; the rest is the driver's."""
    parts = _split(url)
    if parts is None:
        # Nothing of the address is repeated here: a misplaced character may have moved the password anywhere.
        raise InvalidInput("the redis address has no valid host and port; nothing was opened")
    host, port = parts.hostname or "localhost", parts.port or 6379
    if parts.scheme not in ("redis", "rediss"):
        raise InvalidInput(f"a redis address begins with redis:// or rediss://, not {parts.scheme!r:.20}")
    options = dict(parse_qsl(parts.query))
    named = options.pop("prefix", None)
    for fixed in ("protocol", "decode_responses"):
        options.pop(fixed, None)
    chosen = prefix or named or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(chosen):
        raise InvalidInput("a prefix must be 1 to 64 letters, digits, '_', '.' or '-'")
    shown = f"{parts.scheme}://{host}:{port}{parts.path}"
    bare = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(options), ""))
    return Address(bare, shown, chosen)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None  # and the error, which quotes the address, goes no further
    return parts
