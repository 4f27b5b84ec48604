"""Who may do what through which door: every role, kind, port operation, operation of a service and endpoint.

The tables say what is expected. They are written down here, not taken from the server's own, so that a change there has
to be made here as well, where it is seen. The calls are generated from them; nothing can be missing, because the tables
are held against what the server offers and what the services store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.routing import Mount, Route

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.operations import Operation
from strongroom.protocol import wire
from strongroom.scope import Scope as SpaceScope
from strongroom.server.app import create_app
from strongroom.server.operations import OPERATIONS
from strongroom.server.routes import ENDPOINTS
from strongroom.server.settings import Settings
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Find,
    Get,
    Key,
    Put,
    Range,
    ReceiptOf,
    Scan,
    Tail,
    Truncate,
    new_id,
)
from tests.repeats.table import ROWS
from tests.server.conftest import ROLES, client
from tests.server.samples import request
from tests.server.serving import Served

# ---- what is expected -----------------------------------------------------------------------------------------------

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


# ---- nothing is missing ---------------------------------------------------------------------------------------------


def test_every_endpoint_is_in_the_table() -> None:
    assert [f"{each.method} {each.path}" for each in ENDPOINTS] == list(table(ENDPOINTS_BY_ROLE))


def test_every_route_of_the_server_is_in_a_table() -> None:
    routes = create_app(Settings(url="memory://")).routes
    served = {f"{method} {one.path}" for one in routes if isinstance(one, Route) for method in one.methods or ()}
    expected = table(ENDPOINTS_BY_ROLE).keys() | FOR_EVERYBODY | FOR_ASSISTANTS
    assert {one for one in served if not one.startswith("HEAD ")} == expected
    assert {one.path for one in routes if isinstance(one, Mount)} == FILES_FOR_EVERYBODY
    assert all(isinstance(one, Route | Mount) for one in routes)


@pytest.mark.parametrize("door", sorted(FOR_ASSISTANTS))
@pytest.mark.parametrize("role", (None, *ROLES))
def test_the_door_of_assistants_is_for_every_key_and_for_no_other(
    door: str, role: str | None, shared: Served, roles: dict[str, httpx.Client]
) -> None:
    method, path = door.split()
    with client(shared.url) as nobody:
        answer = (nobody if role is None else roles[role]).request(method, path, content=b"nonsense")
    assert answer.status_code == 401 if role is None else answer.status_code in (400, 405, 406, 415)


@pytest.mark.parametrize("page", sorted(FOR_EVERYBODY))
def test_a_page_for_everybody_is_the_same_for_everybody(
    page: str, shared: Served, roles: dict[str, httpx.Client]
) -> None:
    path, named = page.removeprefix("GET "), {"X-Request-Id": "one-for-all"}
    with client(shared.url) as nobody:
        answers = [one.get(path, headers=named) for one in (nobody, *roles.values())]
    assert len({(answer.status_code, answer.content) for answer in answers}) == 1


def test_every_operation_is_in_the_table() -> None:
    assert list(OPERATIONS) == list(table(OPERATIONS_BY_ROLE))


def test_every_argument_that_takes_a_right_of_its_own_is_in_the_table() -> None:
    named = [f"{name} {argument}" for name, row in OPERATIONS.items() for argument in row.also]
    assert named == list(table(NAMED_BY_ROLE))


def test_every_operation_of_the_port_is_in_the_table() -> None:
    assert wire.QUESTIONS.keys() | wire.WRITES.keys() | {"search", "wait"} == table(VERBS).keys()


async def test_every_kind_that_a_service_stores_is_in_the_table() -> None:
    store = MemoryStore()
    for place, row in enumerate(ROWS):
        ctx: Any = AsyncContext(SpaceScope(OnLoop(store), f"{place}"))
        await row.call(ctx, await row.prepare(ctx), None)
    stored = {item.key.kind for item in store.unload(None, 100_000).items}
    assert len(stored) > 20 and stored <= table(KINDS).keys()


# ---- and it is so ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anything(shared: Served) -> Iterator[dict[str, httpx.Client]]:
    """Callers of each role in a space where an admin writes what no service can read."""
    made = {role: client(shared.url, shared.key("anything", role)) for role in ROLES}
    yield made
    for one in made.values():
        one.close()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", table(VERBS))
def test_the_port_answers_a_role_about_the_kinds_that_are_its_own(
    verb: str, role: str, anything: dict[str, httpx.Client]
) -> None:
    wrong = {}
    for kind, readers in table(KINDS).items():
        told = table(VERBS)[verb][role]
        allowed = {"kind": readers[role] == "yes", "own": verb in verbs(OWN).get(kind, ())}.get(told, told == "yes")
        path, body = asked(verb, Key("anything", kind.replace(" ", "_"), "a"))
        status = anything[role].post(path, content=body, headers={"Content-Type": wire.MEDIA}).status_code
        if not fits(status, allowed):
            wrong[kind] = status
    assert wrong == {}


@pytest.mark.parametrize(
    "id", ["langgraph/a", "adk/a", "pydantic_ai/a", "a", "langgraph", "langgraph_a", "x/langgraph/a"]
)
@pytest.mark.parametrize("verb", ["put", "append", "truncate", "erase", "delete"])
def test_a_writer_reaches_the_sessions_of_adapters_and_no_other(
    verb: str, id: str, anything: dict[str, httpx.Client]
) -> None:
    wrong = {}
    for kind in table(KINDS).keys() - verbs(OWN).keys():
        path, body = asked(verb, Key("anything", kind.replace(" ", "_"), id))
        status = anything["writer"].post(path, content=body, headers={"Content-Type": wire.MEDIA}).status_code
        mine = id in ("langgraph/a", "adk/a", "pydantic_ai/a") and verb in verbs(IN_SESSIONS).get(kind, ())
        if not fits(status, mine):
            wrong[kind] = status
    assert wrong == {}


def asked(verb: str, key: Key) -> tuple[str, bytes]:
    """Return the request that asks something about a key, or does something to it."""
    stream = Key(key.space, key.kind, f"{key.id}-stream")  # a key has one shape for life
    questions: dict[str, Any] = {
        "get": Get(key),
        "range": Range(stream),
        "tail": Tail(stream, 1),
        "scan": Scan(key.space, key.kind),
        "receipt": ReceiptOf(key.space, "some id"),
    }
    writes: dict[str, Any] = {
        "put": Put(key, encode({})),
        "append": Append(stream, (Entry("t", encode({})),)),
        "truncate": Truncate(stream, 0),
        "erase": Erase(stream, 0, 0),
        "delete": Delete(Key(key.space, key.kind, f"{key.id}-nothing")),
    }
    if verb in questions:
        return "/store/read", wire.dump_questions([questions[verb]])
    if verb in writes:
        return "/store/commit", wire.dump_commit(Commit(new_id(), (), (writes[verb],)))
    if verb == "search":
        return "/store/search", wire.dump(Find(key.space, key.kind, ("word",)))
    return "/store/wait", wire.dump(wire.Waiting(stream, 0, 0.0))


def fits(status: int, allowed: bool) -> bool:
    """Whatever else is wrong with a request, it is refused for its right or it is not."""
    return status not in (401, 403) and status < 500 if allowed else status == 403


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", table(OPERATIONS_BY_ROLE))
def test_a_role_may_have_done_what_its_rights_say(name: str, role: str, roles: dict[str, httpx.Client]) -> None:
    allowed = table(OPERATIONS_BY_ROLE)[name][role] == "yes"
    for arguments in NONSENSE:
        answer = perform(roles[role], name, arguments)
        assert fits(answer.status_code, allowed), (arguments, answer.text)


# Without the right nobody learns what is wrong with these; with it, it is said, and nothing breaks.
NONSENSE: tuple[dict[str, Any], ...] = (
    {},
    {"no": "such argument"},
    {"commit_id": "mine", "self": 1, "actor": "ana", "reviewer": "ana", "proposer": "ana", "by": "ana"},
    {"tokenizer": 7, "messages": 7, "entries": [7], "vectors": 7, "fingerprint": {}, "owner": 7, "reject": 7},
    {"messages": [7], "entries": [["t", 7, "a", "b"]], "owner": "a", "lease_seconds": -1, "ttl_seconds": -1},
)


def perform(
    http: httpx.Client, name: str, arguments: dict[str, Any], besides: dict[str, Any] | None = None
) -> httpx.Response:
    more = None if besides is None else encode(besides)
    told = wire.dump_operation(Operation(name, Key("default", "any", "a"), encode(arguments), f"~{new_id()}", more))
    if name in OPERATIONS and OPERATIONS[name].takes_file:
        body = len(told).to_bytes(wire.HEAD_BYTES, "big") + told + b"content"
        return http.post("/store/upload", content=body, headers={"Content-Type": wire.UPLOAD})
    return http.post("/store/perform", content=told, headers={"Content-Type": wire.MEDIA})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("named", table(NAMED_BY_ROLE))
def test_an_argument_may_take_a_right_of_its_own(named: str, role: str, roles: dict[str, httpx.Client]) -> None:
    name, argument = named.split()
    given = {argument: "batch_1"} if argument == "memory_batch_id" else {}
    besides = {"policy": {"review_own": True}} if argument == "policy" else None
    answer = perform(roles[role], name, given, besides)
    assert fits(answer.status_code, table(NAMED_BY_ROLE)[named][role] == "yes"), answer.text


@pytest.mark.parametrize("role", ROLES)
def test_a_turn_takes_the_rights_of_its_parts(role: str, roles: dict[str, httpx.Client]) -> None:
    part, policy = ["memories.propose", "a", "", {}], {"policy": {"review_own": True}}
    answers = [
        perform(roles[role], "turn", {"parts": [part]}, {"parts": [policy]}),
        perform(roles[role], "turn_with", {}, {"parts": [part], "besides": [policy]}),
    ]
    assert all(fits(answer.status_code, role == "admin") for answer in answers)


@pytest.mark.parametrize("name", ["runs.erase", "memories.commit", "turn", "no such thing"])
def test_a_turn_has_five_kinds_of_parts_and_no_other(name: str, roles: dict[str, httpx.Client]) -> None:
    answer = perform(roles["admin"], "turn", {"parts": [[name, "a", "", {"reason": "r"}]]}, {"parts": [None]})
    assert answer.status_code == 422 and "a turn has no part" in answer.text


def test_what_is_not_in_the_table_does_not_exist(roles: dict[str, httpx.Client]) -> None:
    for name in ("runs.forge", "step", "create", ""):
        answer = perform(roles["admin"], name, {})
        assert (answer.status_code, answer.json()["details"]) == (422, {"path": "name"})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_an_endpoint_answers_the_roles_that_it_is_for(endpoint: Any, role: str, roles: dict[str, httpx.Client]) -> None:
    expected = table(ENDPOINTS_BY_ROLE)[f"{endpoint.method} {endpoint.path}"][role]
    assert fits(request(roles[role], endpoint)[0], expected == "yes")
