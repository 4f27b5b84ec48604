"""Who comes in: keys, tokens of somebody else, and whoever sits at this machine."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.requests import HTTPConnection

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.opening import open_async_store
from strongroom.server import gate, sse
from strongroom.server.keys import Keys
from strongroom.server.limits import Rates
from strongroom.server.oidc import KEPT_SECONDS, PAUSE_SECONDS, IssuerKeys
from strongroom.server.settings import Settings, from_environment, is_loopback
from strongroom.store import AsyncStore
from tests.conftest import STORES
from tests.server.conftest import client
from tests.server.serving import Served, served

ISSUER, AUDIENCE = "https://issuer.example", "strongroom"


def test_without_keys_this_machine_is_let_in(alone: httpx.Client) -> None:
    assert alone.get("/runs").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"X-Real-IP": "10.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Proto": "https"},
        {"Via": "1.1 proxy"},
        {"Origin": "evil://localhost"},
        {"Host": "[[::1]]"},
        {"Host": "localhost:80:80"},
        {"Host": "localhost:"},
        {"Host": "127.0.0.1]"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Host": "me@localhost"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer srk_nobody.secret"},
        {"Authorization": "Bearer x.y.z"},
    ],
    ids=str,
)
def test_without_keys_nobody_else_is(alone: httpx.Client, headers: dict[str, str]) -> None:
    assert alone.get("/runs", headers=headers).status_code == 401


def test_the_first_key_closes_the_door_at_once(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as started, client(started.url) as http:
        assert http.get("/runs").status_code == 200
        with client(started.url, started.key()) as known:
            assert (http.get("/runs").status_code, known.get("/runs").status_code) == (401, 200)


@pytest.mark.parametrize("address", [kind for kind in STORES if kind != "memory"], indirect=True)
def test_the_first_key_closes_the_door_of_every_worker_at_once(address: str) -> None:
    with served(address) as first, served(address) as second, client(first.url) as one, client(second.url) as other:
        assert (one.get("/runs").status_code, other.get("/runs").status_code) == (200, 200)
        with open_async(address) as (store, do):  # as `strongroom keys create` does it
            do(Keys(store).create(space="default", role="admin"))
        assert (one.get("/runs").status_code, other.get("/runs").status_code) == (401, 401)


def test_whoever_follows_without_a_key_sees_nothing_that_comes_after_the_first_one(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as started, client(started.url) as http:
        run = http.post("/runs", json={"objective": "x"}).json()["run_id"]
        with http.stream("GET", f"/runs/{run}/follow") as following:
            lines = following.iter_lines()
            assert "id: 1" in [next(lines) for _ in range(3)]
            with client(started.url, started.key()) as known:
                told = {"type": "ERROR", "payload": {"error_type": "e", "message": "secret"}}
                assert known.post(f"/runs/{run}/events", json=told).status_code == 200
            assert "secret" not in "".join(lines)  # which end


@contextmanager
def open_async(address: str) -> Iterator[tuple[AsyncStore, Callable[[Coroutine[Any, Any, Any]], Any]]]:
    with asyncio.Runner() as runner:
        store = runner.run(open_async_store(address))
        try:
            yield store, runner.run
        finally:
            runner.run(store.close())  # type: ignore[arg-type]


def test_a_revoked_key_is_useless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REMEMBER_SECONDS", 0.0)
    with served(str(tmp_path / "a.db")) as started:
        key = started.key()
        with client(started.url, key) as http:
            assert http.get("/runs").status_code == 200
            started.do(Keys(started.app.state.store).revoke(key.removeprefix("srk_").split(".")[0]))
            assert http.get("/runs").status_code == 401


STREAMS = ("/runs/r/follow", "/sessions/s/follow", "/threads/t/follow", "/changes?watch=run:r")


def write_everywhere(http: httpx.Client, text: str) -> None:
    for path, body in (
        ("/runs/r/events", {"type": "ERROR", "payload": {"error_type": "e", "message": text}}),
        ("/sessions/s/messages", {"messages": [{"role": "user", "content": text}]}),
        ("/threads/t/slots", {"payload": text, "from_id": "a"}),
        ("/runs", {"objective": "x", "run_id": text}),
    ):
        assert http.post(path, json=body).status_code == 200


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("told", [True, False])
def test_a_stream_ends_with_the_key_that_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, told: bool
) -> None:
    """`told`: this worker revokes it. Otherwise another one does, and the five seconds are over."""
    monkeypatch.setattr(gate, "REMEMBER_SECONDS", 1e9 if told else 0.0)
    with served(str(tmp_path / "a.db")) as started, client(started.url, started.key()) as admin:
        key = started.key(role="reader")
        name = key.removeprefix("srk_").split(".")[0]
        admin.post("/runs", json={"objective": "x", "run_id": "r"})
        write_everywhere(admin, "before")
        with client(started.url, key) as http, http.stream("GET", path) as following:
            lines = following.iter_lines()
            while not next(lines).startswith("id: "):
                pass
            if told:
                assert admin.delete(f"/keys/{name}").status_code == 200
            else:
                started.do(Keys(started.app.state.store).revoke(name))
            write_everywhere(admin, "secret")
            for line in lines:  # which end
                assert "secret" not in line


def test_a_silent_stream_ends_with_its_key_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    with served(str(tmp_path / "a.db")) as started, client(started.url, started.key()) as admin:
        key = started.key(role="reader")
        with client(started.url, key) as http, http.stream("GET", "/threads/t/follow") as following:
            lines = following.iter_lines()
            next(lines)
            assert admin.delete(f"/keys/{key.removeprefix('srk_').split('.')[0]}").status_code == 200
            assert len(list(islice(lines, 2_000))) < 2_000  # they end


async def test_a_key_that_is_revoked_while_it_is_looked_for_is_not_remembered() -> None:
    store = OnLoop(MemoryStore())
    asked, gone = gate.Gate(store, Settings()), Keys(store)
    key, stored = await gone.create(space="default", role="admin")

    class Slow(Keys):
        async def find(self, text: str) -> Any:
            found = await super().find(text)
            await gone.revoke(stored.name)  # and its worker is told, before this answer comes
            asked.forget()
            return found

    asked._keys = Slow(store)
    request = HTTPConnection({"type": "http", "headers": [(b"authorization", f"Bearer {key}".encode())]})
    caller = await asked.admit(request, "read")
    asked._keys = gone
    assert not await asked.still_admits(request, caller)


def test_revoking_the_last_key_lets_nobody_in(tmp_path: Path) -> None:
    address = str(tmp_path / "a.db")
    with open_async(address) as (store, do):
        _, stored = do(Keys(store).create(space="default", role="admin"))
        do(Keys(store).revoke(stored.name))
    with served(address) as started, client(started.url) as http:
        assert http.get("/runs").status_code == 401
    with served(address, no_keys=True) as started, client(started.url) as http:
        assert http.get("/runs").status_code == 200
        started.key()
        assert http.get("/runs").status_code == 401


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Idempotency-Key"])
def test_a_header_that_decides_is_given_once(alone: httpx.Client, name: str) -> None:
    lines = ["GET /runs HTTP/1.1", f"{name}: localhost", f"{name}: localhost", "Connection: close", "", ""]
    with socket.create_connection((alone.base_url.host, alone.base_url.port or 80), timeout=60) as raw:
        raw.sendall("\r\n".join(lines).encode())
        answer = raw.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400") and b"header_twice" in answer


def test_credentials_that_were_wrong_are_not_remembered(alone: httpx.Client, tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db")) as started:
        good, gate = started.key(), started.app.state.gate
        with client(started.url) as http:
            for number in range(20):
                http.get("/runs", headers={"Authorization": f"Bearer srk_{number:012}.{'x' * 5000}"})
            assert gate._known == {}
            http.get("/runs", headers={"Authorization": f"Bearer {good}"})
        assert [len(digest) for digest in gate._known] == [32] and good not in repr(gate._known)


def test_an_address_that_is_wrong_all_the_time_is_slowed_down(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db")) as started, client(started.url, "srk_nobody.secret") as wrong:
        started.app.state.gate._wrong = Rates(0.5, clock=lambda: 0.0)
        assert [wrong.get("/runs").status_code for _ in range(8)] == [401] * 5 + [429] * 3
        with client(started.url, started.key()) as known:
            assert known.get("/runs").status_code == 200


def test_a_secret_is_stored_nowhere(tmp_path: Path) -> None:
    with served(str(tmp_path / "a.db")) as started:
        key = started.key()
        with client(started.url, key) as http:
            http.get("/runs")
    secret = key.split(".")[1].encode()
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert secret not in written and key.removeprefix("srk_").split(".")[0].encode() in written


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *[(host, True) for host in ("127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9")],
        *[(host, False) for host in ("0.0.0.0", "10.0.0.1", "example.org", "", "localhost.evil.org")],
    ],
)
def test_what_counts_as_this_machine(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


def test_a_setting_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="STRONGROOM_MAX_STREAMS"):
        from_environment({"STRONGROOM_MAX_STREAMS": "many"})


# ---- tokens ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signer() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def published(signer: rsa.RSAPrivateKey) -> Iterator[str]:
    """The address where an issuer publishes its key."""
    jwk = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signer.public_key())), "kid": "k1", "use": "sig"}
    body = json.dumps({"keys": [jwk]}).encode()

    class Published(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    issuer = HTTPServer(("127.0.0.1", 0), Published)
    thread = threading.Thread(target=issuer.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{issuer.server_port}/keys"
    issuer.shutdown()
    issuer.server_close()


@pytest.fixture(scope="module")
def trusting(published: str) -> Iterator[Served]:
    with served(jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_keys_url=published) as started:
        yield started


def claims(**changes: Any) -> dict[str, Any]:
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ana",
        "exp": int(time.time()) + 600,
        "strongroom_space": "acme",
        "strongroom_role": "writer",
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def status(server: Served, token: str) -> int:
    with client(server.url, token) as http:
        return http.post("/runs", json={"objective": "x"}).status_code


class Later(datetime):
    """The clock by which tokens expire, put forward."""

    by = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.by


def test_a_stream_ends_when_the_token_that_opened_it_expires(
    trusting: Served, signer: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(gate, "REMEMBER_SECONDS", 0.0)
    monkeypatch.setattr("jwt.api_jwt.datetime", Later)
    monkeypatch.setattr(Later, "by", timedelta())
    token = jwt.encode(claims(), signer, "RS256", headers={"kid": "k1"})
    with client(trusting.url, token) as http, http.stream("GET", "/threads/t/follow") as following:
        lines = following.iter_lines()
        assert (following.status_code, next(lines)) == (200, "retry: 1000")
        Later.by = timedelta(seconds=601)
        assert len(list(islice(lines, 4_000))) < 4_000  # they end


def test_a_good_token_opens_the_space_it_names(trusting: Served, signer: rsa.RSAPrivateKey) -> None:
    token = jwt.encode(claims(), signer, "RS256", headers={"kid": "k1"})
    other = jwt.encode(claims(strongroom_space="other"), signer, "RS256", headers={"kid": "k1"})
    with client(trusting.url, token) as acme, client(trusting.url, other) as stranger:
        run = acme.post("/runs", json={"objective": "x"}).json()["run_id"]
        assert acme.get(f"/runs/{run}").status_code == 200
        assert stranger.get(f"/runs/{run}").status_code == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"strongroom_space": None},
        {"strongroom_space": ""},
        {"strongroom_space": "strongroom:keys"},
        {"strongroom_space": 7},
        {"strongroom_role": "god"},
        {"strongroom_role": ["admin"]},
    ],
    ids=str,
)
def test_a_token_that_proves_too_little_is_refused(
    trusting: Served, signer: rsa.RSAPrivateKey, changes: dict[str, Any]
) -> None:
    assert status(trusting, jwt.encode(claims(**changes), signer, "RS256", headers={"kid": "k1"})) == 401


def test_a_role_in_a_token_is_a_role(trusting: Served, signer: rsa.RSAPrivateKey) -> None:
    reader = jwt.encode(claims(strongroom_role=None), signer, "RS256", headers={"kid": "k1"})
    assert status(trusting, reader) == 403


def test_a_token_of_somebody_else_is_refused(trusting: Served, signer: rsa.RSAPrivateKey) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for token in (
        jwt.encode(claims(), forger, "RS256", headers={"kid": "k1"}),
        jwt.encode(claims(), signer, "RS256", headers={"kid": "k2"}),
        jwt.encode(claims(), "", "none", headers={"kid": "k1"}),
        jwt.encode(claims(), ec.generate_private_key(ec.SECP256R1()), "ES256", headers={"kid": "k1"}),
        jwt.encode(claims(), "a shared secret is no signature of the issuer", "HS256", headers={"kid": "k1"}),
    ):
        assert status(trusting, token) == 401


class Issuer:
    """An issuer that publishes what it is told to, and the time."""

    def __init__(self, *names: str) -> None:
        self.names: tuple[str, ...] | None = names
        self.asked, self.now = 0, 0.0
        self.keys = IssuerKeys(self.fetch, lambda: self.now)

    def fetch(self) -> list[jwt.PyJWK]:
        self.asked += 1
        if self.names is None:
            raise OSError
        return [jwt.PyJWK({"kty": "oct", "k": "AAAA", "kid": name}, "HS256") for name in self.names]


def test_a_new_key_of_the_issuer_is_fetched_when_a_token_names_it() -> None:
    issuer = Issuer("old")
    assert issuer.keys.get("old") and issuer.keys.get("new") is None
    issuer.names, issuer.now = ("old", "new"), PAUSE_SECONDS + 1
    assert issuer.keys.get("new") and issuer.asked == 2


def test_names_that_are_made_up_do_not_trouble_the_issuer() -> None:
    issuer = Issuer("old")
    assert [issuer.keys.get(f"made-up-{number}") for number in range(100)] == [None] * 100
    assert issuer.asked == 1


def test_a_key_the_issuer_has_taken_back_is_forgotten() -> None:
    issuer = Issuer("old", "stolen")
    assert issuer.keys.get("stolen")
    issuer.names, issuer.now = ("old",), KEPT_SECONDS + 1
    assert issuer.keys.get("stolen") is None and issuer.keys.get("old")


def test_while_the_issuer_is_away_what_it_said_last_holds() -> None:
    issuer = Issuer("old")
    assert issuer.keys.get("old")
    issuer.names, issuer.now = None, KEPT_SECONDS + 1
    assert issuer.keys.get("old") and issuer.keys.get("new") is None
    issuer.names, issuer.now = ("new",), 2 * KEPT_SECONDS
    assert issuer.keys.get("new")


def test_half_an_issuer_is_a_mistake() -> None:
    from strongroom.server.oidc import TokenVerifier

    with pytest.raises(ValueError, match="STRONGROOM_JWT_AUDIENCE"):
        TokenVerifier(Settings(jwt_keys_url="http://localhost/keys", jwt_issuer=ISSUER))
