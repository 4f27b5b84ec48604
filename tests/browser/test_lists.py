"""What lists and pages show beside the things themselves: figures, what happened, and how to correct what is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.blocking import Context
from tests.browser.test_screens import one_store, violations

Visit = Callable[..., Any]


def cells(page: Any, table: str, row: str) -> list[str]:
    found = page.get_by_role("group", name=table).get_by_role("row", name=row)
    found.get_by_text("ago").or_(found.get_by_text("just now")).first.wait_for()  # figures come after the list
    return [cell.strip() for cell in found.get_by_role("cell").all_inner_texts()]


def test_a_run_in_the_list_says_who_works_at_it_and_what_it_came_to(visit: Visit) -> None:
    page = visit("runs")
    told = cells(page, "Runs", "nightly-import")
    assert "row 40,112 has 14 columns" in told[0]  # what went wrong stands where the objective does otherwise
    assert told[1:7] == ["failed", "import-agent", "2", "5", "88k", "0.662"]


@one_store
def test_runs_of_one_status_are_asked_of_the_store(visit: Visit, ctx: Context) -> None:
    for number in range(60):
        ctx.runs.create(objective="newer than all others", run_id=f"later-{number}")
    page = visit("runs?show=failed")
    page.get_by_text("nightly-import").wait_for()
    page.get_by_text("1 run; there are no more.").wait_for()


@one_store
def test_a_conversation_in_the_list_is_known_by_how_it_began(visit: Visit) -> None:
    page = visit("sessions")
    page.get_by_text("as they began, the newest first").wait_for()
    told = cells(page, "Sessions", "Where is my parcel?")
    assert "The tracking page says delivered, but nobody rang." in told[0]
    assert told[2:4] == ["2", "25"]
    page.get_by_label("Filter sessions").fill("nobody rang")
    page.get_by_text("1 of the 5 sessions").wait_for()


def test_the_first_page_counts_as_many_things_as_its_rows_do(visit: Visit) -> None:
    page = visit("overview")
    page.get_by_text("Proposals wait for review").wait_for()
    told = sum(map(int, page.locator(".need-count").all_inner_texts()))
    page.get_by_role("heading", name=f"{told} things need a person").wait_for()


def test_what_happened_before_the_page_was_opened_is_shown(visit: Visit, ctx: Context) -> None:
    page = visit("overview")
    feed = page.get_by_role("region", name="Activity")
    feed.get_by_text("calls refunds.create in invoices-q3").wait_for()
    ctx.runs.get("returns-letter").record(
        "TOOL_CALL", {"tool_name": "translate", "arguments": {}}, actor="writer-agent"
    )
    feed.get_by_text("calls translate in returns-letter").wait_for()


@one_store
def test_all_parts_of_a_run_are_there(visit: Visit) -> None:
    page = visit("runs/invoices-q3?tab=episodes")
    page.get_by_text("93 candidates found").wait_for()
    page.get_by_role("heading", name="refund list written").wait_for()
    assert page.get_by_role("tab", name="Episodes 2").count() == 1
    page.get_by_text("Verified").wait_for()
    page.get_by_role("tab", name="Usage").click()
    page.get_by_text("cards.fingerprint").wait_for()
    page.get_by_text("1 failed").wait_for()
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_label("Beginning of invoices-q3.csv").get_by_text("invoice,customer,day,amount").wait_for()


@one_store
def test_content_that_is_no_text_is_not_shown_as_text(visit: Visit, ctx: Context) -> None:
    ctx.runs.get("returns-letter").attach(b"\x89PNG\x00\x00\xff\xfe", type="text/html", path="seal.png")
    page = visit("runs/returns-letter?tab=artifacts")
    page.get_by_text("No text to show. Save it to open it.").wait_for()


@one_store
def test_a_rollback_is_undone_by_another_update(visit: Visit, ctx: Context) -> None:
    before = ctx.runs.get("invoices-q3").working_set.next_action
    page = visit("runs/invoices-q3?seq=2")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("invoices-q3")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Undone by another update").wait_for()
    assert ctx.runs.get("invoices-q3").working_set.next_action == before


def test_a_correction_is_proposed_and_changes_nothing_until_somebody_else_accepts_it(
    visit: Visit, ctx: Context
) -> None:
    page = visit("memory/bank-speed")
    page.get_by_role("button", name="Correct").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Content").fill("Banks take one working day to book a refund")
    dialog.get_by_label("Because").fill("the bank says so since May")
    dialog.get_by_role("button", name="Propose").click()
    page.get_by_text("It waits in Review for somebody else").wait_for()
    [batch] = [one for one in ctx.memories.pending() if one.proposer == "local"]
    assert ctx.memories.get("bank-speed").status == "active"
    ctx.memories.commit(batch, reviewer="ana")
    assert ctx.memories.get("bank-speed").status == "superseded"


@one_store
def test_a_filter_stays_while_proposals_are_looked_at(visit: Visit) -> None:
    page = visit("review?show=replaces")
    page.get_by_role("link", name="End fact").click()
    page.get_by_role("heading", name="End a fact").wait_for()
    assert "show=replaces" in page.url


@one_store
def test_a_proposal_is_found_by_its_words(visit: Visit) -> None:
    page = visit("overview")
    page.get_by_role("combobox", name="Search everything").fill("telephone calls")
    page.get_by_role("option", name="what it proposes").click()
    page.get_by_role("heading", name="Add a preference").wait_for()


@one_store
def test_whoever_may_only_read_is_told_so(visit: Visit, server: Any) -> None:
    key = server.key(role="reader")
    page = visit("memory/bank-speed")
    page.get_by_role("textbox", name="Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Your key may read, not change.").wait_for()
    assert page.get_by_role("button", name="Correct").count() == 0


@one_store
def test_the_whole_state_of_an_update_is_told_as_what_it_changed(visit: Visit) -> None:
    page = visit("runs/invoices-q3?type=state")
    page.get_by_role("button", name="State 6").get_by_text("blockers, constraints").wait_for()


@one_store
def test_a_prompt_leaves_room_for_the_answer(visit: Visit) -> None:
    page = visit("sessions/support-7?budget=600")
    page.get_by_role("row", name="Kept for the answer 100").wait_for()
    page.get_by_role("spinbutton", name="For the answer").fill("300")
    page.get_by_role("spinbutton", name="For the answer").press("Enter")
    page.get_by_role("row", name="Kept for the answer 300").wait_for()
    assert "reserve=300" in page.url


MOVED_BUDGET = """() => {
    const slider = document.querySelector("#budget");
    slider.value = 80;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@one_store
def test_what_is_being_typed_stays_while_the_page_is_drawn_anew(visit: Visit) -> None:
    page = visit("sessions/support-7?budget=600")
    page.get_by_role("row", name="Kept for the answer 100").wait_for()
    field = page.get_by_role("spinbutton", name="For the answer")
    field.fill("300")
    page.evaluate(MOVED_BUDGET)
    page.wait_for_function("() => !document.querySelector('output[for=budget]').textContent.includes('600')")
    assert field.input_value() == "300"


@one_store
def test_the_rules_of_a_conversation_stand_above_it_however_long_it_is(visit: Visit) -> None:
    page = visit("sessions/support-7")
    page.get_by_text("You answer customers of a parcel shop").wait_for()
    page.get_by_role("button", name="Show 80 older messages").click()
    page.get_by_text("And what about parcel 5100?").wait_for()


@one_store
def test_a_thread_says_whether_it_waits_or_is_stuck(visit: Visit) -> None:
    page = visit("threads")
    chains = page.get_by_role("region", name="Call chains")
    chains.get_by_text("waiting").first.wait_for()
    chains.get_by_text("dead").first.wait_for()


DIALOGS = {
    "review": ("r", "Reject 1 proposal"),
    "review?show=replaces": ("e", "Edit"),
    "runs/invoices-q3?seq=3": ("f", "Fork from step 3"),
}
BUTTONS = {
    "runs/invoices-q3?seq=2": ("Roll back", "Roll back to step 2"),
    "memory/bank-speed": ("Revoke 3", "Revoke, and what falls with it"),
    "memory/phone-hours": ("Erase", "Erase for good"),
    "memory/refund-days": ("Correct", "Correct"),
    "operations": ("New key", "New key"),
    "overview": ("admin of default", "Who you are"),
    "runs": ("This page as JSON", "This page as JSON"),
}


@one_store
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_dialog(visit: Visit, axe: str, scheme: str) -> None:
    page = visit("overview", color_scheme=scheme)
    found = []
    for where, (opens, title) in {**DIALOGS, **BUTTONS}.items():
        page.evaluate("where => { location.hash = '#/' + where; }", where)
        if where in DIALOGS:
            page.get_by_role("button", name="Reject" if where.startswith("review") else "Fork").wait_for()
            page.keyboard.press(opens)
        else:
            page.get_by_role("button", name=opens).click()
        page.get_by_role("dialog", name=title).wait_for()
        found += [f"{title}: {one}" for one in violations(page, axe)]
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
    assert found == []


@one_store
def test_every_key_does_what_the_list_of_keys_says(visit: Visit) -> None:
    page = visit("overview")
    page.get_by_text("need a person").wait_for()
    places = {"i": "review", "r": "runs", "s": "sessions", "m": "memory", "f": "files", "t": "threads",
              "p": "operations", "o": "overview"}  # fmt: skip
    for key, place in places.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.locator(f'nav a.{place}[aria-current="page"]').wait_for()
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Search everything"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_text("Known now").wait_for()
    page.keyboard.press("j")
    statement = page.locator(".statement")
    statement.get_by_text("Bank fees caused by").wait_for()
    page.keyboard.press("k")
    statement.get_by_text("approval of a person").wait_for()
