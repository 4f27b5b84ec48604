"""Which frameworks are installed here."""

from __future__ import annotations

from importlib.util import find_spec


def has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
