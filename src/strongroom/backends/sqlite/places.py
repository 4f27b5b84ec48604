"""What the writer remembers of a key. No I/O here."""

from __future__ import annotations

from typing import Any

from strongroom.backends.sqlite.rows import MASK

_NOWHERE: tuple[Any, ...] = (0, 0, 0, 0, None, None, None, None, 0)


class Place:
    """What a key holds now, as far as writing needs to know."""

    __slots__ = (
        "alive",
        "base_chain",
        "carrying",
        "chain",
        "first",
        "length",
        "ref",
        "stream",
        "tags",
        "text",
        "unindexed",
        "version",
    )

    def __init__(self, head: tuple[Any, ...] | None, last: tuple[Any, ...] | None) -> None:
        """Make one of a row of `head`, and of the stream's last row of `record`."""
        self.ref, self.stream, self.alive, version, _, self.tags, self.text, self.base_chain, _ = head or _NOWHERE
        self.unindexed = False  # whether we know that the index has been told to catch up
        self.carrying = -1  # the filing of receipts before which `carrier` was told of it
        self.version: int = 0 if self.stream else version
        self.first: int = version if self.stream else 0
        self.length: int = self.first if last is None else (last[0] & MASK) + 1
        self.chain: bytes | None = self.base_chain if last is None else last[9]

    @property
    def seen(self) -> int:
        """The version an expectation is compared with: 0 while it does not exist."""
        if not self.alive:
            return 0
        return self.length if self.stream else self.version
