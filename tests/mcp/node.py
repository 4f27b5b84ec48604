"""The two tools from npm, where `make mcp-conformance` put them: Node 22, the conformance tool, the inspector."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.missing import not_here

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 300
BIN = ROOT / ".mcp" / "node_modules" / ".bin"


def run(
    tool: str, *arguments: str, timeout_seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a tool, or skip the test loudly if it is not here."""
    if not (BIN / tool).exists() or not (BIN / "node").exists():
        not_here(f"{tool} for MCP, with Node 22,", "`make mcp-conformance` installs it into .mcp/")
    known = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(sys.path),
        "HOME": os.environ.get("HOME", "/"),
    }
    return subprocess.run(
        [str(BIN / tool), *arguments], env=known | environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
