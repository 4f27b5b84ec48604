"""Pictures of the console for docs/console.md and the README: `python -m docs.pictures`, after `make browser`.

A day of agents is written into a store in a temporary folder, served, and looked at in Chromium, light and dark.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.server.serving import process

import strongroom
from strongroom.console.sample import fill

SCREENS = Path(__file__).parent / "screens"
SHOWN = {
    "overview": ("overview", "need a person"),
    "review": ("review", "Reads like an instruction"),
    "run": ("runs/invoices-q3", "State now"),
    "session": ("sessions/support-7?budget=700", "The next prompt"),
    "memory": ("memory/bank-speed", "Where it comes from"),
    "threads": ("threads", "Threads and workers"),
    "operations": ("operations", "may lose nothing"),
}


def take(browser: Browser, url: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    for name, (where, text) in SHOWN.items():
        page.goto(f"{url}/#/{where}")
        page.get_by_text(text).first.wait_for()
        page.wait_for_load_state("load")
        page.screenshot(path=SCREENS / f"console-{name}-{scheme}.png", animations="disabled")
    page.close()


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium here: make browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        store = Path(folder) / "agent.db"
        with strongroom.open(store) as ctx:
            fill(ctx)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with process(store) as server:
            for scheme in ("light", "dark"):
                take(browser, server.url, scheme)
        browser.close()


if __name__ == "__main__":
    main()
