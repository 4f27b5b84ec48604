"""`strongroom serve` as a process of its own: what it says, where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from strongroom.errors import InvalidInput
from strongroom.opening import open_async_store
from strongroom.server.keys import Keys
from strongroom.server.running import run
from tests.server.serving import PATIENCE_SECONDS
from tests.sqlite.test_group_commit import wait_for


class Served:
    """One `strongroom serve --json`, whose address is what it announced."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "strongroom", "serve", "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=folder,
            env={name: text for name, text in os.environ.items() if not name.startswith("STRONGROOM_")},
        )
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def get(self, path: str, *, retries: int = 0) -> httpx.Response:
        with httpx.Client(transport=httpx.HTTPTransport(retries=retries), timeout=PATIENCE_SECONDS) as client:
            return client.get(self.url + path)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C, and return the exit code and the log."""
        self.interrupt()
        code = self._process.wait(PATIENCE_SECONDS)
        self._log.seek(0)
        return code, self._log.read()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()  # not kill: its workers would stay
        self._process.communicate(timeout=PATIENCE_SECONDS)
        self._log.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(stack: ExitStack, folder: Path, *options: str) -> Served:
    served = Served(folder, *options)
    stack.callback(served.close)
    return served


def test_a_header_without_end_is_not_taken(tmp_path: Path, stack: ExitStack) -> None:
    host, port = serve(stack, tmp_path).url.removeprefix("http://").split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        try:
            while sent < 64 * 1024 * 1024:
                sent += raw.send(b"x" * 65536)
            answer = raw.recv(1000)
        except OSError:
            answer = b"HTTP/1.1 431"  # it hung up while we were sending
    assert sent < 64 * 1024 * 1024 and answer.startswith(b"HTTP/1.1 431")


def test_a_server_whose_keys_are_all_revoked_serves_this_machine_only_when_told(
    tmp_path: Path, stack: ExitStack
) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(open_async_store(str(tmp_path / "agent.db")))
        _, stored = runner.run(Keys(store).create(space="default", role="admin"))
        runner.run(Keys(store).revoke(stored.name))
        runner.run(store.close())  # type: ignore[arg-type]
    assert serve(stack, tmp_path).get("/runs").status_code == 401
    assert serve(stack, tmp_path, "--no-keys").get("/runs").status_code == 200


def test_whoever_hears_the_address_can_connect_at_once(tmp_path: Path, stack: ExitStack) -> None:
    assert serve(stack, tmp_path).get("/ready").status_code == 200


def test_workers_share_the_port_that_was_announced(tmp_path: Path, stack: ExitStack) -> None:
    assert serve(stack, tmp_path, "--workers", "2").get("/ready", retries=10).status_code == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_version_6_can_be_used_as_it_is_told(tmp_path: Path, stack: ExitStack) -> None:
    served = serve(stack, tmp_path, "--host", "::1")
    assert served.url.startswith("http://[::1]:")
    assert served.get("/ready").status_code == 200


@pytest.mark.parametrize("options", [(), ("--json",), ("--workers", "2")])
def test_a_port_that_is_taken_is_one_line_and_nothing_is_announced(tmp_path: Path, options: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "strongroom", "serve", "--port", str(port), *options]
        refused = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_SECONDS)
    told = f"strongroom: cannot listen on 127.0.0.1, port {port}: Address already in use; is another"
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert refused.stderr.startswith(told)


@pytest.mark.parametrize("options", [(), ("--json",), ("--workers", "2")])
@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"STRONGROOM_URL": "/no/such/folder/x.db"}, "/no/such/folder"),
        ({"STRONGROOM_URL": "ftp://x"}, "no store is known for ftp:// addresses"),
        ({"STRONGROOM_EMBEDDER": "no-such-embedder"}, "no-such-embedder"),
    ],
)
def test_what_keeps_it_from_starting_is_told_in_words_and_nothing_is_announced(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], told: str
) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "strongroom", "serve", "--port", "0", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={name: text for name, text in os.environ.items() if not name.startswith("STRONGROOM_")} | environment,
        timeout=PATIENCE_SECONDS,
    )
    first, *others = refused.stderr.splitlines()
    assert refused.returncode in (1, 3) and refused.stdout == ""
    assert first.startswith("strongroom: ") and told in first
    assert all(line.startswith("strongroom: why, and what to do: ") for line in others) and len(others) < 2


def test_a_request_is_a_line_in_the_log_without_what_was_asked(tmp_path: Path, stack: ExitStack) -> None:
    served = serve(stack, tmp_path)
    answer = served.get("/memories/search?q=rosebud")
    code, log = served.stop()
    [line] = log.splitlines()
    assert code == 0
    assert f"INFO {answer.headers['x-request-id']} GET /memories/search {answer.status_code} " in line
    assert "rosebud" not in line


def test_the_log_can_be_silent(tmp_path: Path, stack: ExitStack) -> None:
    served = serve(stack, tmp_path, "--log-level", "warning")
    served.get("/ready")
    assert served.stop() == (0, "")


def test_a_second_ctrl_c_ends_it_at_once_without_a_traceback(tmp_path: Path, stack: ExitStack) -> None:
    served = serve(stack, tmp_path, "--log-level", "warning")
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as unfinished:
        unfinished.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        served.get("/ready")
        served.interrupt()  # it waits for the request to be over
        wait_for(lambda: _refuses(host, int(port)))
        assert served.stop() == (128 + signal.SIGINT, "")


def _refuses(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, "\0", "\udc80", "1.2.3.4.5"])
def test_a_host_that_is_none_is_refused_in_words(host: str) -> None:
    with pytest.raises(InvalidInput, match="cannot listen on"):
        run(host, 0, workers=1, log_level="info", announce=pytest.fail)
