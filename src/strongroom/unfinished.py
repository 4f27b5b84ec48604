"""A store into which everything of another is being copied: marked, so that nobody works in half of it.

The mark is a document in a space of its own, whose content is never copied and never counted. It says of what it is the
copy, and how far that is; `copying` writes it and takes it away. Whoever opens a store to work in it looks for it.
"""

from __future__ import annotations

from strongroom.errors import Unavailable
from strongroom.store import AsyncStore, Get, Key, Store, ask

SPACE = "strongroom:copy"
MARK = Key(SPACE, "copy", "under way")


def is_unfinished(store: Store) -> bool:
    """Tell whether a store is the target of a copy that has not come to its end."""
    return ask(store, Get(MARK)) is not None


def refuse_unfinished(store: Store) -> None:
    """Raise `Unavailable`, and close the store, if it is only the beginning of a copy."""
    try:
        if is_unfinished(store):
            raise _refusal()
    except BaseException:
        store.close()
        raise


async def refuse_unfinished_async(store: AsyncStore) -> None:
    """The same for an event loop."""
    try:
        if (await store.read([Get(MARK)]))[0] is not None:
            raise _refusal()
    except BaseException:
        await store.close()
        raise


def _refusal() -> Unavailable:
    return Unavailable(
        "this store is a copy that has not come to its end, so parts of it are missing; run `strongroom copy` from the "
        "same source again, which goes on where it was (nothing was opened)",
        reason="unfinished",
    )
