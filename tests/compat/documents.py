"""The four documents of the older systems, as their users have them, and the examples in them.

They are not ours, so they are not in this repository: `STRONGROOM_TEST_DOCUMENTS` names the folder they are in. Of an
example only what cannot be the same is changed: the line that imports the package, and what a reader must fill in.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from tests.missing import not_here

FOLDER = Path(os.environ.get("STRONGROOM_TEST_DOCUMENTS") or Path(__file__).parents[3] / "shared" / "spec")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^(\s*(?:from|import) )(aos_context|contextstore|xml_pipeline|agentserver)\b", re.MULTILINE)

# What each document says and the others do not.
KNOWN_BY = {
    "aos_context": ("# AoS Context Module", "aos_context.ws_manager"),
    "contextstore": ("# ContextStore", "from contextstore import"),
    "agentserver": ("class ThreadContext", "agentserver.message_bus"),
    "xml_pipeline": ("class ThreadContext", "xml_pipeline.message_bus"),
}


class Block(NamedTuple):
    """One fenced block of a document."""

    language: str
    text: str


def document(package: str) -> str:
    """Return the document about a package, or skip the test, loudly."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.txt"))]
    found = [text for text in texts if all(sign in text for sign in KNOWN_BY[package])]
    if not found:
        not_here(f"the document about {package}", "STRONGROOM_TEST_DOCUMENTS names the folder of such documents")
    return found[0]


def blocks(package: str) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    return [Block(found[1], found[2]) for found in FENCE.finditer(document(package))]


def ours(text: str, **placeholders: str) -> str:
    """Return an example with its import line changed, and what it leaves open filled in."""
    for written, meant in placeholders.items():
        assert PLACEHOLDERS[written] in text
        text = text.replace(PLACEHOLDERS[written], meant)
    return IMPORT.sub(r"\1strongroom.compat.\2", text)


# What a reader must fill in, as it is written.
PLACEHOLDERS = {
    "address": "127.0.0.1:8000",
    "port": "8000",
    "root": "/path/to/runs",
    "app": "server:app",
    "run_id": "{run_id}",
    "batch_id": "batch_xyz789...",
    "redis": "redis://localhost:6379",
}


def unpiped(package: str) -> list[str]:
    """Return the lines of a document that came out of a table: each has bars below it and has lost its indent."""
    return [line for line in document(package).splitlines() if line.strip() not in ("", "|")]


def usage(package: str) -> tuple[str, str]:
    """Return the two examples in the text at the head of the later buffer: of one process, and of several on Redis."""
    lines = unpiped(package)
    begin = lines.index("Usage:")
    several = next(n for n, line in enumerate(lines) if n > begin and "multi-process" in line)
    end = lines.index('"""', several)
    return "\n".join(lines[begin + 1 : several]), "\n".join(lines[several + 1 : end])
