"""Plain values in the form that Postgres takes them in.

Postgres text cannot hold NUL, and a message may. One noncharacter, which no program should use in text it exchanges,
stands for it, and is itself escaped, so whatever goes in comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from strongroom.backends.postgres.arrays import Bigints, Blobs, Texts
from strongroom.codec import encode
from strongroom.errors import InvalidInput

MAX = 2**63 - 1
LABEL_BYTES = 16
_ESCAPE = "\ufdd0"


def bigints(numbers: Sequence[int]) -> Bigints:
    """Return an array of bigint."""
    if numbers and not (min(numbers) >= -MAX - 1 and max(numbers) <= MAX):
        raise InvalidInput("a whole number does not fit in 64 bits; nothing changed")
    return Bigints(numbers)


def texts(items: Iterable[str | None]) -> Texts:
    """Return an array of text that Postgres can hold."""
    try:
        whole = Texts([None if item is None else escaped(item) for item in items])
        "".join(item for item in whole if item).encode()
        return whole
    except UnicodeEncodeError:
        raise InvalidInput("text holds a lone surrogate; nothing changed") from None


def blobs(items: Iterable[bytes | None]) -> Blobs:
    """Return an array of bytea."""
    return Blobs(items)


def escaped(text: str) -> str:
    """Return text that Postgres can hold."""
    if "\0" in text or _ESCAPE in text:
        return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")
    return text


def unescaped(text: str | None) -> str | None:
    """Undo `escaped`."""
    if text is None or _ESCAPE not in text:
        return text
    return re.sub(_ESCAPE + "([01])", lambda found: "\0" if found[1] == "0" else _ESCAPE, text)


def labels(tags: dict[str, str]) -> bytes | None:
    """Return the digests of tags, by which documents are found: as short for a long tag as for a short one."""
    if not tags:
        return None
    return b"".join([sha256(encode([name, value])).digest()[:LABEL_BYTES] for name, value in sorted(tags.items())])
