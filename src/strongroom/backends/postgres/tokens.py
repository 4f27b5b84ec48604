"""Words as numbers: what the full-text index holds instead of words.

A number depends on the space and the kind as well as on the word, so numbers of two spaces never meet, and the index
tells nothing to who reads it alone. Two words sharing a number would be found for each other: one chance in 2**64.
Texts are cut into words by `strongroom.stemming`, so every store finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from strongroom.stemming import words
from strongroom.store import Key

_WORD, _ID, _TAG = b"w", b"i", b"t"


@lru_cache(maxsize=1024)
def _seed(space: str, kind: str) -> Any:
    return blake2b(f"{space}\n{kind}\n".encode(), digest_size=8)


def _number(space: str, kind: str, sort: bytes, *parts: str) -> int:
    digest = _seed(space, kind).copy()
    digest.update(sort + "\0".join(parts).encode())
    return int.from_bytes(digest.digest(), "big", signed=True)


def word_tokens(space: str, kind: str, found: Iterable[str]) -> list[int]:
    """Return the number of each word."""
    return [_number(space, kind, _WORD, word) for word in found]


def scope_tokens(space: str, kind: str, id: str | None, tags: dict[str, str]) -> list[int]:
    """Return the numbers that narrow a search to one key, or to what carries all the tags."""
    narrowing = [] if id is None else [_number(space, kind, _ID, id)]
    return narrowing + [_number(space, kind, _TAG, name, value) for name, value in tags.items()]


def tokens_of(key: Key, text: str | None, tags: dict[str, str] | None = None) -> str | None:
    """Return everything by which a text can be found, as an array literal."""
    if text is None:
        return None
    found = {*word_tokens(key.space, key.kind, words(text)), *scope_tokens(key.space, key.kind, key.id, tags or {})}
    return "{" + ",".join(map(str, found)) + "}"
