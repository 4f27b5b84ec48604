"""The server's own language, version 2: commands out, replies in. Pure: bytes on one side, values on the other.

The driver's packing and reading took half of a commit's time in this process, and its C parser is not always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strongroom.backends.redis.failures import Garbled, Refused

Command = Sequence[Any]

MORE: Final = object()

_TEXT, _ERROR, _NUMBER, _BYTES, _LIST = b"+-:$*"


def pack(commands: Sequence[Command]) -> bytes:
    """Write commands as the server reads them. A word that is not bytes is written as its text."""
    parts: list[bytes] = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        words = [word if type(word) is bytes else str(word).encode() for word in command]
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class Replies:
    """What has come in on one connection. Each byte is looked at once, in however many pieces a reply arrives."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held = 0  # bytes in all pieces
        self._needed = 0  # there is no use in looking before so many are there
        self._open: list[tuple[list[Any], int]] = []  # lists not yet complete, and how long each will be

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self._held += len(data)

    def take(self) -> Any:
        """Return the next reply (a `Refused` where the server answered so), or MORE if it is not complete."""
        if self._held < self._needed or not self._pieces:
            return MORE
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        at = 0
        while True:
            value, after = _parse(data, at)
            if value is MORE:
                break
            at = after
            if type(value) is _Items:
                self._open.append(([], value.size))
                continue
            while self._open:
                items, size = self._open[-1]
                items.append(value)
                if len(items) < size:
                    break
                self._open.pop()
                value = items
            else:
                self._keep(data[at:], 0)
                return value
        self._keep(data[at:], after - at)
        return MORE

    def _keep(self, rest: bytes, needed: int) -> None:
        self._pieces = [rest] if rest else []
        self._held, self._needed = len(rest), needed


class _Items:
    """The beginning of a list that is not empty."""

    def __init__(self, size: int) -> None:
        self.size = size


def _parse(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins at a place and where the next one begins; or MORE and where this one will end."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return MORE, len(data) + 1
    kind, word = data[at], data[at + 1 : end]
    end += 2
    if kind == _BYTES:
        size = _int(word)
        if size < 0:
            return None, end
        after = end + size + 2
        return (data[end : after - 2], after) if after <= len(data) else (MORE, after)
    if kind == _LIST:
        size = _int(word)
        return (_Items(size) if size > 0 else None if size < 0 else []), end
    if kind == _NUMBER:
        return _int(word), end
    if kind == _TEXT:
        return word, end
    if kind == _ERROR:
        text = word.decode(errors="replace")
        return Refused(text.partition(" ")[0], text), end
    raise Garbled


def _int(word: bytes) -> int:
    try:
        return int(word)
    except ValueError:
        raise Garbled from None
