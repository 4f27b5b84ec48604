"""The page is live: what others write shows up by itself, and a broken stream heals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import strongroom
from strongroom.blocking import Context
from strongroom.console.sample import fill
from tests.browser.test_screens import one_store
from tests.server.serving import Process, free_port

Visit = Callable[..., Any]


def test_an_update_of_another_process_shows_up_by_itself(visit: Visit, ctx: Context) -> None:
    page = visit("runs/invoices-q3")
    page.get_by_text("State now").wait_for()
    page.get_by_text("Live", exact=True).first.wait_for()
    run = ctx.runs.get("invoices-q3")
    run.update(expected_seq=run.seq, next_action="write to the last customer")
    page.get_by_text("write to the last customer").first.wait_for()


@one_store
def test_a_message_of_another_process_shows_up_by_itself(visit: Visit, ctx: Context) -> None:
    page = visit("sessions/support-7")
    page.get_by_text("Live", exact=True).first.wait_for()
    ctx.sessions.open("support-7").append({"role": "user", "content": "Is it on its way by now?"})
    page.get_by_text("Is it on its way by now?").first.wait_for()


@one_store
def test_a_proposal_of_another_process_shows_up_by_itself(visit: Visit, ctx: Context) -> None:
    page = visit("review")
    page.get_by_text("1 of 6").wait_for()
    page.get_by_text("Live", exact=True).first.wait_for()
    ctx.memories.propose(
        {"op": "add", "type": "fact", "scope": "global", "content": "The shop closes at six", "rationale": "its door",
         "confidence": 0.9, "source_refs": []}, proposer="agent-7",
    )  # fmt: skip
    page.get_by_text("The shop closes at six").first.wait_for()


@one_store
def test_the_script_of_the_guide_to_web_applications_hears_of_a_message(visit: Visit, ctx: Context) -> None:
    page, guide = visit("overview"), Path(__file__).parents[2] / "docs" / "how-to" / "web.md"
    [script] = re.findall(r"```js\n(.*?)```", guide.read_text(), re.DOTALL)
    page.evaluate("() => { window.show = (id) => document.body.append(`heard of ${id}`); }")
    page.evaluate(f"() => new Promise((done) => {{ {script} changes.addEventListener('start', () => done()); }})")
    ctx.sessions.open("support-7").append({"role": "user", "content": "Is it on its way by now?"})
    page.get_by_text("heard of support-7").wait_for()


@one_store
def test_a_tab_follows_one_stream_whatever_it_shows(visit: Visit) -> None:
    page, asked = visit("overview"), list[str]()
    page.get_by_text("Live", exact=True).first.wait_for()
    page.on("request", lambda request: asked.append(request.url))
    for screen in ("review", "threads", "memory", "files", "operations", "overview"):
        page.evaluate("where => { location.hash = '#/' + where; }", screen)
        page.locator(f'nav a.{screen}[aria-current="page"]').wait_for()
    page.get_by_text("need a person").wait_for()
    assert asked and not any("/changes" in url for url in asked)


def test_a_restarted_server_is_found_again_and_nothing_is_missed(browser: Any, tmp_path: Path) -> None:
    store, port = tmp_path / "agent.db", free_port()
    with strongroom.open(store) as ctx:
        fill(ctx)
        first = Process(store, port=port)
        page = browser.new_page()
        page.goto(f"{first.url}/#/runs/invoices-q3")
        page.get_by_text("State now").wait_for()
        page.get_by_text("Live", exact=True).first.wait_for()
        first.kill()
        page.get_by_text("The stream broke").wait_for()
        run = ctx.runs.get("invoices-q3")
        run.update(expected_seq=run.seq, next_action="written while nobody listened")
        second = Process(store, port=port)
        page.get_by_text("written while nobody listened").first.wait_for()
        page.get_by_text("Live", exact=True).first.wait_for()
        page.close()
        second.stop()
