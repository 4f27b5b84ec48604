"""What a person finds on each screen to decide by, and what becomes of it when they do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from strongroom.blocking import Context
from strongroom.dispatch import Dispatcher
from tests.browser.test_review import until
from tests.browser.test_screens import one_store

Visit = Callable[..., Any]
IN_SIGHT = """([inner, outer]) => {
  const [one, box] = [inner, outer].map((name) => document.querySelector(name).getBoundingClientRect());
  return one.top >= box.top && one.bottom <= box.bottom;
}"""


# ---- review ---------------------------------------------------------------------------------------------------------


@one_store
def test_a_proposal_stands_beside_what_it_would_replace_and_its_flags_are_explained(visit: Visit) -> None:
    page = visit("review?show=flagged")
    page.get_by_role("heading", name="Replace a policy").wait_for()
    page.get_by_text("It tells a model what to do instead of stating what is so").wait_for()
    change = page.locator(".change")
    assert "of a person, whatever its amount" in change.locator("del").all_inner_texts()
    assert any("below 100.00" in text for text in change.locator("ins").all_inner_texts())


@one_store
def test_a_proposal_shows_the_message_it_comes_from_in_its_conversation(visit: Visit) -> None:
    page = visit("review")
    page.get_by_role("link", name="Add preference").click()
    said = page.get_by_role("region", name="Where it was said")
    assert "write to me instead" in said.locator(".cited").inner_text()
    said.get_by_role("link", name="Open in its conversation").click()
    page.locator("#msg-m124.target").wait_for()


@one_store
def test_a_proposal_shows_what_is_known_already_and_close_to_it(visit: Visit, ctx: Context) -> None:
    ctx.memories.add(
        "Banks take up to two working days to book a refund, usually", scope="global", proposer="web-agent"
    )
    page = visit("review")
    page.get_by_role("link", name="usually").click()
    near = page.get_by_role("region", name="Close to what is known")
    near.get_by_role("link", name="Banks take up to two working days to book a refund").first.wait_for()


# ---- run ------------------------------------------------------------------------------------------------------------


def test_a_fork_begins_with_the_state_of_the_step_it_was_made_at(visit: Visit, ctx: Context) -> None:
    page = visit("runs/invoices-q3?seq=3")
    page.get_by_role("heading", name="State at step 3").wait_for()
    page.keyboard.press("f")
    page.get_by_role("dialog").get_by_role("textbox").fill("second-try")
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    page.get_by_text("Forked step 3").wait_for()
    assert page.url.endswith("#/runs/second-try")
    assert ctx.runs.get("second-try").working_set.next_action == ctx.runs.get("invoices-q3").at(3).next_action


@one_store
def test_a_step_that_is_reached_by_its_address_is_in_sight_in_the_ledger(visit: Visit) -> None:
    page = visit("runs/invoices-q3?seq=5", viewport={"width": 1280, "height": 600})
    here = page.locator(".event.here")
    here.get_by_text("State 5").wait_for()
    page.wait_for_function(IN_SIGHT, arg=[".event.here", ".ledger-box"])


@one_store
def test_a_verified_run_shows_its_head_and_copies_it(visit: Visit, ctx: Context) -> None:
    page = visit("runs/invoices-q3", permissions=["clipboard-read", "clipboard-write"])
    badge = page.locator(".verified")
    badge.get_by_text("Verified").wait_for()
    badge.get_by_role("button").click()
    page.get_by_text("Copied").first.wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == ctx.runs.get("invoices-q3").head().chain


# ---- session --------------------------------------------------------------------------------------------------------


@one_store
def test_tool_calls_are_folded_until_somebody_opens_them_and_code_is_code(visit: Visit) -> None:
    page = visit("sessions/support-7")
    page.get_by_role("button", name="refunds.policy").wait_for()
    answer = page.get_by_text("Fees caused by a duplicate charge are refunded with it.")
    assert answer.count() == 0
    page.keyboard.press("v")
    answer.wait_for()
    assert "CARD  4410" in page.get_by_label("Code").inner_text()


def test_a_search_in_a_conversation_says_why_each_hit_is_one(visit: Visit) -> None:
    page = visit("sessions/support-7?q=fee")
    hit = page.get_by_role("list", name="Hits").get_by_role("button", name="The fee of 0.35 was caused")
    hit.wait_for()
    assert "words" in hit.locator(".why").inner_text()


def test_a_prompt_is_made_of_messages_and_of_what_is_remembered_about_the_question(visit: Visit) -> None:
    page = visit("sessions/support-7?budget=900")
    page.get_by_role("row", name="Memories").wait_for()
    page.get_by_text("Memories are searched for").get_by_text("How many working days").wait_for()
    page.get_by_role("combobox", name="Strategy").select_option(label="newest that fit")
    page.get_by_role("row", name="Memories").wait_for(state="detached")
    assert "strategy=truncate_oldest" in page.url


@one_store
def test_the_parts_of_a_prompt_sum_up_to_its_budget(visit: Visit) -> None:
    for strategy in ("prompt", "truncate_oldest"):
        page = visit(f"sessions/support-7?budget=900&strategy={strategy}")
        page.get_by_role("row", name="Messages").wait_for()
        sums = page.get_by_role("table", name="Parts of the prompt").locator("td:nth-child(2)").all_inner_texts()
        assert sum(int(text.replace(",", "")) for text in sums) == 900


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_a_search_of_memories_says_why_each_hit_is_one(visit: Visit) -> None:
    page = visit("memory?q=telephone")
    row = page.get_by_role("link", name="The telephone is answered")
    row.locator(".why").wait_for()
    assert "telephone" in row.locator(".why").inner_text()


@one_store
def test_the_life_of_a_memory_is_told_from_its_proposal_to_its_end(visit: Visit) -> None:
    page = visit("memory/vip-skip")
    life = page.get_by_role("region", name="Life")
    life.get_by_text("Revoked").wait_for()
    assert [step.inner_text() for step in life.locator("li b").all()] == ["Proposed", "Accepted", "Revoked"]
    life.get_by_text("the page was a test").wait_for()


def test_an_erased_memory_leaves_no_word_of_it(visit: Visit, ctx: Context) -> None:
    page = visit("memory/phone-hours")
    page.get_by_role("button", name="Erase").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Erase").is_disabled()
    dialog.get_by_role("textbox").fill("phone-hours")
    dialog.get_by_role("button", name="Erase").click()
    page.get_by_text("Erased").first.wait_for()
    until(lambda: ctx.memories.get("phone-hours").status == "erased")
    assert ctx.memories.get("phone-hours").content == "(erased)"


# ---- threads and operations -----------------------------------------------------------------------------------------


@one_store
def test_a_worker_at_work_is_shown_with_its_lease(visit: Visit, ctx: Context) -> None:
    dispatcher, looked = Dispatcher(ctx), threading.Event()

    @dispatcher.handler("letters.print")
    def print_letter(payload: Any, call: Any) -> None:
        looked.wait(60)

    at_work = threading.Thread(target=dispatcher.drain)
    at_work.start()
    page = visit("threads")
    page.get_by_role("group", name="Leases").get_by_text("letters.print").wait_for()
    page.get_by_role("region", name="Call chains").get_by_text("handling").wait_for()
    looked.set()
    at_work.join()
    page.get_by_text("No worker holds a thread now").wait_for()


@one_store
def test_a_backup_is_made_and_told_to_be_good(visit: Visit) -> None:
    page = visit("operations")
    page.get_by_role("button", name="Back up now").click()
    page.get_by_role("region", name="Backups").get_by_text("verified by reading it back").wait_for()


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_where_no_backup_can_be_made_the_page_says_what_to_use(visit: Visit) -> None:
    page = visit("operations")
    page.get_by_role("region", name="Backups").get_by_text("PostgreSQL is backed up with its own tools").wait_for()
    assert page.get_by_role("button", name="Back up now").count() == 0


# ---- everywhere -----------------------------------------------------------------------------------------------------


@one_store
def test_a_time_is_relative_and_exact_in_the_zone_of_whoever_looks(visit: Visit) -> None:
    page = visit("runs/invoices-q3", timezone_id="Asia/Tokyo", locale="en-GB")
    page.get_by_text("State now").wait_for()
    shown = page.locator(".run-sums time")
    assert "ago" in shown.inner_text() or "just now" in shown.inner_text()
    hour = page.evaluate("at => new Date(at).toLocaleString('en-GB', {hour: '2-digit', timeZone: 'Asia/Tokyo'})",
                         shown.get_attribute("datetime"))  # fmt: skip
    assert f"{hour}:" in (shown.get_attribute("title") or "")


@one_store
def test_a_thing_is_found_by_its_id(visit: Visit) -> None:
    page = visit("overview")
    for id, heading in (("nightly-import", "Import yesterday's parcels"), ("support-7", "Charged twice in July")):
        page.get_by_role("combobox", name="Search everything").fill(id)
        page.get_by_role("option", name=heading).get_by_text("its id").click()
        page.get_by_role("heading", name=heading).wait_for()


@one_store
def test_enter_waits_for_what_the_words_find(visit: Visit) -> None:
    page = visit("overview")
    box = page.get_by_role("combobox", name="Search everything")
    box.fill("nightly-import")
    page.get_by_role("option", name="Import yesterday's parcels").wait_for()
    box.fill("support-7")
    box.press("Enter")
    page.get_by_role("heading", name="Charged twice in July").wait_for()


@one_store
def test_each_page_shows_the_answer_behind_it(visit: Visit) -> None:
    page = visit("memory/bank-speed")
    page.get_by_role("heading", name="Life").wait_for()
    page.get_by_role("button", name="This page as JSON").click()
    dialog = page.get_by_role("dialog", name="This page as JSON")
    dialog.get_by_text("/memories/bank-speed").wait_for()
    dialog.get_by_text("https://bank.example/faq").first.wait_for()
