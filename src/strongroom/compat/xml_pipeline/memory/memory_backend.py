"""The backend `memory`, in the module that has always held it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import strongroom
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.errors import InvalidInput


class InMemoryBackend(StoreBackend):
    """A backend in this process's memory."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        ctx = strongroom.open("memory://")
        super().__init__(lambda: nullcontext(ctx), config or BackendConfig())

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInput("a memory backend belongs to its process; share a 'manager' or 'redis' one")
