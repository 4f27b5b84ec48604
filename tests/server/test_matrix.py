"""Who may do what through which door: every role, kind, port operation, operation of a service and endpoint.

The tables of `matrix.py` say what is expected. The calls are generated from them; nothing can be missing, because the
tables are held against what the server offers and what the services store.
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
from tests.server.matrix import (
    ENDPOINTS_BY_ROLE,
    FILES_FOR_EVERYBODY,
    FOR_ASSISTANTS,
    FOR_EVERYBODY,
    IN_SESSIONS,
    KINDS,
    NAMED_BY_ROLE,
    OPERATIONS_BY_ROLE,
    OWN,
    VERBS,
    table,
    verbs,
)
from tests.server.samples import request
from tests.server.serving import Served

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
