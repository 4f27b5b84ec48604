"""A client of few lines for a real `strongroom mcp` process: JSON over pipes, several calls under way at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


class Line:
    """One process, and what is said to it. Speaks 2025-11-25."""

    def __init__(self, url: Path | str, *arguments: str, **more: str) -> None:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), "STRONGROOM_URL": str(url), **more}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "strongroom", "mcp", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self._next = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "line", "version": "1"}}
        self.send("initialize", hello)

    def ready(self) -> Line:
        """Wait for the handshake."""
        assert self.read()["result"]["serverInfo"]["name"] == "strongroom"
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Ask without waiting; return the number that the answer will carry."""
        self._next += 1
        self._write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def call(self, tool: str, **arguments: Any) -> int:
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def read(self) -> dict[str, Any]:
        """Return the next answer, or {} at the end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line.endswith(b"\n") else {}

    def close(self) -> int:
        """Close its input, which ends it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code

    def kill(self) -> list[dict[str, Any]]:
        """Kill it now, and return what it had still answered."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait(30)
        answers = list(iter(self.read, {}))
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return answers

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
