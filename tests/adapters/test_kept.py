"""The table of what two processes keep: written row by row, in environments that have different frameworks."""

from __future__ import annotations

from tests.adapters.kept import BEGIN, END, PAGE, Outcome, replaced, rows_of, told
from tests.adapters.our_stores import ADAPTERS
from tests.adapters.own_stores import STORES

EMPTY = f"before\n{BEGIN}\n{END}\nafter"


def test_rows_of_other_environments_stay_and_the_order_is_that_of_the_adapters() -> None:
    first, second = ADAPTERS[0].framework, ADAPTERS[1].framework
    page = replaced(EMPTY, {second: (second, *"abcdef")})
    page = replaced(page, {first: (first, *"ghijkl")})
    assert list(rows_of(page).values()) == [(first, *"ghijkl"), (second, *"abcdef")]
    assert page.startswith("before\n") and page.endswith("\nafter")


def test_a_turn_that_was_lost_is_told() -> None:
    assert told(Outcome(acknowledged=200, kept=200, failed=0)) == "200"
    assert told(Outcome(acknowledged=200, kept=104, failed=0)) == "104; 200 acknowledged, to their ends"
    assert told(Outcome(acknowledged=100, kept=100, failed=1)) == "100; 100 acknowledged, one failed"


def test_the_page_has_a_row_for_each_adapter_and_ours_kept_all() -> None:
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    assert list(rows) == [one.framework for one in ADAPTERS]
    assert {cells[1:3] for cells in rows.values()} == {("200", "200")}


def test_every_own_store_belongs_to_an_adapter() -> None:
    assert STORES.keys() <= {one.framework for one in ADAPTERS}
