"""Memory: what was known on a day, and views that the browser keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strongroom.blocking import Context
from tests.browser.test_screens import one_store

Visit = Callable[..., Any]
CLOCK = "new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 10)"


def test_a_day_shows_what_was_known_when_it_was_over(visit: Visit, ctx: Context) -> None:
    page = visit("memory")
    page.get_by_text("approval of a person").first.wait_for()
    page.get_by_label("As of").fill("2001-02-03")
    page.get_by_text("Nothing is known about this").wait_for()
    assert "as_of=2001-02-03" in page.url
    page.get_by_label("As of").fill(page.evaluate(CLOCK))
    page.get_by_text("What was known when that day was over").wait_for()
    page.get_by_text("approval of a person").first.wait_for()
    page.get_by_role("button", name="Back to now").click()
    page.get_by_label("Status").wait_for()
    assert "as_of" not in page.url


@one_store
def test_a_day_in_the_address_is_the_day_in_the_field(visit: Visit) -> None:
    page = visit("memory?as_of=2001-02-03&q=refund")
    page.get_by_text("as far as it was so on that day").wait_for()
    assert page.get_by_label("As of").input_value() == "2001-02-03"


@one_store
def test_a_view_is_saved_found_again_and_deleted(visit: Visit) -> None:
    page = visit("memory?type=policy&status=any")
    page.get_by_text("need no approval").first.wait_for()
    page.keyboard.press("w")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("<b>old policies</b>")
    page.keyboard.press("Enter")
    dialog.get_by_role("link", name="<b>old policies</b>").wait_for()
    page.reload()
    page.evaluate("location.hash = '#/overview'")
    page.get_by_text("need a person").wait_for()
    page.get_by_role("button", name="Saved views").click()
    page.get_by_role("dialog").get_by_role("link", name="<b>old policies</b>").click()
    page.locator("dialog").wait_for(state="detached")
    page.get_by_text("need no approval").first.wait_for()
    assert page.url.endswith("#/memory?type=policy&status=any")
    page.keyboard.press("w")
    page.get_by_role("button", name="Delete <b>old policies</b>").click()
    page.get_by_text("A view is a page with its filters").wait_for()
    assert page.evaluate("localStorage.getItem('views')") == "[]"


@one_store
def test_what_else_lies_where_views_are_kept_breaks_nothing(visit: Visit) -> None:
    page = visit("overview")
    page.get_by_text("need a person").wait_for()
    for kept in ("nonsense", "{}", '[null, 1, {"name": "x", "hash": "javascript:1", "space": "default"}]'):
        page.evaluate("kept => localStorage.setItem('views', kept)", kept)
        page.keyboard.press("w")
        page.get_by_text("A view is a page with its filters").wait_for()
        assert page.get_by_role("dialog").get_by_role("link").count() == 0
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")


LEAVES_UNHEARD = """
const listen = window.addEventListener.bind(window);
window.addEventListener = (type, ...rest) => {
  if (type === "hashchange") history.replaceState(null, "", "#/overview");  // after the first render; no event comes
  listen(type, ...rest);
};
"""


@one_store
def test_an_address_that_changes_while_the_page_begins_is_where_it_goes(visit: Visit) -> None:
    page = visit("memory")
    page.get_by_text("approval of a person").first.wait_for()
    page.add_init_script(LEAVES_UNHEARD)
    page.reload()
    page.get_by_text("need a person").wait_for()
