"""Documented commands, run by a shell against the documented server, and the answers that were documented for them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.compat.documents import ours
from tests.missing import NotHad, had_or_skip
from tests.servers.valkey import free_port

PATIENCE_SECONDS = 60


class Shell:
    """A folder and a time zone to run commands in."""

    def __init__(self, folder: Path, zone: str) -> None:
        self._folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        # What curl is told besides: say nothing of its progress, and the status of the answer on a line of its own.
        (folder / ".curlrc").write_text('silent\nnoproxy = "*"\nwrite-out = "%{stderr}%{http_code}\\n"\n')
        self._environment = {**os.environ, "TZ": zone, "PATH": path, "CURL_HOME": str(folder)}
        self._server: subprocess.Popen[bytes] | None = None

    def serve(self, environment: str, command: str) -> None:
        """Start a server in an environment, on a port that is free, and wait until it answers."""
        had_or_skip(_curl)
        self._address = f"127.0.0.1:{free_port()}"
        script = f"{environment}\n{ours(command, port=self._address.split(':')[1])}\n"
        with (self._folder / "server.log").open("wb") as log:
            self._server = subprocess.Popen(
                ["sh", "-c", script],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # with its reloader, and ended with it
            )
        end = time.monotonic() + PATIENCE_SECONDS
        while self._curl(f"http://{self._address}/health").returncode:
            assert time.monotonic() < end and self._server.poll() is None, (self._folder / "server.log").read_text()
            time.sleep(0.05)

    def run(self, block: str, filled: dict[str, str]) -> tuple[str, Any]:
        """Run a block and return the last status and the JSON that was said."""
        wanted = {name: meant for name, meant in filled.items() if name != "batch_id" or "batch_" in block}
        if "{run_id}" not in block:
            wanted.pop("run_id", None)
        done = self._sh(ours(block, address=self._address, **wanted))
        return done.stderr.split()[-1], json.loads(done.stdout)

    def _sh(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-ec", script], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=True
        )

    def _curl(self, url: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["curl", url], env=self._environment, capture_output=True)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGTERM)
            self._server.wait(PATIENCE_SECONDS)


def _curl() -> None:
    if shutil.which("curl") is None:
        raise NotHad("curl", "nothing of that name is on the path")


def answer_of(text: str) -> Any:
    """Return a documented answer, without the dots that stand for more of the same."""
    whole = re.sub(r"^\s*\.\.\.\s*$", "", text, flags=re.MULTILINE)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", whole))


def agrees(documented: Any, said: Any) -> bool:
    """Tell whether an answer has all that was documented. Of an id or a path only its form is."""
    if isinstance(documented, dict):
        return isinstance(said, dict) and all(
            name in said and agrees(value, said[name]) for name, value in documented.items()
        )
    if isinstance(documented, list):
        return isinstance(said, list) and len(said) == len(documented) and all(map(agrees, documented, said))
    if isinstance(documented, str) and documented.endswith("..."):
        return isinstance(said, str) and said.startswith(documented.split("_")[0] + "_")
    if isinstance(documented, str) and documented.endswith(".zip"):
        one, other = Path(documented), Path(said)
        forms = [
            (path.parent.name, path.name.split("_")[0], "_resume_" in path.name, path.suffix) for path in (one, other)
        ]
        return forms[0] == forms[1] and other.is_file()
    return bool(documented == said)
