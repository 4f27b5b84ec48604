"""What an adapter says without its framework. Each framework is an extra: nobody has to have all of them."""

from __future__ import annotations


def without(missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the error of an import that says what to install."""
    return ModuleNotFoundError(
        f"{missing.msg}; this adapter needs the extra {extra!r}: pip install 'strongroom[{extra}]'", name=missing.name
    )
