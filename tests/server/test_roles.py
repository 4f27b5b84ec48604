"""Every endpoint against every role, from the table that the server itself is made of."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import strongroom
from strongroom.server.keys import RIGHTS
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from tests.server.conftest import ROLES, client
from tests.server.samples import MCR, request
from tests.server.serving import Served


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.right is not None]


@pytest.fixture(scope="module")
def stranger(shared: Served, roles: dict[str, httpx.Client]) -> Iterator[httpx.Client]:
    with client(shared.url) as http:
        yield http


@pytest.mark.parametrize("endpoint", GUARDED, ids=name)
def test_nobody_comes_in_without_a_key(endpoint: Endpoint, stranger: httpx.Client) -> None:
    assert request(stranger, endpoint)[0] == 401


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", GUARDED, ids=name)
def test_a_role_may_do_what_its_rights_say(endpoint: Endpoint, role: str, roles: dict[str, httpx.Client]) -> None:
    status, _ = request(roles[role], endpoint)
    # Which right an operation takes is told by the table of operations: see `test_matrix`.
    right = "write" if endpoint.writes else endpoint.right
    if right in RIGHTS[role]:
        assert status not in (401, 403) and status < 500
    else:
        assert status == 403


def test_only_health_readiness_and_signing_out_are_open() -> None:
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.right is None} == {"/health", "/ready", "/sign-out"}


def test_a_wrong_secret_is_refused(shared: Served, roles: dict[str, httpx.Client]) -> None:
    real = shared.key()
    with client(shared.url, real[:-1] + ("0" if real[-1] != "0" else "1")) as forger:
        assert forger.get("/runs").status_code == 401


def test_a_proposer_cannot_commit_what_it_proposed(roles: dict[str, httpx.Client]) -> None:
    batch = roles["writer"].post("/memories/propose", json={"requests": [MCR]}).json()["id"]
    assert roles["writer"].post(f"/memories/batches/{batch}/commit", json={}).status_code == 403
    assert roles["reviewer"].post(f"/memories/batches/{batch}/commit", json={}).status_code == 200


def test_a_reviewer_edits_what_a_writer_proposed_and_nobody_edits_their_own(roles: dict[str, httpx.Client]) -> None:
    asked = {"requests": [{**MCR, "content": "edited over HTTP"}]}
    batch, own = (roles[role].post("/memories/propose", json=asked).json()["id"] for role in ("writer", "admin"))
    edit = {"edit": {"0": "edited twice over HTTP"}}
    assert [
        roles[role].post(f"/memories/batches/{id}/commit", json=edit).status_code
        for role, id in (("reader", batch), ("writer", batch), ("admin", own), ("reviewer", batch))
    ] == [403, 403, 422, 200]


def test_a_place_has_one_spelling_so_that_no_edit_is_dropped(roles: dict[str, httpx.Client]) -> None:
    asked = {"requests": [{**MCR, "content": "spelt over HTTP"}]}
    batch = roles["writer"].post("/memories/propose", json=asked).json()["id"]
    twice = {"edit": {"0": "first words", "00": "other words"}}
    assert roles["reviewer"].post(f"/memories/batches/{batch}/commit", json=twice).status_code == 422


@pytest.mark.parametrize("role", ROLES)
def test_every_role_lists_the_memories_of_all_owners_of_its_space_and_of_no_other(shared: Served, role: str) -> None:
    """The client reads over the port and REST asks the server: both doors say the same."""
    ours, theirs, key = shared.key("owners"), shared.key("elsewhere"), shared.key("owners", role)
    for admin, user in ((ours, f"{role}-1"), (ours, f"{role}-2"), (theirs, f"{role}-3")):
        with client(shared.url, admin) as http:
            said = {"content": f"{user} likes tea", "scope": "user", "user_id": user}
            assert http.post("/memories", json=said).status_code == 200
    with client(shared.url, key) as http, strongroom.connect(shared.url, key=key) as ctx:
        listed = http.get("/memories", params={"everyone": True, "limit": 200}).json()["memories"]
        assert {f"{role}-1", f"{role}-2"} <= {each["user_id"] for each in listed}
        assert [each["id"] for each in listed] == [each.id for each in ctx.memories.list(everyone=True)]
        assert f"{role}-3" not in {each["user_id"] for each in listed}


def test_a_writer_cannot_commit_memories_through_a_milestone(roles: dict[str, httpx.Client]) -> None:
    run = roles["writer"].post("/runs", json={"objective": "x"}).json()["run_id"]
    batch = roles["writer"].post(f"/runs/{run}/memory/propose", json={"mcrs": [{**MCR, "content": "m"}]}).json()
    asked = {"reason": "r", "memory_batch_id": batch["batch_id"]}
    assert roles["writer"].post(f"/runs/{run}/milestone", json=asked).status_code == 403
    assert roles["admin"].post(f"/runs/{run}/milestone", json=asked).json()["committed_memory_ids"]


def test_a_writer_cannot_bring_memories_in_with_a_pack(roles: dict[str, httpx.Client]) -> None:
    admin = roles["admin"]
    run = admin.post("/runs", json={"objective": "x"}).json()["run_id"]
    batch = admin.post(f"/runs/{run}/memory/propose", json={"mcrs": [{**MCR, "content": "smuggled"}]}).json()
    admin.post(f"/runs/{run}/milestone", json={"memory_batch_id": batch["batch_id"]})
    pack = admin.get(f"/runs/{run}/pack").content
    zipped = {"Content-Type": "application/zip"}
    refused = roles["writer"].post("/runs/restore?run_id=copy", content=pack, headers=zipped)
    assert refused.status_code == 422 and "memories" in refused.json()["error"]
    assert admin.get("/runs/copy").status_code == 404
    assert admin.post("/runs/restore?run_id=copy", content=pack, headers=zipped).status_code == 200
