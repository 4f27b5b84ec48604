"""One stream for each tab: what changed in a space, whoever changed it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from strongroom.errors import InvalidInput
from strongroom.server.changes import NAMED
from strongroom.server.request import Request
from strongroom.server.router import Endpoints
from strongroom.server.sse import Stream
from strongroom.store import Key

endpoint = Endpoints("changes")


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`watch` names things that are looked at however old they are: `run:r1`, `session:s1`, `thread:t1`."""

    watch: Annotated[tuple[str, ...], Meta(max_length=8)] = ()


@endpoint("GET /changes", "read", "What changes in the space, as it does", media="text/event-stream")
async def changes(request: Request[None, ChangesQuery]) -> Stream:
    """Send an event for everything that changes: which topic, what and when; never its content.

    The first one is `start`; `reset` says that something was missed, so everything has to be looked at again.
    """
    named = [_named(request.caller.space, text) for text in request.query.watch]
    feed = request.app.state.changes.of(request.caller.space)
    await feed.begun.wait()  # so that `start` means: whatever is committed from now on is told
    return Stream(request, feed.follow(request.headers.get("last-event-id"), named))


def _named(space: str, text: str) -> Key:
    kind, _, id = text.partition(":")
    if kind not in NAMED or not id:
        raise InvalidInput(f"watch={text!r:.60} is none of {', '.join(f'{name}:ID' for name in NAMED)}", path="watch")
    return Key(space, NAMED[kind], id)
