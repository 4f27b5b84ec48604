"""What every service is given: a store, the space it may see, a clock and a tokenizer."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from strongroom.store import AsyncStore, Key, require_name
from strongroom.tokens import Tokenizer, tokenizer


def now() -> int:
    """Return microseconds since 1970. Recorded for people; nothing is ever ordered by it."""
    return time.time_ns() // 1000


class Scope(Struct, frozen=True):
    """The tenant's view of a store. A service can not make a key outside of it."""

    store: AsyncStore
    space: str = "default"
    clock: Callable[[], int] = now
    tokenizer: Tokenizer = tokenizer("default")

    def __post_init__(self) -> None:
        require_name(self.space, "a space")

    def key(self, kind: str, id: str) -> Key:
        return Key(self.space, kind, id)
