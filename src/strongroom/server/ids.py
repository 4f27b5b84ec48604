"""Whose a commit id is. An id that a caller brings is made the caller's own: it never meets another caller's.

What an id stands for (one operation, its target, its content) is bound to it by `strongroom.operations`. Here it is
bound to who brings it: an `Idempotency-Key` and a client's commit id are mixed with the caller's name. Ids that a
server makes up for requests without one carry a mark of the caller, so that the id that an unknown outcome named is
taken as it is from the caller it was named to, and from nobody else.

What an id of our shape becomes depends on its age. Clients of ours make theirs by our time (`client.times`), so that
all tries of a request see the same age but for how long they are apart, and stop long before it is an hour.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from hashlib import blake2b

from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.operations import OURS, TIME, MakingIds, is_ours, made_ns
from strongroom.server.keys import Caller
from strongroom.store import new_id
from strongroom.store.retention import OUR_SECONDS

LONGEST_KEY = 128
SKEW_SECONDS = 60.0  # by which the clock of another worker, which told a client the time, may be ahead
MARK = 8  # digits at the end of an id of ours that are its caller's


def caller_id(caller: Caller, given: str | None) -> str | None:
    """Return the commit id that an Idempotency-Key stands for, None without one."""
    if given is None or _is_marked(caller, given):
        return given
    if not 0 < len(given) <= LONGEST_KEY or not given.isprintable():
        raise InvalidInput("an Idempotency-Key must be 1 to 128 printable characters; nothing changed")
    return own_id(caller, given)


def own_id(caller: Caller, given: str) -> str:
    """Make an id that a caller chose the caller's own: whatever another one chooses, it is another id.

    What a client's own code made up keeps its time, which stores order them by, and is remembered as shortly as ours.
    """
    if is_recent(given):
        return given[: len(OURS) + TIME] + _digest(caller, given, 8)
    if len(given) > LONGEST_KEY:  # a client's commit id may be as long as a name
        return f"http#{_digest(caller, given, 32)}"
    return f"http:{len(caller.name)}:{caller.name}:{given}"


def marked_ids(caller: Caller) -> AbstractContextManager[None]:
    """Mark the ids that are made up within a block as this caller's."""
    return MakingIds(lambda: _marked(caller, new_id()))


def now_ns() -> int:
    """Return what the clock shows that ids are held against."""
    return time.time_ns()


def is_recent(id: str) -> bool:
    """Tell whether an id is one of those that are made up for calls without one, and made not long ago.

    Ids of ours are told from older ones by their time, so nobody may bring one that is older or younger than it is.
    """
    if not is_ours(id):
        return False
    return -SKEW_SECONDS < (now_ns() - made_ns(id)) / 1e9 < OUR_SECONDS


def named(problem: Exception, key: str | None) -> Exception:
    """Say the Idempotency-Key that a caller knows, where an operation named the id that was made of it."""
    if key is not None and isinstance(problem, CommitUnknown):
        problem.commit_id = key
    if key is not None and isinstance(problem, InvalidInput) and problem.path == "commit_id":
        return InvalidInput(
            f"the Idempotency-Key {key!r} was used before with other content; nothing changed (a key stands for one "
            "request: repeat the first with what it said, give something else another key)",
            path="Idempotency-Key",
        )
    return problem


def _is_marked(caller: Caller, given: str) -> bool:
    return is_recent(given) and _marked(caller, made := given.removeprefix(OURS)) == made


def _marked(caller: Caller, made: str) -> str:
    return made[:-MARK] + _digest(caller, made[:-MARK], MARK // 2)


def _digest(caller: Caller, text: str, size: int) -> str:
    return blake2b(f"{len(caller.name)}:{caller.name}:{text}".encode(), digest_size=size).hexdigest()
