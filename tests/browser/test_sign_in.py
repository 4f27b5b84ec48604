"""Signing in: the key stays in the tab, or in a cookie that no script can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.test_screens import one_store

Visit = Callable[..., Any]
READABLE = (
    "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, document.documentElement.outerHTML])"
)


def sign_in(page: Any, key: str, *, keep: bool) -> None:
    page.get_by_role("textbox", name="Key").fill(key)
    if keep:
        page.get_by_role("checkbox", name="Keep me signed in").check()
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("need a person").wait_for()


@one_store
def test_a_key_in_the_tab_is_forgotten_with_it(visit: Visit, server: Any) -> None:
    key = server.key()
    page = visit("overview")
    sign_in(page, key, keep=False)
    assert page.context.cookies() == []
    page.reload()
    page.get_by_role("textbox", name="Key").wait_for()


@one_store
def test_a_key_that_the_browser_keeps_outlives_the_tab_until_somebody_signs_out(visit: Visit, server: Any) -> None:
    key = server.key()
    page = visit("overview")
    sign_in(page, key, keep=True)
    assert key not in page.evaluate(READABLE)
    [cookie] = page.context.cookies()
    assert (cookie["value"], cookie["httpOnly"], cookie["sameSite"]) == (key, True, "Strict")
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_text("need a person").wait_for()
    other.get_by_text("Live", exact=True).first.wait_for()
    other.get_by_role("button", name="admin of default").click()
    other.get_by_role("button", name="Sign out").click()
    other.get_by_role("textbox", name="Key").wait_for()
    assert page.context.cookies() == []


MAY = {
    "reader": set[str](),
    "writer": {"Fork", "Correct", "Retry"},
    "reviewer": {"Reject", "Revoke 3"},
    "admin": {"Fork", "Correct", "Retry", "Reject", "Revoke 3", "Erase", "New key"},
}
WHERE = {
    "runs/invoices-q3": ("State now", ("Fork",)),
    "memory/bank-speed": ("Known now", ("Correct", "Revoke 3", "Erase")),
    "threads": ("the mail server did not answer", ("Retry",)),
    "review": ("Replace a policy", ("Reject",)),
    "operations": ("may lose nothing", ("New key",)),
}


@one_store
@pytest.mark.parametrize("role", MAY)
def test_a_role_is_shown_what_it_may_do(visit: Visit, server: Any, role: str) -> None:
    key = server.key(role=role)
    page = visit("overview")
    sign_in(page, key, keep=False)
    shown = set()
    for where, (text, buttons) in WHERE.items():
        page.evaluate("where => { location.hash = '#/' + where; }", where)
        page.get_by_text(text).first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        for wanted in MAY[role] & set(buttons):  # each waits for an answer of its own
            page.get_by_role("button", name=wanted).first.wait_for()
        shown |= {name for name in buttons if page.get_by_role("button", name=name).count()}
    assert shown == MAY[role]


@one_store
def test_a_revoked_key_ends_it_by_itself(visit: Visit, server: Any) -> None:
    keys = [server.key(), server.key(role="reader")]
    page, other = visit("operations"), visit("overview")
    page.get_by_role("textbox", name="Key").fill(keys[0])
    page.get_by_role("button", name="Sign in").click()
    sign_in(other, keys[1], keep=True)
    other.get_by_text("Live", exact=True).first.wait_for()
    row = page.get_by_role("row", name=keys[1].removeprefix("srk_").split(".")[0])
    row.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("The key is useless now").wait_for()
    other.get_by_role("textbox", name="Key").wait_for()


@one_store
def test_whoever_makes_the_first_key_goes_on_with_it(visit: Visit, server: Any) -> None:
    page = visit("operations")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("radio", name="admin").check()
    page.get_by_role("button", name="Create").click()
    page.get_by_text("This tab goes on with this one").wait_for()
    assert page.get_by_role("dialog").locator("code").inner_text().startswith("srk_")
    page.get_by_role("button", name="I have copied it").click()
    page.get_by_role("row", name="no label").wait_for()
    page.get_by_text("Live", exact=True).first.wait_for()
