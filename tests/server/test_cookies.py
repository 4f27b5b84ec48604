"""A key that a browser keeps: as good as the key in a header for pages of this server, and for nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from strongroom.server import gate
from strongroom.server.keys import Keys
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from tests.server.conftest import ROLES, client
from tests.server.samples import request
from tests.server.serving import PATIENCE_SECONDS, Served, served
from tests.server.test_roles import name

OTHER = "https://evil.example"
GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.right is not None]
BY_COOKIE = [endpoint for endpoint in GUARDED if endpoint.path != "/sign-in"]  # which takes the key in a header
WRITING = [endpoint for endpoint in GUARDED if endpoint.method != "GET"]
ELSEWHERE: tuple[dict[str, str], ...] = (
    {"Origin": OTHER},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},  # a neighbour on the same domain
)


def signed_in(server: Served, key: str, origin: str | None = None) -> httpx.Client:
    """A browser that keeps the key: it sends the cookie and no header."""
    with client(server.url, key) as http:
        answer = http.post("/sign-in", headers={"Origin": origin or server.url})
    assert answer.status_code == 200
    pair = answer.headers["set-cookie"].split(";")[0]
    return httpx.Client(base_url=server.url, headers={"Cookie": pair}, trust_env=False, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def browsers(shared: Served) -> Iterator[dict[str, httpx.Client]]:
    made = {role: signed_in(shared, shared.key("default", role)) for role in ROLES}
    yield made
    for one in made.values():
        one.close()


# ---- who is let in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", BY_COOKIE, ids=name)
def test_for_pages_of_this_server_a_kept_key_is_as_good_as_one_in_a_header(
    endpoint: Endpoint, role: str, shared: Served, browsers: dict[str, httpx.Client], roles: dict[str, httpx.Client]
) -> None:
    browser = browsers[role]
    browser.headers["Origin"] = shared.url
    try:
        status, _ = request(browser, endpoint)
    finally:
        del browser.headers["Origin"]
    assert (status in (401, 403)) == (request(roles[role], endpoint)[0] in (401, 403))


@pytest.mark.parametrize("endpoint", WRITING, ids=name)
def test_what_could_change_something_must_say_that_a_page_of_ours_asks(
    endpoint: Endpoint, browsers: dict[str, httpx.Client]
) -> None:
    assert request(browsers["admin"], endpoint)[0] == 403


@pytest.mark.parametrize("said", ELSEWHERE, ids=str)
@pytest.mark.parametrize("line", ["GET /runs", "POST /runs", "GET /changes", "POST /mcp", "GET /me"])
def test_no_page_of_another_site_rides_on_it(
    line: str, said: dict[str, str], browsers: dict[str, httpx.Client]
) -> None:
    method, path = line.split()
    assert browsers["admin"].request(method, path, json={"objective": "x"}, headers=said).status_code == 403


@pytest.mark.parametrize("said", [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}], ids=str)
def test_a_person_may_open_an_address_that_only_reads(said: dict[str, str], browsers: dict[str, httpx.Client]) -> None:
    assert browsers["reader"].get("/runs", headers=said).status_code == 200


def test_what_the_browser_says_of_the_page_decides_where_a_proxy_renames_the_host(
    shared: Served, roles: dict[str, httpx.Client]
) -> None:
    said = {"Origin": "https://shop.example", "Sec-Fetch-Site": "same-origin"}
    pair = kept(roles["writer"], **said)[0]
    with client(shared.url) as browser:
        answer = browser.post("/runs", json={"objective": "x"}, headers={**said, "Cookie": pair})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "https://shop.example", "Host": "shop.example"},
        {"X-Forwarded-Proto": "https"},
        {"Host": "shop.example", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_over_https_a_cookie_that_a_neighbour_could_have_set_is_not_taken(shared: Served, said: dict[str, str]) -> None:
    key, named = shared.key("default", "reader"), "strongroom" if "Host" in said else cookie_name(shared)
    with client(shared.url) as browser:
        tossed = browser.get("/me", headers={**said, "Cookie": f"{named}={key}"})
        own = browser.get("/me", headers={**said, "Cookie": f"__Host-{named}={key}"})
    assert (tossed.status_code, own.status_code) == (401, 200)


def test_a_header_counts_more_than_a_cookie(shared: Served, browsers: dict[str, httpx.Client]) -> None:
    key = shared.key("elsewhere", "writer")
    told = browsers["reader"].get("/me", headers={"Authorization": f"Bearer {key}"}).json()
    assert (told["space"], told["role"], told["kept"]) == ("elsewhere", "writer", False)


@pytest.mark.parametrize(
    "cookie", ["srk_nobody.secret", "nonsense", "srk_a.b; {name}=srk_a.b", '"', "srk_" + "a" * 5_000]
)
def test_a_cookie_that_is_no_key_opens_nothing(cookie: str, shared: Served, browsers: dict[str, httpx.Client]) -> None:
    named = cookie_name(shared)
    with client(shared.url) as http:
        answer = http.get("/runs", headers={"Cookie": f"{named}={cookie.format(name=named)}"})
    assert answer.status_code == 401


def test_wrong_keys_in_cookies_are_counted_too(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as server, client(server.url) as http:
        server.key()
        guess = {"Cookie": f"{cookie_name(server)}=srk_nobody.secret"}
        assert {http.get("/runs", headers=guess).status_code for _ in range(80)} == {401, 429}


def test_two_headers_of_cookies_are_refused(shared: Served) -> None:
    with client(shared.url) as http:
        answer = http.get("/runs", headers=[("Cookie", "a=1"), ("Cookie", "b=2")])
    assert (answer.status_code, answer.json()["code"]) == (400, "header_twice")


def test_without_keys_a_cookie_of_somebody_else_is_no_trouble(alone: httpx.Client) -> None:
    for _ in range(80):
        assert alone.get("/runs", headers={"Cookie": "strongroom=srk_a.b"}).status_code == 200
    port = alone.base_url.port
    told = alone.get("/me", headers={"Cookie": f"strongroom-{port}=srk_a.b"}).json()
    assert (told["keyless"], told["kept"]) == (True, False)


# ---- how it is kept -------------------------------------------------------------------------------------------------


def cookie_name(server: Served) -> str:
    return f"strongroom-{server.url.rpartition(':')[2]}"


def kept(http: httpx.Client, **headers: str) -> list[str]:
    return [part.strip() for part in http.post("/sign-in", headers=headers).headers["set-cookie"].split(";")]


def test_no_script_reads_it_and_no_other_site_has_it_sent(shared: Served, admin: httpx.Client) -> None:
    pair, *flags = kept(admin, Origin=shared.url)
    assert pair.startswith(f"{cookie_name(shared)}=srk_")
    assert flags == ["Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Strict"]


def test_over_https_it_is_for_https_and_this_host_alone(admin: httpx.Client) -> None:
    pair, *flags = kept(admin, Origin="https://shop.example", Host="shop.example")
    assert pair.startswith("__Host-strongroom=srk_") and "Secure" in flags


def test_the_one_for_https_is_taken_before_another(shared: Served, admin: httpx.Client) -> None:
    key, other = shared.key("a", "reader"), shared.key("b", "reader")
    cookies = f"strongroom={other}; __Host-strongroom={key}"
    with client(shared.url) as http:
        assert http.get("/me", headers={"Cookie": cookies, "Host": "shop.example"}).json()["space"] == "a"


def test_a_page_of_another_site_signs_nobody_in_or_out(admin: httpx.Client) -> None:
    for said in ELSEWHERE:
        for path in ("/sign-in", "/sign-out"):
            answer = admin.post(path, headers=said)
            assert answer.status_code == 403 and "set-cookie" not in answer.headers


def test_only_a_key_in_a_header_is_kept(alone: httpx.Client, browsers: dict[str, httpx.Client], shared: Served) -> None:
    for http, origin in ((alone, str(alone.base_url)), (browsers["admin"], shared.url)):
        answer = http.post("/sign-in", headers={"Origin": origin.rstrip("/")})
        assert answer.status_code == 422 and "set-cookie" not in answer.headers


def test_signing_out_drops_it_however_it_was_kept(shared: Served, browsers: dict[str, httpx.Client]) -> None:
    answer = browsers["admin"].post("/sign-out", headers={"Origin": shared.url})
    dropped = answer.headers.get_list("set-cookie")
    assert [re.split("[=;]", each)[:2] for each in dropped] == [
        [f"__Host-{cookie_name(shared)}", ""],
        [cookie_name(shared), ""],
    ]
    assert all("Max-Age=0" in each for each in dropped)


def test_nothing_about_it_is_stored(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as server:
        key = server.key()
        before = everything(server)
        with signed_in(server, key) as browser:
            assert browser.get("/me").json()["kept"] is True
        assert everything(server) == before
        assert key.partition(".")[2].encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("a.db*"))


def everything(server: Served) -> Any:
    return server.do(server.app.state.store.unload(None, 1_000))


# ---- when it ends ---------------------------------------------------------------------------------------------------


def revoke(server: Served, key: str) -> None:
    server.do(Keys(server.app.state.store).revoke(key.removeprefix("srk_").split(".")[0]))


def test_it_ends_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REMEMBER_SECONDS", 0.0)
    with served(str(tmp_path / "a.db")) as server:
        key = server.key()
        with signed_in(server, key) as browser:
            assert browser.get("/runs").status_code == 200
            revoke(server, key)
            assert browser.get("/runs").status_code == 401


def test_where_it_is_revoked_it_ends_at_once_and_a_stream_with_it(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as server, client(server.url, server.key()) as admin:
        key = server.key("default", "reader")
        with signed_in(server, key) as browser, browser.stream("GET", "/changes") as following:
            lines = following.iter_lines()
            assert "event: start" in [next(lines) for _ in range(4)]
            assert admin.delete(f"/keys/{key.removeprefix('srk_').split('.')[0]}").status_code == 200
            admin.post("/runs", json={"objective": "x", "run_id": "secret"})
            assert "secret" not in "".join(lines)  # which end
            assert browser.get("/runs").status_code == 401
