"""The inbox: a person decides with the hands on the keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from strongroom.blocking import Context
from tests.browser.test_screens import one_store

Visit = Callable[..., Any]


def pending(ctx: Context) -> int:
    return len(ctx.memories.pending())


def until(told: Callable[[], bool]) -> None:
    """Wait for what happens in another process; the limit is for what hangs."""
    deadline = time.monotonic() + 60
    while not told():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def twenty(ctx: Context) -> Context:
    for batch in ctx.memories.pending():
        ctx.memories.reject(batch, reason="not today", reviewer="ben")
    for number in range(20):
        fact = {"op": "add", "type": "fact", "scope": "global", "content": f"Parcel shop {number} opens at eight",
                "rationale": "its door says so", "confidence": 0.8, "source_refs": []}  # fmt: skip
        ctx.memories.propose([fact], proposer="agent-7")  # type: ignore[list-item]
    return ctx


def test_twenty_proposals_are_decided_by_keyboard(visit: Visit, twenty: Context) -> None:
    page = visit("review")
    page.get_by_text("1 of 20").wait_for()
    for left in range(20, 0, -1):
        page.get_by_text(f"1 of {left}").wait_for()
        page.keyboard.press("a")
    page.get_by_text("Nothing waits").wait_for()
    until(lambda: pending(twenty) == 0)
    assert len(twenty.memories.search("parcel shop opens", k=50)) == 20


@one_store
def test_a_rejection_needs_a_reason_and_keeps_it(visit: Visit, ctx: Context) -> None:
    batch = ctx.memories.pending()[0]
    page = visit(f"review/{batch.id}:0")
    page.get_by_role("button", name="Reject").wait_for()
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Reject").is_disabled()
    dialog.get_by_role("textbox").fill("hearsay")
    page.keyboard.press("Enter")
    until(lambda: ctx.memories.batch(batch.id).status == "rejected")
    assert ctx.memories.batch(batch.id).reason == "hearsay"


@one_store
def test_what_is_flagged_is_not_accepted_by_a_single_key(visit: Visit, ctx: Context) -> None:
    before = pending(ctx)
    page = visit("review?show=flagged")
    page.get_by_role("button", name="Accept…").wait_for()
    page.keyboard.press("a")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert pending(ctx) == before


@one_store
def test_what_is_not_trusted_is_said_to_be_so(visit: Visit) -> None:
    page = visit("review?show=flagged")
    trust = page.get_by_role("region", name="Trust")
    trust.get_by_text("untrusted").first.wait_for()
    assert trust.get_by_text("untrusted").count() == 2  # who proposed it, and so the proposal


@one_store
def test_a_decision_can_be_undone_before_it_is_sent(visit: Visit, ctx: Context) -> None:
    before = pending(ctx)
    page = visit("review?show=replaces")
    page.get_by_role("button", name="Reject").wait_for()
    page.keyboard.press("r")
    page.get_by_role("dialog").get_by_role("textbox").fill("not true")
    page.keyboard.press("Enter")
    page.get_by_text("Rejecting 1 proposal").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("2 of 3").wait_for()  # it is back, before the one that came next
    assert pending(ctx) == before


@one_store
def test_a_reader_sees_what_waits_and_may_not_decide(visit: Visit, server: Any, ctx: Context) -> None:
    key = server.key(role="reader")
    page = visit("review")
    page.get_by_role("textbox", name="Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Your key may read, not decide.").wait_for()
    assert page.get_by_role("button", name="Reject").count() == 0


@one_store
def test_a_wrong_key_is_told_so(visit: Visit, server: Any) -> None:
    server.key(role="reader")
    page = visit("overview")
    page.get_by_role("textbox", name="Key").fill("srk_nobody.nothing")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("does not know that key").wait_for()
