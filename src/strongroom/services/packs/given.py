"""A pack that somebody wants restored: opened, and what encrypts it taken off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from strongroom.encryption import Secret
from strongroom.files import opened
from strongroom.operations import refusing
from strongroom.sealing import unsealed


@contextmanager
def given(path: str | os.PathLike[str], key: Secret | None) -> Iterator[BinaryIO]:
    """Offer the content of a pack. What keeps it from being read is told as of a write; what the block raises, not."""
    with ExitStack() as held:
        with refusing:
            file = held.enter_context(unsealed(held.enter_context(opened(path)), key))
        yield file
