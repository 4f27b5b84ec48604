"""Every screen shows what is stored, in both schemes and at both widths, without an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.blocking import Context

SCREENS = {
    "overview": "need a person",
    "review": "Replace policy",
    "runs": "nightly-import",
    "runs/invoices-q3": "Find customers who were charged twice",
    "sessions": "Where is my parcel?",
    "sessions/support-7": "Charged twice in July",
    "memory": "approval of a person",
    "files": "/handover/refunds.md",
    "files/%2Fhandover%2Frefunds.md": "refund bank fees together",
    "threads": "the mail server did not answer",
    "operations": "Slowest calls",
}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {**PHONE, "color_scheme": "light"},
}
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

Visit = Callable[..., Any]
one_store = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


def test_every_screen_shows_what_is_stored(visit: Visit) -> None:
    page = visit()
    for screen, text in SCREENS.items():
        page.evaluate("where => { location.hash = '#/' + where; }", screen)
        page.get_by_text(text).first.wait_for()


@one_store
def test_a_screen_is_reached_by_its_address(visit: Visit) -> None:
    page = visit("runs/invoices-q3?tab=artifacts")
    page.get_by_text("refund-list.json").first.wait_for()


@one_store
@pytest.mark.parametrize("look", LOOKS)
def test_no_screen_makes_the_page_scroll_sideways(visit: Visit, look: str) -> None:
    page = visit(**LOOKS[look])
    for screen, text in SCREENS.items():
        page.evaluate("where => { location.hash = '#/' + where; }", screen)
        page.get_by_text(text).first.wait_for()
        assert not page.evaluate(SIDEWAYS), screen


@one_store
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_to_complain_about(visit: Visit, axe: str, look: str) -> None:
    page = visit(**LOOKS[look])
    found = []
    for screen, text in SCREENS.items():
        page.evaluate("where => { location.hash = '#/' + where; }", screen)
        page.get_by_text(text).first.wait_for()
        found += [f"{screen}: {one}" for one in violations(page, axe)]
    assert found == []


@one_store
def test_axe_finds_nothing_at_the_door_and_in_dialogs(visit: Visit, axe: str, server: Any) -> None:
    page = visit("memory?as_of=2001-02-03")
    page.get_by_text("What was known when").wait_for()
    found = []
    for key, title in (("w", "Saved views"), ("?", "Keyboard")):
        page.keyboard.press(key)
        page.get_by_role("dialog", name=title).wait_for()
        found += violations(page, axe)
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
    server.key()
    page.get_by_role("textbox", name="Key").wait_for()
    assert found + violations(page, axe) == []


def violations(page: Any, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((result) => result.violations)")
    return [f"{one['id']} at {one['nodes'][0]['html'][:120]}" for one in found]


WHAT_TO_TYPE = {
    "overview": "strongroom demo --serve",
    "review": "strongroom memories pending",
    "runs": "strongroom demo --serve",
    "sessions": "strongroom demo --serve",
    "memory": "strongroom memories add",
    "files": "strongroom files write",
    "threads": "strongroom worker program:dispatcher",
}


@one_store
def test_an_empty_store_tells_what_to_type(visit: Visit, server: Any, tmp_path: Any) -> None:
    server.reset(str(tmp_path / "empty.db"))
    page = visit("overview")
    for screen, command in WHAT_TO_TYPE.items():
        page.evaluate("where => { location.hash = '#/' + where; }", screen)
        page.locator(f"nav a.{screen}[aria-current]").wait_for()
        page.get_by_text(command).wait_for()


@one_store
def test_the_state_of_an_earlier_step_is_one_key_away(visit: Visit) -> None:
    page = visit("runs/invoices-q3")
    page.get_by_text("State now").wait_for()
    page.keyboard.press("[")
    page.get_by_role("heading", name="State at step 12").wait_for()
    assert "seq=12" in page.url


def test_a_rolled_back_run_has_one_update_more_and_the_old_state(visit: Visit, ctx: Context) -> None:
    before = ctx.runs.get("invoices-q3").seq
    page = visit("runs/invoices-q3?seq=2")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("invoices-q3")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_text("Rolled back to step 2").wait_for()
    run = ctx.runs.get("invoices-q3")
    assert (run.seq, run.working_set.current_stage) == (before + 1, run.at(2).current_stage)


def test_the_prompt_says_how_much_was_left_out(visit: Visit) -> None:
    page = visit("sessions/support-7?budget=400")
    page.get_by_text("Did not fit").first.wait_for()
    assert page.get_by_role("slider", name="Budget").get_attribute("aria-valuetext") == "400 tokens"


def test_a_file_is_found_by_its_words_and_shown_as_it_was(visit: Visit) -> None:
    page = visit("overview")
    page.get_by_role("combobox", name="Search everything").fill("islands")
    page.get_by_role("option", name="islands").click()
    page.get_by_role("heading", name="/handover/carriers.md").wait_for()
    page.evaluate("location.hash = '#/files/%2Fhandover%2Frefunds.md?version=1'")
    page.get_by_text("Ask a person before any refund.").wait_for()


def test_revoking_a_memory_shows_what_falls_with_it_and_takes_it_along(visit: Visit, ctx: Context) -> None:
    page = visit("memory/bank-speed")
    page.get_by_role("button", name="Revoke 3").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("promise-days").wait_for()
    dialog.get_by_label("Reason").fill("the bank has changed")
    dialog.get_by_role("button", name="Revoke 3 for good").click()
    page.get_by_text("Revoked 3 memories").wait_for()
    fallen = ("bank-speed", "refund-days", "promise-days")
    assert {ctx.memories.get(id).status for id in fallen} == {"revoked"}


def test_a_dead_letter_is_delivered_again(visit: Visit, ctx: Context) -> None:
    page = visit("threads")
    page.get_by_text("the mail server did not answer").first.wait_for()
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("Every message was handled").wait_for()
    page.get_by_role("row", name="mail.send").get_by_text("1", exact=True).first.wait_for()


def test_a_check_tells_that_all_is_well_and_how_large_each_space_is(visit: Visit) -> None:
    page = visit("operations")
    page.get_by_text("A check counts what is in every space").wait_for()
    page.get_by_role("button", name="Check now").click()
    page.get_by_text("Everything is as it was written").wait_for()
    row = page.get_by_role("group", name="Spaces").get_by_role("row", name="default")
    assert row.get_by_role("cell").nth(1).inner_text() == "6"
    page.evaluate("location.hash = '#/overview'")
    page.get_by_text("6 runs, 5 sessions and 8 memories").wait_for()
    page.get_by_text("6 ledgers verified").wait_for()
