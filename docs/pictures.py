"""Pictures of the console for docs/console.md and the README: `python -m docs.pictures`, after `make browser`.

A day of agents is written into a store in a temporary folder, served, checked, copied, and looked at in Chromium, light
and dark. Keys are made last, since nobody is let in without one from then on.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, Request, sync_playwright
from tests.server.serving import process

from strongroom.console.sample import write_day

SCREENS = Path(__file__).parent / "screens"
SHOWN = {
    "overview": ("overview", "need a person"),
    "review": ("review", "Reads like an instruction"),
    "run": ("runs/invoices-q3", "State now"),
    "session": ("sessions/support-7?budget=500", "The next prompt"),
    "memory": ("memory/promise-days", "Edited and accepted"),
    "threads": ("threads", "Threads and workers"),
}
OPERATING = {"operations": ("operations", "may lose nothing")}
KEYS = (("ana's laptop", "admin"), ("billing-agent", "writer"), ("night reviewers", "reviewer"), ("wall", "reader"))


def take(browser: Browser, url: str, scheme: str, shown: dict[str, tuple[str, str]], key: str | None = None) -> None:
    page = browser.new_page(
        viewport={"width": 1280, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
        extra_http_headers={} if key is None else {"Authorization": f"Bearer {key}"},
    )
    pending: set[Request] = set()
    page.on("request", lambda request: pending.add(request))
    page.on("requestfinished", lambda request: pending.discard(request))
    page.on("requestfailed", lambda request: pending.discard(request))
    for name, (where, text) in shown.items():
        page.goto(f"{url}/#/{where}")
        page.get_by_text(text).first.wait_for()
        settle(page, pending)
        page.screenshot(path=SCREENS / f"console-{name}-{scheme}.png", animations="disabled")
    page.close()


def settle(page: Page, pending: set[Request]) -> None:
    """Wait until nothing but the stream is on its way, a few times in a row."""
    quiet = 0
    while quiet < 4:
        page.wait_for_timeout(100)
        quiet = 0 if any("/changes" not in request.url for request in pending) else quiet + 1


def operate(url: str) -> None:
    """Have the store checked and copied, one after the other."""
    for work in ("check", "backup"):
        httpx.post(f"{url}/upkeep/{work}").raise_for_status()
        while httpx.get(f"{url}/upkeep").json()["running"]:
            time.sleep(0.1)


def make_keys(url: str) -> str:
    """Make keys, and return the first."""
    first = ""
    for label, role in KEYS:
        headers = {"Authorization": f"Bearer {first}"} if first else {}
        made = httpx.post(f"{url}/keys", json={"label": label, "role": role}, headers=headers).json()
        first = first or made["key"]
    return first


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium here: make browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        store = Path(folder) / "agent.db"
        write_day(str(store))
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with process(store) as server:
            operate(server.url)
            for scheme in ("light", "dark"):
                take(browser, server.url, scheme, SHOWN)
            key = make_keys(server.url)
            for scheme in ("light", "dark"):
                take(browser, server.url, scheme, OPERATING, key)
        browser.close()


if __name__ == "__main__":
    main()
