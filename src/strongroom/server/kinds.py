"""Which kinds may be read over the port, and by whom: a list of what is allowed, so that what is new is not.

Readers, writers and reviewers read what services show. What only the server needs to decide by (who may go on with a
thread, how much somebody has proposed, what is being brought in) stays with it, as do receipts: they tell what others
did under which id. An admin reads everything in its space.
"""

from __future__ import annotations

from strongroom.server.keys import Role
from strongroom.services.files import paths as files
from strongroom.services.memories import keys as memories
from strongroom.services.memories import vectors as memory_vectors
from strongroom.services.packs import staging
from strongroom.services.runs import artifacts, ledger, usage
from strongroom.services.runs import state as runs
from strongroom.services.sessions import layouts as adapters
from strongroom.services.sessions import state as sessions
from strongroom.services.threads import deliveries, plans, registry
from strongroom.tokens.choosing import HIGHEST_PRIORITY

SHOWN = frozenset(
    {
        runs.KIND,
        runs.EPISODES,
        ledger.KIND,
        usage.KIND,
        artifacts.ARTIFACT,
        artifacts.USE,
        artifacts.BLOB,
        sessions.SESSION,
        sessions.MESSAGE,
        sessions.CUT,
        sessions.KEPT,
        sessions.SUMMARY,
        sessions.COUNT,
        sessions.VECTOR,
        sessions.ID,
        *(sessions.priority_kind(level) for level in range(1, HIGHEST_PRIORITY + 1)),
        memories.MEMORY,
        memories.BATCH,
        memories.REVOCATION,
        memories.LOG,
        memories.LEARNT,
        memories.JUDGED,
        memory_vectors.EMBEDDING,
        memory_vectors.INDEX,
        files.FILE,
        files.HISTORY,
        files.TEXT,
        plans.THREAD,
        plans.INFO,
        plans.SWEEP,
        registry.CHAIN,
        deliveries.MAIL,
        deliveries.DEAD,
        *adapters.OWN,
    }
)
KEPT = frozenset(
    {
        staging.KIND,
        sessions.REST,
        files.TREE,
        memories.STAGED,
        memories.DECIDED,
        plans.COUNT,
        registry.CALL,
        registry.FORGETTING,
        deliveries.DELIVERY,
    }
)
EVERYTHING = None

READABLE: dict[Role, frozenset[str] | None] = {
    "reader": SHOWN,
    "writer": SHOWN,
    "reviewer": SHOWN,
    "admin": EVERYTHING,
}


def may_read(role: Role, kind: str) -> bool:
    """Tell whether a role may read documents and streams of a kind."""
    allowed = READABLE[role]
    return allowed is EVERYTHING or kind in allowed
