"""LlamaIndex on Strongroom: `StrongroomChatStore` for the messages of a `Memory`, and `StrongroomMemoryBlock`."""

from __future__ import annotations

from strongroom.adapters.extras import without

try:
    import llama_index.core.memory  # noqa: F401 - whether it is there
except ModuleNotFoundError as missing:
    raise without(missing, "llama-index") from None

from strongroom.adapters.llama_index.block import StrongroomMemoryBlock
from strongroom.adapters.llama_index.chats import StrongroomChatStore

__all__ = ["StrongroomChatStore", "StrongroomMemoryBlock"]
