"""Starts a server for the examples, on a free port of this machine, with a store that is thrown away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def server() -> Iterator[str]:
    """Run `uvicorn strongroom.server:app` for the time of a block and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "uvicorn",
            "strongroom.server:app",
            "--port",
            str(port),
            "--log-level",
            "warning",
        ]
        environment = {**os.environ, "STRONGROOM_URL": str(Path(folder) / "agent.db")}
        process = subprocess.Popen(command, env=environment, cwd=folder)
        try:
            _wait_until_ready(url, process)
            yield url
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            if httpx.get(f"{url}/ready", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise SystemExit("the server did not start; pip install 'strongroom[server]'")
