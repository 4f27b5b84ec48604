"""Who may do what through which door, as it is expected: `test_matrix.py` holds the server against these tables.

They are written down here, not taken from the server's own, so that a change there has to be made here as well, where
it is seen.
"""

from __future__ import annotations

from tests.server.conftest import ROLES

# The questions of the port, about each kind.
KINDS = """
kind                        reader  writer  reviewer  admin
agent_framework_checkpoint  yes     yes     yes       yes
adk_artifact                yes     yes     yes       yes
adk_artifact_version        yes     yes     yes       yes
adk_memory                  yes     yes     yes       yes
adk_memory_deleted          yes     yes     yes       yes
adk_session                 yes     yes     yes       yes
adk_state                   yes     yes     yes       yes
artifact                    yes     yes     yes       yes
artifact-use                yes     yes     yes       yes
blob                        yes     yes     yes       yes
call                        -       -       -         yes
chain                       yes     yes     yes       yes
dead_letter                 yes     yes     yes       yes
delivery                    -       -       -         yes
embedding                   yes     yes     yes       yes
episodes                    yes     yes     yes       yes
file                        yes     yes     yes       yes
file_history                yes     yes     yes       yes
file_text                   yes     yes     yes       yes
file_tree                   -       -       -         yes
forgetting                  -       -       -         yes
langgraph_checkpoint        yes     yes     yes       yes
langgraph_early             yes     yes     yes       yes
langgraph_item              yes     yes     yes       yes
langgraph_line              yes     yes     yes       yes
langgraph_namespace         yes     yes     yes       yes
langgraph_run               yes     yes     yes       yes
langgraph_stored            yes     yes     yes       yes
langgraph_writes            yes     yes     yes       yes
llama_index_archive         yes     yes     yes       yes
pydantic_ai_conversation    yes     yes     yes       yes
pydantic_ai_entry           yes     yes     yes       yes
ledger                      yes     yes     yes       yes
run_usage                   yes     yes     yes       yes
mail                        yes     yes     yes       yes
memory                      yes     yes     yes       yes
memory_batch                yes     yes     yes       yes
memory_decided              -       -       -         yes
memory_index                yes     yes     yes       yes
memory_judged               yes     yes     yes       yes
memory_learnt               yes     yes     yes       yes
memory_log                  yes     yes     yes       yes
memory_revocation           yes     yes     yes       yes
memory_staged               -       -       -         yes
message                     yes     yes     yes       yes
mid                         yes     yes     yes       yes
run                         yes     yes     yes       yes
session                     yes     yes     yes       yes
session_count               yes     yes     yes       yes
session_cut                 yes     yes     yes       yes
session_kept                yes     yes     yes       yes
session_priority_1          yes     yes     yes       yes
session_priority_2          yes     yes     yes       yes
session_priority_3          yes     yes     yes       yes
session_priority_4          yes     yes     yes       yes
session_priority_5          yes     yes     yes       yes
session_priority_6          yes     yes     yes       yes
session_priority_7          yes     yes     yes       yes
session_priority_8          yes     yes     yes       yes
session_priority_9          yes     yes     yes       yes
session_rest                -       -       -         yes
session_summary             yes     yes     yes       yes
session_vector              yes     yes     yes       yes
staging                     -       -       -         yes
thread                      yes     yes     yes       yes
thread_count                -       -       -         yes
thread_info                 yes     yes     yes       yes
thread_sweep                yes     yes     yes       yes
anything else               -       -       -         yes
"""

VERBS = """
port operation              reader  writer  reviewer  admin
get                         kind    kind    kind      yes
range                       kind    kind    kind      yes
tail                        kind    kind    kind      yes
scan                        kind    kind    kind      yes
search                      kind    kind    kind      yes
wait                        kind    kind    kind      yes
receipt                     -       -       -         yes
put                         -       own     -         yes
append                      -       own     -         yes
truncate                    -       own     -         yes
erase                       -       -       -         yes
delete                      -       own     -         yes
"""

# What a writer may commit past the services: what adapters keep, kind by kind. All else is for admins.
OWN = """
adk_artifact                put delete
adk_artifact_version        append truncate
adk_memory                  put delete
adk_memory_deleted          put
adk_session                 put delete
adk_state                   put
agent_framework_checkpoint  put delete
langgraph_checkpoint        append truncate
langgraph_early             append delete
langgraph_item              append truncate
langgraph_line              put delete
langgraph_namespace         put
langgraph_run               put delete
langgraph_stored            put delete
langgraph_writes            append delete
llama_index_archive         put
pydantic_ai_conversation    put delete
pydantic_ai_entry           put delete
"""
# The same of the sessions of adapters, whose ids begin with their names.
IN_SESSIONS = """
message                     append truncate
session                     put delete
session_count               delete
session_cut                 delete
session_kept                append delete
session_priority_1          append delete
session_priority_2          append delete
session_priority_3          append delete
session_priority_4          append delete
session_priority_5          append delete
session_priority_6          append delete
session_priority_7          append delete
session_priority_8          append delete
session_priority_9          append delete
session_summary             delete
session_vector              delete
"""

OPERATIONS_BY_ROLE = """
operation                   reader  writer  reviewer  admin
runs.create                 -       yes     -         yes
runs.open                   -       yes     -         yes
runs.restore                -       yes     -         yes
runs.erase                  -       -       -         yes
run.update                  -       yes     -         yes
run.update_with             -       yes     -         yes
run.rollback                -       yes     -         yes
run.record                  -       yes     -         yes
run.fork                    -       yes     -         yes
run.attach                  -       yes     -         yes
run.export                  -       yes     -         yes
run.milestone               -       yes     -         yes
run.summarized              -       yes     -         yes
sessions.open               -       yes     -         yes
sessions.delete             -       yes     -         yes
session.append              -       yes     -         yes
session.replace             -       yes     -         yes
session.replace_from        -       yes     -         yes
session.pop                 -       yes     -         yes
session.truncate_from       -       yes     -         yes
session.erase               -       -       -         yes
session.restore             -       yes     -         yes
session.rename              -       yes     -         yes
session.set_metadata        -       yes     -         yes
session.pin                 -       yes     -         yes
session.unpin               -       yes     -         yes
session.count_with          -       yes     -         yes
session.fork                -       yes     -         yes
session.recount             -       yes     -         yes
session.summarize           -       yes     -         yes
session.embed               -       yes     -         yes
memories.propose            -       yes     -         yes
memories.commit             -       -       yes       yes
memories.reject             -       -       yes       yes
memories.revoke             -       -       yes       yes
memories.erase              -       -       -         yes
memories.sweep              -       -       yes       yes
memories.learn              -       yes     -         yes
memories.consolidate        -       yes     -         yes
memories.agree              -       yes     -         yes
memories.embed              -       yes     -         yes
memories.reembed            -       -       -         yes
threads.append              -       yes     -         yes
threads.append_many         -       yes     -         yes
threads.delete              -       yes     -         yes
threads.erase               -       -       -         yes
threads.sweep               -       yes     -         yes
threads.expire              -       yes     -         yes
threads.make_room           -       yes     -         yes
registry.root               -       yes     -         yes
registry.start              -       yes     -         yes
registry.get_or_create      -       yes     -         yes
registry.extend             -       yes     -         yes
registry.cleanup            -       yes     -         yes
files.write                 -       yes     -         yes
files.restore               -       yes     -         yes
files.delete                -       yes     -         yes
files.rename                -       yes     -         yes
files.erase                 -       -       -         yes
context.erase               -       -       -         yes
context.restore             -       -       -         yes
dispatch.begin              -       yes     -         yes
dispatch.replay             -       yes     -         yes
dispatch.take               -       yes     -         yes
dispatch.renew              -       yes     -         yes
dispatch.note               -       yes     -         yes
dispatch.release            -       yes     -         yes
dispatch.hand_back          -       yes     -         yes
dispatch.put_off            -       yes     -         yes
dispatch.conclude           -       yes     -         yes
turn                        -       yes     -         yes
turn_with                   -       yes     -         yes
"""

# What takes more than the operation itself does, if it is named.
NAMED_BY_ROLE = """
argument                          reader  writer  reviewer  admin
run.milestone memory_batch_id     -       -       -         yes
run.summarized memory_batch_id    -       -       -         yes
memories.propose policy           -       -       -         yes
memories.commit policy            -       -       -         yes
memories.reject policy            -       -       -         yes
memories.learn policy             -       -       -         yes
memories.consolidate policy       -       -       -         yes
"""

# The two that make operations are asked for one that writes.
ENDPOINTS_BY_ROLE = """
endpoint                                      reader  writer  reviewer  admin
GET /runs/{run_id}                            yes     yes     yes       yes
PATCH /runs/{run_id}                          -       yes     -         yes
POST /runs                                    -       yes     -         yes
GET /runs                                     yes     yes     yes       yes
POST /runs/{run_id}/events                    -       yes     -         yes
GET /runs/{run_id}/events                     yes     yes     yes       yes
GET /runs/{run_id}/verify                     yes     yes     yes       yes
GET /runs/{run_id}/at                         yes     yes     yes       yes
GET /runs/{run_id}/diff                       yes     yes     yes       yes
POST /runs/{run_id}/rollback                  -       yes     -         yes
GET /runs/{run_id}/brief                      yes     yes     yes       yes
GET /runs/{run_id}/episodes                   yes     yes     yes       yes
POST /runs/{run_id}/milestone                 -       yes     -         yes
POST /runs/{run_id}/fork                      -       yes     -         yes
POST /runs/{run_id}/erase                     -       -       -         yes
GET /runs/{run_id}/follow                     yes     yes     yes       yes
POST /sessions                                -       yes     -         yes
GET /sessions                                 yes     yes     yes       yes
GET /sessions/search                          yes     yes     yes       yes
GET /sessions/{session_id}                    yes     yes     yes       yes
POST /sessions/{session_id}/messages          -       yes     -         yes
PUT /sessions/{session_id}/messages           -       yes     -         yes
GET /sessions/{session_id}/messages           yes     yes     yes       yes
GET /sessions/{session_id}/window             yes     yes     yes       yes
GET /sessions/{session_id}/search             yes     yes     yes       yes
POST /sessions/{session_id}/truncate          -       yes     -         yes
POST /sessions/{session_id}/restore           -       yes     -         yes
POST /sessions/{session_id}/erase             -       -       -         yes
DELETE /sessions/{session_id}                 -       yes     -         yes
GET /sessions/{session_id}/follow             yes     yes     yes       yes
GET /store                                    yes     yes     yes       yes
POST /store/read                              yes     yes     yes       yes
POST /store/commit                            -       yes     -         yes
POST /store/perform                           -       yes     -         yes
POST /store/upload                            -       yes     -         yes
POST /store/search                            yes     yes     yes       yes
POST /store/wait                              yes     yes     yes       yes
GET /memories/pending                         yes     yes     yes       yes
GET /memories/batches/{batch_id}              yes     yes     yes       yes
GET /memories                                 yes     yes     yes       yes
GET /memories/revoke/preview                  yes     yes     yes       yes
GET /memories/sources                         yes     yes     yes       yes
GET /memories/search                          yes     yes     yes       yes
GET /memories/{memory_id}                     yes     yes     yes       yes
GET /memories/{memory_id}/history             yes     yes     yes       yes
POST /runs/{run_id}/memory/propose            -       yes     -         yes
POST /memories                                -       yes     -         yes
PATCH /memories/{memory_id}                   -       yes     -         yes
POST /memories/{memory_id}/delete             -       yes     -         yes
POST /memories/erase                          -       -       -         yes
POST /people/erase                            -       -       -         yes
POST /memories/propose                        -       yes     -         yes
POST /runs/{run_id}/memory/commit             -       -       yes       yes
POST /memories/batches/{batch_id}/commit      -       -       yes       yes
POST /memories/batches/{batch_id}/reject      -       -       yes       yes
POST /memories/revoke                         -       -       yes       yes
POST /memories/sweep                          -       -       yes       yes
POST /threads/{thread_id}/slots               -       yes     -         yes
GET /threads/{thread_id}/slots                yes     yes     yes       yes
GET /threads                                  yes     yes     yes       yes
GET /threads/stats                            yes     yes     yes       yes
POST /threads/{thread_id}/erase               -       -       -         yes
DELETE /threads/{thread_id}                   -       yes     -         yes
GET /threads/dead                             yes     yes     yes       yes
POST /threads/dead/{letter_id}/retry          -       yes     -         yes
GET /threads/queues                           yes     yes     yes       yes
GET /threads/flow                             yes     yes     yes       yes
GET /threads/{thread_id}/follow               yes     yes     yes       yes
GET /files                                    yes     yes     yes       yes
GET /files/text                               yes     yes     yes       yes
GET /files/history                            yes     yes     yes       yes
GET /files/search                             yes     yes     yes       yes
PUT /files                                    -       yes     -         yes
POST /files/restore                           -       yes     -         yes
POST /files/rename                            -       yes     -         yes
POST /files/delete                            -       yes     -         yes
POST /files/erase                             -       -       -         yes
GET /changes                                  yes     yes     yes       yes
GET /search                                   yes     yes     yes       yes
POST /prompt                                  yes     yes     yes       yes
POST /runs/boot                               -       yes     -         yes
GET /runs/{run_id}/ws                         yes     yes     yes       yes
POST /runs/{run_id}/step/update               -       yes     -         yes
GET /runs/{run_id}/memory/search              yes     yes     yes       yes
GET /runs/{run_id}/pack                       yes     yes     yes       yes
POST /runs/restore                            -       yes     -         yes
POST /runs/{run_id}/snapshot                  -       yes     -         yes
POST /runs/{run_id}/resume/snapshot           -       yes     -         yes
POST /runs/resume/load                        -       yes     -         yes
GET /keys                                     -       -       -         yes
POST /keys                                    -       -       -         yes
DELETE /keys/{name}                           -       -       -         yes
GET /health                                   yes     yes     yes       yes
GET /ready                                    yes     yes     yes       yes
GET /durability                               yes     yes     yes       yes
GET /metrics                                  -       -       -         yes
GET /calls                                    -       -       -         yes
GET /upkeep                                   -       -       -         yes
POST /upkeep/check                            -       -       -         yes
POST /upkeep/backup                           -       -       -         yes
GET /me                                       yes     yes     yes       yes
POST /sign-in                                 yes     yes     yes       yes
POST /sign-out                                yes     yes     yes       yes
GET /runs/{run_id}/head                       yes     yes     yes       yes
GET /runs/{run_id}/usage                      yes     yes     yes       yes
GET /runs/{run_id}/artifacts                  yes     yes     yes       yes
GET /runs/{run_id}/artifacts/{artifact_id}    yes     yes     yes       yes
GET /figures/runs                             yes     yes     yes       yes
GET /figures/sessions                         yes     yes     yes       yes
GET /activity                                 yes     yes     yes       yes
"""


# What is served besides: pages and descriptions that hold nothing of anybody's, for everybody; and the door of
# assistants, for every key, whose tools are in the tables of `tests/mcp/test_tools.py` and `tests/mcp/test_http.py`.
FOR_EVERYBODY = {
    "GET /",
    "GET /docs",
    "GET /redoc",
    "GET /openapi.json",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
}
FILES_FOR_EVERYBODY = {"/docs/assets", "/console"}
FOR_ASSISTANTS = {"GET /mcp", "POST /mcp", "DELETE /mcp"}


def table(text: str) -> dict[str, dict[str, str]]:
    """Read a table: what, and for each role what is expected."""
    head, *rows = [line.rsplit(maxsplit=4) for line in text.strip().splitlines()]
    assert tuple(head[1:]) == ROLES
    return {row[0]: dict(zip(ROLES, row[1:], strict=True)) for row in rows}


def verbs(text: str) -> dict[str, set[str]]:
    """Read a table of kinds and what may be done to each."""
    return {kind: set(several) for kind, *several in (line.split() for line in text.strip().splitlines())}
