"""Tags as the file's index knows them: as short for a long one as for a short one, and no text to compare. Pure."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

_tags = msgspec.json.Decoder(dict[str, str])


@lru_cache(4096)
def label(space: str, kind: str, name: str, value: str) -> bytes:
    """Return the 16 bytes that stand for a tag of the documents of a kind."""
    return blake2b(f"{space}\0{kind}\0{name}\0{value}".encode(), digest_size=16).digest()


def tags_of(stored: bytes | None) -> dict[str, str]:
    """Return a document's tags from the column of its row."""
    return _tags.decode(stored) if stored else {}
