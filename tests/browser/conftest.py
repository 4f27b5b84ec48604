"""A browser, a server with a day of agents in its store, and pages that tolerate no error of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.console.sample import fill
from tests.missing import NotHad, had_or_skip
from tests.server.serving import Served, served

AXE = Path(__file__).parents[2] / ".browser" / "package" / "axe.min.js"
WATCH = """
window.violations = [];
const seen = (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`);
document.addEventListener("securitypolicyviolation", seen);
"""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def _browser() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NotHad("Chromium", "the package playwright is not installed") from None
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        raise NotHad("Chromium", "it is not installed; `make browser` does that")
    driver = sync_playwright().start()
    return driver, driver.chromium.launch(executable_path=path, args=FLAGS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for each file: while it is driven, its event loop is this thread's, and no other test could have one."""
    driver, opened = had_or_skip(_browser)
    yield opened
    opened.close()
    driver.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "agent.db")
    url: str = request.getfixturevalue("postgres")
    return url


@pytest.fixture
def ctx(store_url: str) -> Iterator[Context]:
    """The store as another process has it: what it writes reaches the page only through the server."""
    with strongroom.open(store_url) as opened:
        fill(opened)
        yield opened


@pytest.fixture
def server(store_url: str, ctx: Context) -> Iterator[Served]:
    with served(store_url) as started:
        yield started


@pytest.fixture
def visit(browser: Any, server: Served) -> Iterator[Callable[..., Any]]:
    """Open screens. Any error of the page, or anything that the policy had to stop, fails the test at its end."""
    contexts: list[Any] = []
    problems: list[str] = []

    def go(where: str = "", **options: Any) -> Any:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)  # a limit for what hangs, not for what is slow
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{server.url}/#/{where}")
        return page

    yield go
    for context in contexts:
        for page in context.pages:
            problems += page.evaluate("window.violations ?? []")
        context.close()
    assert problems == []


@pytest.fixture
def axe() -> str:
    """The checker of accessibility, as text."""

    def read() -> str:
        if not AXE.exists():
            raise NotHad("axe-core", "it is not there; `make browser` gets it from npm")
        return AXE.read_text()

    if os.environ.get("CI") == "true" and shutil.which("npm") is None:
        pytest.skip("axe-core could not be had: there is no npm here")
    return had_or_skip(read)
