"""The HTTP server. `uvicorn strongroom.server:app`, or `strongroom serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

    app: Starlette


def __getattr__(name: str) -> Any:
    """Make `app` when somebody asks for it, so that importing this opens nothing and creates nothing."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from strongroom.server.app import create_app

    globals()["app"] = made = create_app()
    return made
