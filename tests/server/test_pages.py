"""The documentation for people comes from this server alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from strongroom.server.app import create_app
from strongroom.server.settings import Settings
from tests.server.conftest import client
from tests.server.serving import served


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("pages")
    with served(str(folder / "agent.db")) as server, client(server.url) as made:
        yield made


def named_in(page: str) -> list[str]:
    return re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page)


def test_the_page_names_nothing_outside_this_server(http: httpx.Client) -> None:
    assert "//" not in re.sub(r"<!--.*?-->", "", http.get("/docs").text)


def test_all_that_the_page_names_is_served(http: httpx.Client) -> None:
    named = ["".join(pair) for pair in named_in(http.get("/docs").text)]
    assert len(named) == 4  # a script, a style, an icon and the description
    assert [http.get(path).status_code for path in named] == [200] * 4


def test_a_browser_may_load_nothing_from_elsewhere(http: httpx.Client) -> None:
    policy = http.get("/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'")


def test_the_console_is_at_the_root_and_names_only_files_of_this_server(http: httpx.Client) -> None:
    page = http.get("/")
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [http.get(f"/{path}").status_code for path in named] == [200] * 3
    assert "require-trusted-types-for 'script'" in page.headers["content-security-policy"]


def test_the_console_loads_less_than_200_kb_before_it_paints(http: httpx.Client) -> None:
    loaded, waiting = {"console/style.css": 0, "": 0}, ["console/app/main.js"]
    while waiting:
        path = waiting.pop()
        if path not in loaded:
            text = http.get(f"/{path}").text
            loaded[path] = 0
            waiting += [str(PurePosixPath(path).parent / name) for name in re.findall(r'from "\./([^"]+)"', text)]
            waiting += ["console/vendor/htm-preact.js"] * ("../vendor/htm-preact.js" in text)
    assert sum(len(http.get(f"/{path}").content) for path in loaded) < 200_000


def test_the_page_is_found_where_older_servers_had_it(http: httpx.Client) -> None:
    assert http.get("/redoc").text == http.get("/docs").text


async def test_below_another_path_the_page_names_what_is_there(tmp_path: Path) -> None:
    outer = Starlette(routes=[Mount("/memory", create_app(Settings(url=str(tmp_path / "agent.db"))))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://localhost") as http:
        page = (await http.get("/memory/docs")).text
    assert all("".join(pair).startswith("/memory/") for pair in named_in(page))
