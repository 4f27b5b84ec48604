"""`with` and `async with`: what is entered the wrong way says which is the right one.

Python alone says that a protocol is missing. Type checkers do not see the methods here, so they refuse the same
mistake as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn


class EnteredAsync:
    """What only `async with` enters. `_ENTER` is the line that a program writes."""

    _ENTER: ClassVar[str]

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"write `{self._ENTER}`: this is async, and `with` awaits nothing; nothing was written")

        def __exit__(self, *_: Any) -> None:
            """Python looks for it before it enters."""


class EnteredBlocking:
    """What only `with` enters. `_ENTER` is the line that a program writes."""

    _ENTER: ClassVar[str]

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            raise TypeError(f"write `{self._ENTER}`: this is blocking, nothing of it is awaited; nothing was written")

        async def __aexit__(self, *_: Any) -> None:
            """Python looks for it before it enters."""
