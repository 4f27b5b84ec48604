"""Serve the real application with the fixtures of the conformance tool: `python -m tests.mcp.conformance.serve`.

Prints its address and serves until its input is closed.
"""

from __future__ import annotations

import sys
import tempfile

from strongroom.server import assistants
from tests.mcp.conformance.fixtures import with_fixtures
from tests.server.serving import served


def main() -> None:
    real = assistants.create_server
    assistants.create_server = lambda: with_fixtures(real())
    with tempfile.TemporaryDirectory() as folder, served(f"{folder}/agent.db") as server:
        print(f"{server.url}/mcp", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
