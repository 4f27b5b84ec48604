"""Whoever connects to the wrong place hears that it is the address, and nobody gets an error of another library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import strongroom
from strongroom.cli.root import cli
from strongroom.errors import InvalidInput, SchemaMismatch
from tests.server.serving import Served, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.mark.parametrize("path", ["/api", "/runs", "/mcp", "/docs", "/console/", "/store", "/sessions/s"])
async def test_a_path_in_a_server_is_no_address_of_one(server: Served, path: str) -> None:
    told = f"{server.url}{path.rstrip('/')} is not the address of a Strongroom server"
    with pytest.raises(SchemaMismatch) as refused:
        strongroom.connect(server.url + path)
    assert str(refused.value).startswith(told) and refused.value.reason == "http"
    with pytest.raises(SchemaMismatch) as refused:
        await strongroom.aconnect(server.url + path)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("more", ["?space=a", "/?x", "#a", "/\ud800?"])
async def test_what_cannot_be_an_address_is_refused(server: Served, more: str) -> None:
    for address in (server.url + more, "http://\ud800", "http://a:b"):
        with pytest.raises(InvalidInput, match="address"):
            strongroom.connect(address)
        with pytest.raises(InvalidInput, match="address"):
            await strongroom.aconnect(address)


@pytest.mark.parametrize("port", [0, 65536, 99999])
async def test_a_port_that_cannot_be_is_refused_before_anybody_is_asked(port: int) -> None:
    with pytest.raises(InvalidInput, match=f"there is no port {port}"):
        strongroom.connect(f"http://127.0.0.1:{port}")
    with pytest.raises(InvalidInput, match=f"there is no port {port}"):
        await strongroom.aconnect(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("key", ["\ud800", "srk_\u00e9", "a\nb", "ab\n", "ab ", " ab"])
async def test_what_cannot_be_a_key_is_refused_and_not_shown(server: Served, key: str) -> None:
    with pytest.raises(InvalidInput, match="a key is printable ASCII") as refused:
        strongroom.connect(server.url, key=key)
    assert repr(key)[1:-1] not in str(refused.value)
    with pytest.raises(InvalidInput, match="a key is printable ASCII"):
        await strongroom.aconnect(server.url, key=key)


@pytest.mark.parametrize("key", ["", " ", "\n"])
async def test_an_empty_key_is_said_to_be_empty(server: Served, key: str) -> None:
    with pytest.raises(InvalidInput, match="the key is empty"):
        strongroom.connect(server.url, key=key)
    with pytest.raises(InvalidInput, match="the key is empty"):
        await strongroom.aconnect(server.url, key=key)


def test_an_empty_variable_is_no_key_in_a_terminal(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONGROOM_API_KEY", "")
    told = CliRunner().invoke(cli, ["--url", server.url, "runs", "list"])
    assert told.exit_code == 0, told.output


def test_a_key_of_spaces_is_said_to_be_empty_in_a_terminal(server: Served) -> None:
    told = CliRunner().invoke(cli, ["--url", server.url, "--key", " ", "runs", "list"])
    assert "the key is empty" in str(told.exception)


def test_half_a_character_is_refused_before_it_is_sent(server: Served) -> None:
    with strongroom.connect(server.url) as ctx:
        for ask in (ctx.runs.list, ctx.sessions.list, ctx.threads.list, ctx.files.list, ctx.memories.list):
            with pytest.raises(InvalidInput) as refused:
                ask(after="\ud800")
            assert "nothing changed" not in str(refused.value)
