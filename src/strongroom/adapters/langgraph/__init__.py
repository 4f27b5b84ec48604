"""LangGraph on Strongroom: `StrongroomSaver` keeps checkpoints, `StrongroomStore` long-term items.

Both are used from blocking and async code, from any thread and any event loop.
"""

from strongroom.adapters.langgraph.saver import StrongroomSaver

__all__ = ["StrongroomSaver"]
