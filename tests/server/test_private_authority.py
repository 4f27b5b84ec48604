"""A server whose certificate an authority of one's own has signed: by an option, or by what every program goes by."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import strongroom
from strongroom.errors import InvalidInput, Unavailable
from tests.server.serving import served

PEM = serialization.Encoding.PEM


class Line(NamedTuple):
    url: str
    ca_file: str


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A server behind a proxy that speaks TLS."""
    folder = tmp_path_factory.mktemp("authority")
    with served() as server, relayed(int(server.url.rpartition(":")[2]), signed(folder)) as port:
        yield Line(f"https://127.0.0.1:{port}", str(folder / "ca.pem"))


def signed(folder: Path) -> ssl.SSLContext:
    """Make an authority, whose certificate is `ca.pem`; return what a server needs for one that it has signed."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    alone = x509.BasicConstraints(ca=True, path_length=None)
    (folder / "ca.pem").write_bytes(certificate("authority", authority, authority, alone).public_bytes(PEM))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(secret + certificate("server", key, authority, here).public_bytes(PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def certificate(name: str, key: Any, authority: Any, extension: x509.ExtensionType) -> x509.Certificate:
    subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, "authority"))
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(extension, critical=True)
    # Python 3.13 wants to be told by which key it was signed, and that an authority may sign.
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    made = made.add_extension(signer, critical=False)
    if key is authority:
        may = dict.fromkeys(("digital_signature", "key_cert_sign", "crl_sign"), True)
        rest = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
        made = made.add_extension(x509.KeyUsage(**may, **dict.fromkeys((*rest, "decipher_only"), False)), critical=True)
    return made.sign(authority, hashes.SHA256())


@contextmanager
def relayed(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Relay TLS connections to a port, in a thread; give the port where they are taken."""
    ready, told = threading.Event(), dict[str, Any]()

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
        finally:
            target.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.CancelledError):  # at the end
            await asyncio.gather(pump(reader, outer), pump(inner, writer))

    async def listen() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
        enough = asyncio.Event()
        loop = asyncio.get_running_loop()
        told.update(port=server.sockets[0].getsockname()[1], end=lambda: loop.call_soon_threadsafe(enough.set))
        ready.set()
        await enough.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()), daemon=True)
    thread.start()
    ready.wait()
    yield told["port"]
    told["end"]()
    thread.join()


async def test_a_certificate_of_an_authority_that_is_named_is_accepted(line: Line) -> None:
    with strongroom.connect(line.url, ca_file=line.ca_file) as ctx:
        assert ctx.sessions.open("s").id == "s"
    async with strongroom.aconnect(line.url, ca_file=Path(line.ca_file)) as there:
        assert (await there.sessions.open("s")).id == "s"


async def test_an_authority_is_named_by_the_environment_as_for_every_program(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", line.ca_file)
    with strongroom.connect(line.url) as ctx:
        assert ctx.sessions.open("s").id == "s"
    async with strongroom.aconnect(line.url) as there:
        assert (await there.sessions.open("s")).id == "s"


async def test_who_refuses_a_certificate_says_how_an_authority_is_named(line: Line) -> None:
    told = r"its certificate is not accepted \(.*\): .*ca_file=.* or SSL_CERT_FILE"
    with pytest.raises(Unavailable, match=told):
        strongroom.connect(line.url)
    with pytest.raises(Unavailable, match=told):
        await strongroom.aconnect(line.url)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_without_certificates_is_refused(line: Line, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInput, match=r"ca_file: .*ca\.pem.* nothing was opened"):
        strongroom.connect(line.url, ca_file=str(path))


def test_an_authority_goes_with_https(line: Line) -> None:
    with pytest.raises(InvalidInput, match="ca_file goes with an https:// address; nothing was opened"):
        strongroom.connect(line.url.replace("https", "http"), ca_file=line.ca_file)


def test_who_asks_as_other_libraries_do_is_told_the_name(line: Line) -> None:
    with pytest.raises(TypeError, match="ca_file"):
        strongroom.connect(line.url, verify=line.ca_file)  # type: ignore[call-arg]
