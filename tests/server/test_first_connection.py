"""The first connection: a wrong address is told soon, refused TLS at once; an outage that comes later is ridden out."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import strongroom
from strongroom.client.retry import PATIENCE_SECONDS, SILENT_SECONDS, Request, Retry
from strongroom.client.store import HttpStore
from strongroom.errors import CommitUnknown, Unavailable
from tests.server.serving import served

UNAVAILABLE = b'{"code": "unavailable", "error": "starting"}'


class Door:
    """A listener that counts who comes, and turns everybody away: in plain text, or after TLS with its certificate."""

    def __init__(self, context: ssl.SSLContext | None = None, answer: bytes = b"") -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self._context, self._answer = context, answer
        self.port = self._door.getsockname()[1]
        self.came = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            self.came += 1
            with suppress(OSError), caller:
                if self._context is not None:
                    self._context.wrap_socket(caller, server_side=True).close()
                else:
                    caller.recv(65536)
                    caller.sendall(self._answer)

    def close(self) -> None:
        self._door.close()


@contextmanager
def door(context: ssl.SSLContext | None = None, answer: bytes = b"") -> Iterator[Door]:
    made = Door(context, answer)
    yield made
    made.close()


def of_nobody(folder: Path) -> ssl.SSLContext:
    """Return what a server needs for a certificate that no authority has signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    path = folder / "nobody.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_refused_port_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SILENT_SECONDS < PATIENCE_SECONDS / 2
    monkeypatch.setattr("strongroom.client.store.SILENT_SECONDS", 1.0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        told = f"{url} did not answer for 1 second .*is the address right, http or https"
        with pytest.raises(Unavailable, match=told) as missing:
            strongroom.connect(url)
        with pytest.raises(Unavailable, match=told):
            await strongroom.aconnect(url)
    assert missing.value.reason == "unreachable"


async def test_https_where_there_is_no_tls_is_told_at_the_first_try() -> None:
    with door(answer=b"HTTP/1.1 400 Bad Request\r\n\r\n") as plain:
        told = r"does not speak TLS as this machine does \(\w+\): is it http:// there\?"
        with pytest.raises(Unavailable, match=told) as refused:
            strongroom.connect(f"https://127.0.0.1:{plain.port}", retry_seconds=60)
        with pytest.raises(Unavailable, match=told):
            await strongroom.aconnect(f"https://127.0.0.1:{plain.port}", retry_seconds=60)
        assert (refused.value.reason, plain.came) == ("tls", 2)


async def test_a_certificate_that_is_not_accepted_is_told_at_the_first_try(tmp_path: Path) -> None:
    with door(of_nobody(tmp_path)) as stranger:
        told = r"its certificate is not accepted \(self.signed certificate\)"
        with pytest.raises(Unavailable, match=told) as refused:
            strongroom.connect(f"https://127.0.0.1:{stranger.port}", retry_seconds=60)
        with pytest.raises(Unavailable, match=told):
            await strongroom.aconnect(f"https://127.0.0.1:{stranger.port}", retry_seconds=60)
        assert (refused.value.reason, stranger.came) == ("tls", 2)


def test_a_handshake_that_is_cut_off_may_heal() -> None:
    with door() as cut:
        with pytest.raises(Unavailable) as refused:
            strongroom.connect(f"https://127.0.0.1:{cut.port}", retry_seconds=0.5)
        assert refused.value.reason == "unreachable" and cut.came > 1


# ---- deciding -------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_whoever_has_never_answered_is_tried_for_a_moment() -> None:
    clock = Clock()
    life = Retry(Request("/store"), 15.0, clock, silent_seconds=1.0)
    assert life.lost(OSError(), sent=False) == 0
    clock.now = 1.5
    with pytest.raises(Unavailable, match="did not answer for 2 seconds"):
        life.lost(OSError(), sent=False)


def test_the_last_try_comes_when_the_time_that_was_named_is_over() -> None:
    clock, tries = Clock(), 0
    life = Retry(Request("/store"), 3.0, clock)
    with pytest.raises(Unavailable, match="did not answer for 3 seconds"):
        while True:
            clock.now += life.lost(OSError(), sent=False)
            tries += 1
    assert clock.now == pytest.approx(3.0) and tries > 3


def test_whoever_is_told_to_come_back_later_than_it_waits_gives_up_at_once() -> None:
    life = Retry(Request("/store"), 3.0, Clock())
    with pytest.raises(Unavailable):
        life.answered(503, {"retry-after": "10"}, UNAVAILABLE)


def test_whoever_answered_that_it_is_not_ready_is_waited_for() -> None:
    clock = Clock()
    life = Retry(Request("/store"), 15.0, clock, silent_seconds=1.0)
    assert life.answered(503, {}, UNAVAILABLE) is not None
    clock.now = 5.0
    assert life.lost(OSError(), sent=False) > 0


def test_whoever_has_answered_once_is_waited_for() -> None:
    with served("memory://") as server, strongroom.connect(server.url) as ctx:
        assert isinstance(ctx.store, HttpStore)
        life = ctx.store._retry(Request("/store/read"))
        assert [life.lost(OSError(), sent=True) for _ in range(8)][-1] > 1  # all of it within its patience


def test_a_commit_that_may_have_arrived_before_tls_was_refused_is_unknown() -> None:
    life = Retry(Request("/store/commit", commit_id="c"), 15.0)
    life.lost(OSError(), sent=True)
    problem = OSError()
    problem.__cause__ = ssl.SSLCertVerificationError(1, "expired")
    problem.__cause__.verify_message = "certificate has expired"
    with pytest.raises(CommitUnknown):
        life.lost(problem, sent=False)
