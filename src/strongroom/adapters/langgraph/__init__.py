"""LangGraph on Strongroom: `StrongroomSaver` keeps checkpoints, `StrongroomStore` long-term items.

Both are used from blocking and async code, from any thread and any event loop.
"""

from strongroom.adapters.extras import without

try:
    import langgraph.checkpoint.base as _framework  # noqa: F401
except ModuleNotFoundError as missing:
    raise without(missing, "langgraph") from None

from strongroom.adapters.langgraph.saver import StrongroomSaver
from strongroom.adapters.langgraph.store import StrongroomStore

__all__ = ["StrongroomSaver", "StrongroomStore"]
