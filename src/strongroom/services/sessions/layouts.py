"""What adapters keep past the services: one table for the adapters that write it, for the server that lets them, and
for whoever takes a session or a person away. Their frameworks need not be there. Pure.

Each kind with the writes that its adapter makes; none of them is an erasure, which is for admins. A kind that is
missing here works in a file and on a database, and through a server with an admin's key only. The conversations of an
adapter are ordinary sessions, whose ids begin with the adapter's name.
"""

from __future__ import annotations

from hashlib import blake2b

from strongroom.services.owning import OWNER
from strongroom.services.sessions.state import COUNT, CUT, KEPT, MESSAGE, SESSION, SUMMARY, VECTOR, priority_kind
from strongroom.store import MAX_NAME, Append, Delete, Put, Truncate, Write
from strongroom.tokens.choosing import HIGHEST_PRIORITY

Writes = tuple[type[Write], ...]

LANGGRAPH, ADK, PYDANTIC_AI, LLAMA_INDEX = "langgraph", "adk", "pydantic_ai", "llama_index"

LARGE, LARGE_PIECE = "adapter_large", "adapter_large_piece"

LINE, CHECKPOINT, TASK_WRITES = "langgraph_line", "langgraph_checkpoint", "langgraph_writes"
EARLY, ITEM, RUN = "langgraph_early", "langgraph_item", "langgraph_run"
STORED, NAMESPACE = "langgraph_stored", "langgraph_namespace"

ADK_SESSION, ADK_STATE = "adk_session", "adk_state"
ADK_MEMORY, ADK_MEMORY_DELETED = "adk_memory", "adk_memory_deleted"
ADK_ARTIFACT, ADK_ARTIFACT_VERSION = "adk_artifact", "adk_artifact_version"

CONVERSATION, CONVERSATION_ENTRY = "pydantic_ai_conversation", "pydantic_ai_entry"
HARNESS_MEMORY, HARNESS_OPERATION = "pydantic_ai_memory", "pydantic_ai_memory_operation"
ARCHIVE = "llama_index_archive"
WORKFLOW_CHECKPOINT = "agent_framework_checkpoint"
OPENAI_IMPORT = "openai_agents_import"
CREW_MEMORY, CREW_DIMENSION = "crewai_memory", "crewai_dimension"

OWN: dict[str, Writes] = {
    LARGE: (Put, Delete),
    LARGE_PIECE: (Append, Delete),
    LINE: (Put, Delete),
    CHECKPOINT: (Append, Truncate),
    TASK_WRITES: (Append, Delete),
    EARLY: (Append, Delete),
    ITEM: (Append, Truncate),
    RUN: (Put, Delete),
    STORED: (Put, Delete),
    NAMESPACE: (Put,),
    ADK_SESSION: (Put, Delete),
    ADK_STATE: (Put,),
    ADK_MEMORY: (Put, Delete),
    ADK_MEMORY_DELETED: (Put,),
    ADK_ARTIFACT: (Put, Delete),
    ADK_ARTIFACT_VERSION: (Append, Truncate),
    CONVERSATION: (Put, Delete),
    CONVERSATION_ENTRY: (Put, Delete),
    HARNESS_MEMORY: (Put, Delete),
    HARNESS_OPERATION: (Put, Delete),
    ARCHIVE: (Put,),
    WORKFLOW_CHECKPOINT: (Put, Delete),
    OPENAI_IMPORT: (Put,),
    CREW_MEMORY: (Put, Delete),
    CREW_DIMENSION: (Put, Delete),
}

# What an adapter knows a session by: a document under the session's id.
DOCUMENTS = {ADK: ADK_SESSION, PYDANTIC_AI: CONVERSATION, LLAMA_INDEX: ARCHIVE}
# What belongs to a person and to no session, by the tag of its owner.
OF_OWNER = (ADK_STATE, ADK_MEMORY, ADK_MEMORY_DELETED, ADK_ARTIFACT)

# What goes with a session, a line of LangGraph or an artifact, each of which tells whose it is.
OF_SESSION = (
    *DOCUMENTS.values(),
    CONVERSATION_ENTRY,
    *(LINE, CHECKPOINT, TASK_WRITES, EARLY, ITEM),
    *(ADK_ARTIFACT_VERSION, LARGE, LARGE_PIECE),
)
# What holds ids and numbers, and nothing that was said.
IDS_ONLY = (RUN, OPENAI_IMPORT, CREW_DIMENSION)
# What the rest is called, which does not say whose it is: who erases a person cannot find it.
CALLED = {
    STORED: "LangGraph store items",
    NAMESPACE: "LangGraph store items",
    HARNESS_MEMORY: "Pydantic AI harness memories",
    HARNESS_OPERATION: "Pydantic AI harness memories",
    WORKFLOW_CHECKPOINT: "Agent Framework workflow checkpoints",
    CREW_MEMORY: "CrewAI memories",
}
_FOUND = {*OF_SESSION, *OF_OWNER, *IDS_ONLY}
OWNERLESS = tuple(dict.fromkeys(CALLED.get(kind, kind) for kind in OWN if kind not in _FOUND))

# Adapters that write a session in the same commit as what is their own.
WRITES_SESSIONS = (LANGGRAPH, ADK, PYDANTIC_AI)
NOTES: dict[str, Writes] = {
    KEPT: (Append, Delete),
    **{priority_kind(level): (Append, Delete) for level in range(1, HIGHEST_PRIORITY + 1)},
}
# What services make of a session's messages goes with them.
MADE: dict[str, Writes] = dict.fromkeys((CUT, SUMMARY, COUNT, VECTOR), (Delete,))
IN_SESSIONS: dict[str, Writes] = {SESSION: (Put, Delete), MESSAGE: (Append, Truncate), **NOTES, **MADE}

MESSAGES = "messages"  # the channel of LangGraph's outermost graph whose messages are the session's
THREAD = "thread"
STAGED = {"staged": "yes"}  # a large text that nobody names yet


def framework_of(session_id: str) -> str:
    """Return what stands before the first slash of a session's id: a framework's name, if it is an adapter's."""
    name, slash, _ = session_id.partition("/")
    return name if slash else ""


def adapter_of(session_id: str) -> str | None:
    """Return the adapter that a session belongs to, None if it is no adapter's."""
    name = framework_of(session_id)
    return name if name in WRITES_SESSIONS else None


def digest(*parts: str) -> str:
    """Return a short word for texts: another one for other texts, and for the same ones divided otherwise."""
    whole = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(whole.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def session_name(framework: str, *parts: str) -> str:
    """Return the id of the session that a conversation of a framework is: readable, where its own id allows it."""
    name = "/".join((framework, *parts))
    plain = len(name) <= MAX_NAME and name.isprintable() and "/" not in "".join(parts) and all(parts)
    return name if plain else f"{framework}/{digest(*parts)}"


# ---- tags, by which things are found ---------------------------------------------------------------------------------


def owned_by(user_id: str | None) -> dict[str, str]:
    """Return the tag that says whose something is. Frameworks have users whose names fit no tag: nobody can ask."""
    fits = user_id is not None and 0 < len(user_id) <= MAX_NAME and user_id.isprintable()
    return {OWNER: user_id} if fits and user_id is not None else {}


def named_by(id: str) -> dict[str, str]:
    """Return the tag of the large texts that a line, an artifact or a checkpoint names."""
    return {"owner": id}


def of_thread(thread: str) -> dict[str, str]:
    """Return the tag of a thread's lines."""
    return {THREAD: digest(thread)}


def of_conversation(name: str) -> dict[str, str]:
    """Return the tag of the entries of a conversation of Pydantic AI, by its session's id."""
    return {"in": digest(name)}


def remembered_of(place: str) -> dict[str, str]:
    """Return the tag of what ADK remembers of a session."""
    return {"session": place}


def artifacts_of(place: str) -> dict[str, str]:
    """Return the tag of the artifacts of an ADK session, or of a user."""
    return {"scope": place}


def adk_place(session_id: str) -> str:
    """Return the digest of the app, the user and the id of an ADK session, by the id of the session that it is."""
    parts = session_id.split("/")[1:]
    return digest(*parts) if len(parts) > 1 else parts[0]


# ---- ids of LangGraph's lines, streams and lists ---------------------------------------------------------------------


def line_id(thread: str, ns: str) -> str:
    return digest(thread, ns)


def task_writes_id(line: str, checkpoint: str) -> str:
    """Return the id of the stream of what tasks wrote to a checkpoint."""
    return line + plain(checkpoint)


def item_id(thread: str, ns: str, channel: str) -> str:
    """Return the id of the stream of a list of messages."""
    return digest(thread, ns, channel)


def is_session(ns: str, channel: str) -> bool:
    """Tell whether the messages of a channel are those of the session."""
    return channel == MESSAGES and not ns


def plain(checkpoint_id: str) -> str:
    """Return a checkpoint's id as part of a key."""
    return checkpoint_id if len(checkpoint_id) <= 64 and checkpoint_id.isprintable() else digest(checkpoint_id)
