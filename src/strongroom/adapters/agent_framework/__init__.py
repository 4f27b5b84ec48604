"""Microsoft Agent Framework on Strongroom: history, what is known for good, and the checkpoints of workflows."""

from __future__ import annotations

from strongroom.adapters.extras import without

try:
    import agent_framework  # noqa: F401 - whether it is there
except ModuleNotFoundError as missing:
    raise without(missing, "agent-framework") from None

from strongroom.adapters.agent_framework.checkpoints import StrongroomCheckpointStorage
from strongroom.adapters.agent_framework.history import StrongroomHistoryProvider
from strongroom.adapters.agent_framework.knowledge import StrongroomContextProvider

__all__ = ["StrongroomCheckpointStorage", "StrongroomContextProvider", "StrongroomHistoryProvider"]
