"""Keys over HTTP: shown once, for one's own space, useless at once when revoked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from strongroom.errors import help_of
from tests.server.conftest import client
from tests.server.serving import Served, served


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def operator(server: Served) -> Iterator[httpx.Client]:
    """An admin of the server's own space."""
    with client(server.url, server.key()) as http:
        yield http


@pytest.fixture
def tenant(server: Served) -> Iterator[httpx.Client]:
    with client(server.url, server.key("acme", "admin")) as http:
        yield http


def made(http: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = http.post("/keys", json={"role": "writer", **body})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def listed(http: httpx.Client) -> list[dict[str, Any]]:
    """What is known of the keys, but when they were used, which every call changes."""
    return [{**each, "used_at": None} for each in http.get("/keys").json()["keys"]]


def test_a_key_works_and_is_shown_once(server: Served, operator: httpx.Client) -> None:
    told = made(operator, label="the scraper")
    with client(server.url, told["key"]) as http:
        assert http.post("/runs", json={"objective": "x"}).status_code == 200
    assert told["info"] in listed(operator)
    assert told["key"].partition(".")[2] not in operator.get("/keys").text


def test_a_revoked_key_is_useless_at_once(server: Served, operator: httpx.Client) -> None:
    told = made(operator)
    with client(server.url, told["key"]) as http:
        assert http.get("/runs").status_code == 200
        assert operator.delete(f"/keys/{told['info']['name']}").json() == {"ok": True}
        assert http.get("/runs").status_code == 401
    assert operator.delete(f"/keys/{told['info']['name']}").status_code == 404


def test_a_key_that_is_not_known_leads_to_its_own_remedy_and_a_right_that_is_missing_to_another(server: Served) -> None:
    reader = {"Authorization": f"Bearer {server.key(role='reader')}"}
    unknown = httpx.get(f"{server.url}/runs", headers={"Authorization": "Bearer srk_nobody.secret"}).json()
    refused = httpx.get(f"{server.url}/keys", headers=reader).json()
    assert (unknown["code"], unknown["help"]) == ("unauthorised", help_of("unauthorised"))
    assert (refused["code"], refused["help"]) == ("forbidden", help_of("permission"))


def test_a_tenant_has_the_keys_of_its_own_space(tenant: httpx.Client, operator: httpx.Client) -> None:
    own = made(tenant)["info"]
    assert own["space"] == "acme" and {each["space"] for each in tenant.get("/keys").json()["keys"]} == {"acme"}
    other = made(operator)["info"]
    assert tenant.delete(f"/keys/{other['name']}").status_code == 404
    for answer in (
        tenant.post("/keys", json={"role": "admin", "space": "default"}),
        tenant.get("/keys", params={"space": "default"}),
        tenant.delete(f"/keys/{other['name']}", params={"space": "default"}),
    ):
        assert answer.status_code == 403


def test_an_operator_gives_a_space_its_first_key(server: Served, operator: httpx.Client) -> None:
    told = made(operator, role="admin", space="new")
    with client(server.url, told["key"]) as http:
        assert [each["name"] for each in http.get("/keys").json()["keys"]] == [told["info"]["name"]]


def test_a_repeat_makes_no_second_key(operator: httpx.Client) -> None:
    before = len(operator.get("/keys").json()["keys"])
    once = {"Idempotency-Key": "k"}
    answers = [operator.post("/keys", json={"role": "reader"}, headers=once) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert len(operator.get("/keys").json()["keys"]) == before + 1


def names(operator: httpx.Client) -> list[str]:
    return [key["name"] for key in operator.get("/keys").json()["keys"]]


def test_a_repeat_after_it_was_revoked_does_not_bring_a_key_back(operator: httpx.Client) -> None:
    once = {"Idempotency-Key": "k"}
    told = operator.post("/keys", json={"role": "reader"}, headers=once).json()
    operator.delete(f"/keys/{told['info']['name']}")
    before = names(operator)
    answer = operator.post("/keys", json={"role": "reader"}, headers=once)
    assert (answer.status_code, answer.json()["code"]) == (409, "key_made")
    assert names(operator) == before


def test_two_admins_may_choose_the_same_id_for_a_key(operator: httpx.Client, tenant: httpx.Client) -> None:
    for http in (operator, tenant):
        answer = http.post("/keys", json={"role": "reader"}, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 200


@pytest.mark.parametrize("other", [{"role": "writer"}, {"label": "b"}, {"space": "new"}])
def test_another_key_under_the_same_id_is_refused_as_any_other_content_is(
    operator: httpx.Client, other: dict[str, Any]
) -> None:
    body, once = {"role": "reader", "label": "a"}, {"Idempotency-Key": "k"}
    assert operator.post("/keys", json=body, headers=once).status_code == 200
    before = listed(operator)
    answer = operator.post("/keys", json=body | other, headers=once)
    assert answer.status_code == 422 and "used before with other content" in answer.json()["error"]
    assert listed(operator) == before


ODD: tuple[dict[str, Any], ...] = (
    {},
    {"role": "king"},
    {"role": "reader", "space": "strongroom:keys"},
    {"role": "reader", "label": "x" * 999},
)


@pytest.mark.parametrize("body", ODD)
def test_what_is_no_key_is_refused(operator: httpx.Client, body: dict[str, Any]) -> None:
    before = listed(operator)
    assert operator.post("/keys", json=body).status_code == 422
    assert listed(operator) == before


def test_a_key_tells_when_this_worker_last_let_it_in_and_nothing_is_written_for_it(
    server: Served, operator: httpx.Client
) -> None:
    told = made(operator)

    def used() -> str | None:
        page = operator.get("/keys").json()
        [moment] = [each["used_at"] for each in page["keys"] if each["name"] == told["info"]["name"]]
        assert moment is None or moment >= page["since"]
        return moment  # type: ignore[no-any-return]

    assert used() is None
    with client(server.url, told["key"]) as http:
        http.get("/runs")
        first = used()
        assert first is not None and used() == first
        http.get("/runs")
    assert (used() or "") > first


def test_the_refusal_to_show_a_key_again_has_what_every_conflict_has(operator: httpx.Client) -> None:
    for _ in range(2):
        answer = operator.post("/keys", json={"role": "reader"}, headers={"Idempotency-Key": "twice"})
    told = answer.json()
    assert {name: told.get(name, "missing") for name in ("expected", "actual")} == {"expected": None, "actual": None}
