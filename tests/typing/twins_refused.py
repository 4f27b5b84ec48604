"""What a type checker must refuse of the blocking twins. Each wrong line says which error it must be.

Under `--strict` an ignored error that does not occur is an error itself, so this file checks itself; the test also
strips the comments and wants to see every one of the errors.
"""

from __future__ import annotations

from strongroom.bridge import blocking
from tests.typing.twins import Handle, Things

things = Things()
things.count()  # type: ignore[call-arg]
things.count(1)  # type: ignore[arg-type]
things.count("a", 3)  # type: ignore[call-arg]
things.count("a", limit="b")  # type: ignore[arg-type]
things.count("a", depth=1)  # type: ignore[call-arg]
things.told("name", 3)  # type: ignore[call-overload]
things.told("colour", "red")  # type: ignore[call-overload]
text: str = things.count("a")  # type: ignore[assignment]
handle: int = things.open("a")  # type: ignore[assignment]
things.open("a").length()  # type: ignore[attr-defined]
size: str = Handle.size  # type: ignore[assignment]


def plain(self: object) -> int:
    """Not an async function: there is nothing to make blocking."""
    return 1


blocking(plain)  # type: ignore[arg-type]


async def use() -> None:
    await things.count("a")  # type: ignore[misc]
