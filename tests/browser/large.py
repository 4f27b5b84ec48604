"""A store with a long history, and what a browser does when it shows it.

`python -m tests.browser.large FOLDER` builds one of 100,000 events, 1,000,000 messages and 50,000 memories (some
minutes), looks at every screen and prints what it cost. The suite does the same with less: see `test_large`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode, encode

import strongroom
from strongroom.blocking import Context
from strongroom.services.memories.values import MemoryRequest
from strongroom.services.sessions.values import NewMessage
from tests.server.serving import served

STEP = 500
FEW = 100  # what one turn may hold, and a batch that a person could read

FRAMES = """async ({ selector, steps }) => {
  const pane = document.querySelector(selector) ?? document.scrollingElement;
  const times = [];
  let before = performance.now();
  for (let i = 0; i < steps; i++) {
    pane.scrollBy(0, i % 10 === 9 ? -pane.clientHeight * 8 : pane.clientHeight);
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - before);
    before = performance.now();
  }
  return times;
}"""


class Size(Struct, frozen=True):
    events: int
    messages: int
    memories: int


FULL = Size(100_000, 1_000_000, 50_000)
SMALL = Size(1_500, 3_000, 600)

# Each screen, what shows that it is there, and what of it scrolls.
SCREENS = {
    "overview": ("Active runs", ".main"),
    "runs": ("Deliver parcels", ".main"),
    "runs/long": ("parcels.find", ".ledger-box"),
    "sessions": ("A long talk", ".main"),
    "sessions/long": ("older messages", ".main"),
    "memory": ("Known now", ".inbox"),
    "memory?q=parcel": ("Known now", ".inbox"),
    "operations": ("Slowest calls", ".main"),
}


class Cost(Struct, frozen=True):
    """What a screen took: bytes and answers until it was there; the milliseconds of every task of the page's main
    thread until then and while scrolling, by the clock and by what the processor worked at it (on a busy machine a task
    waits in the middle); and of the frames of the scrolling."""

    screen: str
    bytes: int
    requests: int
    largest: int
    tasks: list[float]
    worked: list[float]
    frames: list[float]


def fill(ctx: Context, size: Size) -> None:
    """Write a history: one long run, one long session, many memories."""
    run = ctx.runs.create(objective="Deliver parcels", run_id="long")
    run.update(expected_seq=0, status="BUSY", next_action="the next parcel")
    for start in range(0, size.events, FEW):
        with ctx.turn() as turn:
            for number in range(start, min(start + FEW, size.events)):
                turn.record(run, "TOOL_CALL", {"tool_name": "parcels.find", "arguments": {"parcel": number}})
    talk = ctx.sessions.open("long", title="A long talk")
    for start in range(0, size.messages, STEP):
        talk.append([said(number) for number in range(start, min(start + STEP, size.messages))])
    for start in range(0, size.memories, FEW):
        facts = [fact(number) for number in range(start, min(start + FEW, size.memories))]
        ctx.memories.commit(ctx.memories.propose(facts, proposer="agent-7"), reviewer="ana")


def said(number: int) -> NewMessage:
    return {
        "role": "assistant" if number % 2 else "user",
        "content": f"Parcel {number} left on the {number % 28 + 1}th.",
    }


def fact(number: int) -> MemoryRequest:
    return {
        "op": "add",
        "type": "fact",
        "scope": "global",
        "content": f"Parcel shop {number} opens at {number % 12} o'clock",
        "rationale": "its door says so",
        "confidence": 0.8,
        "source_refs": [],
    }


def look(browser: Any, url: str, *, timed: bool = False) -> Iterator[Cost]:
    """Open each screen anew, as a browser that was never here does, and scroll through it."""
    for screen, (text, pane) in SCREENS.items():
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.set_default_timeout(60_000)
        answers: list[int] = []
        page.on("requestfinished", lambda request, answers=answers: answers.append(_size(request)))
        if timed:
            browser.start_tracing(page=page, categories=["toplevel", "__metadata", "devtools.timeline"])
        page.goto(f"{url}/#/{screen}")
        page.get_by_text(text).first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        costs = list(answers)
        frames = page.evaluate(FRAMES, {"selector": pane, "steps": 60}) if timed else []
        tasks = _tasks(decode(browser.stop_tracing()), url) if timed else []
        clock, worked = [each["dur"] / 1000 for each in tasks], [each.get("tdur", 0) / 1000 for each in tasks]
        yield Cost(screen, sum(costs), len(costs), max(costs), clock, worked, frames)
        context.close()


def _tasks(trace: Any, url: str) -> list[Any]:
    """Return the tasks of the main thread of the page. The browser's own pages (a new tab is one) are others."""
    events = trace["traceEvents"]
    shown = {each["pid"] for each in events if _url(each).startswith(url)}
    main = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain" and each["pid"] in shown
    }
    assert main, "the trace does not tell which process showed the page"
    return [
        each
        for each in events
        if each.get("ph") == "X" and "RunTask" in each["name"] and (each["pid"], each["tid"]) in main
    ]


def _url(event: Any) -> str:
    """Return the address that an event is about: of a page, of what it loads, of a script that runs."""
    data = event.get("args", {}).get("data")
    return str(data.get("url", "")) if isinstance(data, dict) else ""


def _size(request: Any) -> int:
    sizes = request.sizes()
    return int(sizes["responseBodySize"] + sizes["responseHeadersSize"])


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)] if values else 0.0


def built(folder: Path) -> Path:
    """Return the store of full size in a folder, made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    store, unfinished = folder / "large.db", folder / "unfinished.db"
    if not store.exists():
        with strongroom.open(unfinished, durability="relaxed") as ctx:
            fill(ctx, FULL)
        unfinished.rename(store)
    return store


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    store = built(folder)
    with served(str(store)) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        costs = list(look(browser, server.url, timed=True))
        browser.close()
    for cost in costs:
        print(f"{cost.screen:20} {cost.bytes / 1000:6.1f} kB in {cost.requests} answers,", end=" ")
        print(
            f"the largest {cost.largest / 1000:.1f}; of {len(cost.tasks)} tasks p95 {p95(cost.tasks):.1f} ms,", end=" "
        )
        print(f"longest {max(cost.tasks):.0f}, over 50 ms {sum(each > 50 for each in cost.tasks)};", end=" ")
        print(f"by work p95 {p95(cost.worked):.1f}, longest {max(cost.worked):.0f};", end=" ")
        print(f"frames p95 {p95(cost.frames):.0f} ms, worst {max(cost.frames):.0f}")
    (folder / "costs.json").write_bytes(encode(costs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
