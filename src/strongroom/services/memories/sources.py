"""How a memory cites a session or a message of one, and which session a source means. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

SESSION = "session:"
MESSAGE = "message:"

_ESCAPED = re.compile("(?:[^%#]|%25|%23)*")


def session_source(session_id: str) -> str:
    """Return what every memory cites that was learnt from a session."""
    return f"{SESSION}{session_id}"


def message_source(session_id: str, message_id: str) -> str:
    """Return what a memory cites that was learnt from a message."""
    return f"{MESSAGE}{session_id.replace('%', '%25').replace('#', '%23')}#{message_id}"


def session_of(source_ref: str, beside: Sequence[str]) -> str | None:
    """Return the session whose message a source is, None if it is no message's. `beside` are all sources of a memory.

    Ids may hold a `#`, and who cites by hand does not write it as we do. A session that is cited beside its message
    settles it; else the last `#` ends the session's id. So a source means one session and never two people's.
    """
    if not source_ref.startswith(MESSAGE) or "#" not in source_ref:
        return None
    said = source_ref.removeprefix(MESSAGE)
    named = [one.removeprefix(SESSION) for one in beside if one.startswith(SESSION)]
    fitting = [id for id in named if said.startswith((f"{id}#", message_source(id, "").removeprefix(MESSAGE)))]
    if fitting:
        return max(fitting, key=len)
    id = said.rpartition("#")[0]
    return id.replace("%23", "#").replace("%25", "%") if _ESCAPED.fullmatch(id) else id
