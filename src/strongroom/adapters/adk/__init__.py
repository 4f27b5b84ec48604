"""Google's Agent Development Kit on Strongroom: services for sessions, memory and artifacts.

`register()` makes them known to `adk run` and `adk web` by addresses such as `strongroom://agent.db`.
"""

from __future__ import annotations

from typing import Any

from strongroom.adapters.extras import without

try:
    from google.adk.cli.service_registry import get_service_registry
except ModuleNotFoundError as missing:
    raise without(missing, "adk") from None

from strongroom.adapters.adk.artifacts import StrongroomArtifactService
from strongroom.adapters.adk.memory import StrongroomMemoryService
from strongroom.adapters.adk.sessions import StrongroomSessionService
from strongroom.errors import InvalidInput

__all__ = ["StrongroomArtifactService", "StrongroomMemoryService", "StrongroomSessionService", "register"]

SCHEME = "strongroom"


def register(scheme: str = SCHEME) -> None:
    """Let ADK open these services by `<scheme>://<address>`: a path, or the address of another store after it."""

    def address(uri: str) -> str:
        place = uri.partition("://")[2]
        if not place:
            raise InvalidInput(f"{uri!r:.80} names no store; try {scheme}://agent.db or {scheme}://postgresql://...")
        return place

    def made(service: Any) -> Any:
        return lambda uri, **_: service(address(uri))

    registry = get_service_registry()
    registry.register_session_service(scheme, made(StrongroomSessionService))
    registry.register_memory_service(scheme, made(StrongroomMemoryService))
    registry.register_artifact_service(scheme, made(StrongroomArtifactService))
