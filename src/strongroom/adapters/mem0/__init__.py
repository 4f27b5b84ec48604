"""mem0's `Memory` and `AsyncMemory` on Strongroom."""

from strongroom.adapters.mem0.calls import AsyncMemory, Memory

__all__ = ["AsyncMemory", "Memory"]
