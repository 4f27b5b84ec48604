"""What adapters keep past the services, for whoever must know it without their frameworks: the server.

Each kind with the writes that its adapter makes; none of them is an erasure, which is for admins. A kind that is
missing here works in a file and on a database, and through a server with an admin's key only. The conversations of an
adapter are ordinary sessions, whose ids begin with the adapter's name.
"""

from __future__ import annotations

from strongroom.services.sessions.state import COUNT, CUT, KEPT, MESSAGE, SESSION, SUMMARY, VECTOR, priority_kind
from strongroom.store import Append, Delete, Put, Truncate, Write
from strongroom.tokens.choosing import HIGHEST_PRIORITY

Writes = tuple[type[Write], ...]

OWN: dict[str, Writes] = {
    "adapter_large": (Put, Delete),
    "adapter_large_piece": (Append, Delete),
    "langgraph_line": (Put, Delete),
    "langgraph_checkpoint": (Append, Truncate),
    "langgraph_writes": (Append, Delete),
    "langgraph_early": (Append, Delete),
    "langgraph_item": (Append, Truncate),
    "langgraph_run": (Put, Delete),
    "langgraph_stored": (Put, Delete),
    "langgraph_namespace": (Put,),
    "adk_session": (Put, Delete),
    "adk_state": (Put,),
    "adk_memory": (Put, Delete),
    "adk_memory_deleted": (Put,),
    "adk_artifact": (Put, Delete),
    "adk_artifact_version": (Append, Truncate),
    "pydantic_ai_conversation": (Put, Delete),
    "pydantic_ai_entry": (Put, Delete),
    "pydantic_ai_memory": (Put, Delete),
    "pydantic_ai_memory_operation": (Put, Delete),
    "llama_index_archive": (Put,),
    "agent_framework_checkpoint": (Put, Delete),
    "crewai_memory": (Put, Delete),
    "crewai_dimension": (Put, Delete),
}

# Adapters that write a session in the same commit as what is their own.
WRITES_SESSIONS = ("langgraph", "adk", "pydantic_ai")
NOTES: dict[str, Writes] = {
    KEPT: (Append, Delete),
    **{priority_kind(level): (Append, Delete) for level in range(1, HIGHEST_PRIORITY + 1)},
}
# What services make of a session's messages goes with them.
MADE: dict[str, Writes] = dict.fromkeys((CUT, SUMMARY, COUNT, VECTOR), (Delete,))
IN_SESSIONS: dict[str, Writes] = {SESSION: (Put, Delete), MESSAGE: (Append, Truncate), **NOTES, **MADE}


def adapter_of(session_id: str) -> str | None:
    """Return the adapter that a session belongs to, None if it is no adapter's."""
    name, slash, _ = session_id.partition("/")
    return name if slash and name in WRITES_SESSIONS else None
