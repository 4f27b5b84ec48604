"""A real server on a free port of this machine: in a thread, or in processes of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from strongroom.opening import open_async_store
from strongroom.server.app import create_app, use_store
from strongroom.server.keys import Keys
from strongroom.server.running import Connection
from strongroom.server.settings import Settings

PATIENCE_SECONDS = 300  # a limit for what hangs, not for what is slow


class Served:
    """A server in a thread of this process."""

    def __init__(self, settings: Settings) -> None:
        self.app = create_app(settings)
        config = uvicorn.Config(self.app, host="127.0.0.1", port=0, log_level="error", lifespan="on", http=Connection)
        self._server = uvicorn.Server(config)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.002)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def reset(self, url: str) -> None:
        """Exchange the store for another one, as if the server had just started."""
        self.do(self._exchange(url))

    async def _exchange(self, url: str) -> None:
        await self.app.state.changes.close()
        await self.app.state.upkeep.close()
        await self.app.state.store.close()
        use_store(self.app, await open_async_store(url))

    def key(self, space: str = "default", role: str = "admin") -> str:
        """Make a key."""
        text: str = self.do(Keys(self.app.state.store).create(space=space, role=role))[0]
        return text

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.app.state.shutdown.begun.set)
        self._server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the server did not stop"


@contextmanager
def served(url: str = "memory://", **settings: Any) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Settings(url=url, **{"requests_per_second": 1e9, "backups": folder, **settings}))
        try:
            yield server
        finally:
            server.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """`uvicorn strongroom.server:app`, as a user would start it."""

    def __init__(self, store: Path, *, port: int | None = None, workers: int = 1, **environment: str) -> None:
        for _ in range(5):
            self._start(store, port or free_port(), workers, environment)
            if self._comes_up():
                return
            self.kill()
            if port or "address already in use" not in self.log.read_text():
                break
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def _start(self, store: Path, port: int, workers: int, environment: dict[str, str]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = store.parent / f"server-{port}.log"
        command = [sys.executable, "-m", "uvicorn", "strongroom.server:app", "--port", str(port)]
        environment = {"STRONGROOM_REQUESTS_PER_SECOND": "1000000", **environment}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--workers", str(workers)],
                env={**os.environ, "STRONGROOM_URL": str(store), **environment},
                cwd=store.parent,
                stdout=log,
                stderr=log,
            )

    def _comes_up(self) -> bool:
        end = time.monotonic() + PATIENCE_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            if self._ready():
                return True
            time.sleep(0.02)
        return False

    @property
    def pid(self) -> int:
        return self._process.pid

    def _ready(self) -> bool:
        # Somebody else may have taken the port meanwhile, and would answer: ours says when it has it.
        if f":{self.port} " not in self.log.read_text():
            return False
        try:
            return httpx.get(f"{self.url}/ready", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def process(store: Path, **options: Any) -> Iterator[Process]:
    started = Process(store, **options)
    try:
        yield started
    finally:
        if started._process.poll() is None:
            started.stop()
