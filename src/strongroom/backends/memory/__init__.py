"""The reference store, in this process's memory."""

from strongroom.backends.memory.store import MemoryStore
from strongroom.backends.memory.things import Doc, Stream, link

__all__ = ["Doc", "MemoryStore", "Stream", "link"]
