"""The Lua scripts, and the names the server knows them by."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path


class Script:
    """A script's text and the SHA-1 that EVALSHA asks for it by."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()
        self.sha = sha1(self.text).hexdigest().encode()


def _source(*names: str) -> str:
    return "\n".join((Path(__file__).parent / name).read_text() for name in names)


COMMIT = Script(_source("common.lua", "sha256.lua", "commit.lua"))
READ = Script(_source("common.lua", "read.lua"))
