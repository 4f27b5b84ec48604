"""The code on the server's own page runs."""

from __future__ import annotations

import re
from pathlib import Path

from strongroom.server.routes import ENDPOINTS
from tests.server.serving import served

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()


def test_every_code_block_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    with served(str(tmp_path / "agent.db")) as server:
        names: dict[str, object] = {"__name__": "__main__"}
        for block in blocks:
            exec(compile(block.replace("http://127.0.0.1:8000", server.url), "server.md", "exec"), names)


def test_every_path_the_page_names_is_served() -> None:
    paths = {re.sub(r"{\w+}", "{id}", endpoint.path) for endpoint in ENDPOINTS} | {"/docs", "/openapi.json"}
    named = set(re.findall(r"`(?:[A-Z]+ )?(/[a-z/{}]+)`", PAGE)) - {"/memories/"}
    assert named and named <= paths
