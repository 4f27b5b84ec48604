"""The HTTP server. `uvicorn strongroom.server:app`, or `strongroom serve`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

    app: Starlette


def __getattr__(name: str) -> Any:
    """Make `app` when somebody asks for it, so that importing this opens nothing and creates nothing."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = made = import_module("strongroom.server.app").create_app()
    return made
