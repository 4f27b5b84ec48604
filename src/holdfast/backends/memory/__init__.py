"""The reference store, in this process's memory."""

from holdfast.backends.memory.store import MemoryStore
from holdfast.backends.memory.things import Doc, Stream, link

__all__ = ["Doc", "MemoryStore", "Stream", "link"]
