"""Eviction, as properties: what it promises for every working set there could be."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from strongroom.codec import encode
from strongroom.errors import BudgetExceeded
from strongroom.services.runs.eviction import make_room, tokens_of
from strongroom.services.runs.working_set import initial, instant
from strongroom.tokens import tokenizer

COUNT = tokenizer("default")
TIMES = st.builds(
    "{}T{:02}:{:02}:00{}".format,
    st.sampled_from(["2026-01-01", "2026-01-02"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from(["Z", "+05:30", "-05:00", "+00:00"]),
)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text("abcdef", min_size=1, max_size=4),
            "content": st.text(min_size=1, max_size=120),
            "timestamp": TIMES,
            "priority": st.integers(0, 9),
        }
    ),
    max_size=14,
)
BUDGETS = st.integers(80, 500)


def state(items: list[dict[str, Any]], pinned: int = 0) -> dict[str, Any]:
    pins = [{"id": f"p{place}", "content": "pinned", "source_ref": ""} for place in range(pinned)]
    made = initial(run_id="r", task_id="t", thread_id="th", objective="Build it")
    return {**made, "sliding_context": items, "pinned_context": pins}


def evict(before: dict[str, Any], budget: int) -> dict[str, Any]:
    """Evict from a state whose items are all known, so that none is refused for its size."""
    try:
        return make_room(before, before, max_tokens=budget, tokenizer=COUNT)[0]
    except BudgetExceeded:
        assume(False)
        raise


def rank(item: dict[str, Any]) -> tuple[Any, ...]:
    return item["priority"], instant(item["timestamp"])


@given(ITEMS, BUDGETS, st.integers(0, 10))
def test_the_budget_is_never_exceeded_and_nothing_pinned_leaves(
    items: list[dict[str, Any]], budget: int, pins: int
) -> None:
    before = state(items, pins)
    after = evict(before, budget)
    assert tokens_of(after, COUNT) <= budget
    assert {**after, "sliding_context": []} == {**before, "sliding_context": []}


@given(ITEMS, BUDGETS)
def test_evicting_twice_changes_nothing(items: list[dict[str, Any]], budget: int) -> None:
    once = evict(state(items), budget)
    again, receipt = make_room(once, once, max_tokens=budget, tokenizer=COUNT)
    assert (again, receipt) == (once, None)


@given(ITEMS, BUDGETS, st.integers(0, 300))
def test_a_larger_budget_keeps_at_least_as_much(items: list[dict[str, Any]], budget: int, more: int) -> None:
    numbered = [{**item, "id": str(place)} for place, item in enumerate(items)]
    little = {item["id"] for item in evict(state(numbered), budget)["sliding_context"]}
    lot = {item["id"] for item in evict(state(numbered), budget + more)["sliding_context"]}
    assert little <= lot


@given(ITEMS, BUDGETS)
def test_no_lesser_item_stays_while_a_greater_one_goes(items: list[dict[str, Any]], budget: int) -> None:
    numbered = [{**item, "id": str(place)} for place, item in enumerate(items)]
    kept = evict(state(numbered), budget)["sliding_context"]
    gone = [item for item in numbered if item not in kept]
    assert all(rank(left) <= rank(stayed) for left in gone for stayed in kept)


@given(ITEMS, BUDGETS)
def test_the_receipt_accounts_for_every_token(items: list[dict[str, Any]], budget: int) -> None:
    before = state(items)
    try:
        after, receipt = make_room(before, before, max_tokens=budget, tokenizer=COUNT)
    except BudgetExceeded:
        assume(False)
    if receipt is None:
        assert after == before
        return
    assert receipt.tokens_before == tokens_of(before, COUNT) > budget
    assert receipt.tokens_after == tokens_of(after, COUNT) <= budget
    assert receipt.tokens_before - receipt.tokens_after == sum(gone.tokens for gone in receipt.evicted)
    assert len(items) == len(receipt.evicted) + len(after["sliding_context"])


@given(ITEMS, BUDGETS, st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter_where_rank_decides(
    items: list[dict[str, Any]], budget: int, rng: random.Random
) -> None:
    unique = list({rank(item): {**item, "id": str(place)} for place, item in enumerate(items)}.values())
    mixed = list(unique)
    rng.shuffle(mixed)
    one, other = evict(state(unique), budget), evict(state(mixed), budget)
    assert {item["id"] for item in one["sliding_context"]} == {item["id"] for item in other["sliding_context"]}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 59)), unique=True, max_size=14), st.randoms())
def test_equal_sized_items_that_arrive_one_by_one_leave_the_same_ones(
    ranks: list[tuple[int, int]], rng: random.Random
) -> None:
    made = [
        {
            "id": f"i{place:02}",
            "content": "same words here",
            "timestamp": f"2026-01-01T00:{minute:02}:00Z",
            "priority": p,
        }
        for place, (p, minute) in enumerate(ranks)
    ]
    kept = []
    for _ in range(2):
        rng.shuffle(made)
        now = state([])
        for item in made:
            now = evict({**now, "sliding_context": [*now["sliding_context"], item]}, 200)
        kept.append({item["id"] for item in now["sliding_context"]})
    assert kept[0] == kept[1]


def test_offsets_are_instants_not_text() -> None:
    early = {"id": "early", "content": "w " * 60, "timestamp": "2026-01-01T10:00:00Z", "priority": 5}
    late = {"id": "late", "content": "w " * 60, "timestamp": "2026-01-01T09:30:00-05:00", "priority": 5}
    kept = evict(state([late, early]), tokens_of(state([late]), COUNT))["sliding_context"]
    assert [item["id"] for item in kept] == ["late"]


def test_small_items_are_kept_as_long_as_there_is_room() -> None:
    items = [
        {"id": str(place), "content": "x", "timestamp": "2026-01-01T10:00:00Z", "priority": 5} for place in range(400)
    ]
    kept = evict(state(items), 2000)["sliding_context"]
    assert 50 < len(kept) < 400
    assert kept[-1]["id"] == "399"


def test_hash_seed_locale_and_timezone_do_not_matter() -> None:
    rng = random.Random(7)
    items = [
        {
            "id": f"i{place}",
            "content": "wort " * rng.randrange(1, 30),
            "timestamp": f"2026-01-01T{rng.randrange(24):02}:00:00{rng.choice(['Z', '+05:30', '-05:00'])}",
            "priority": rng.randrange(10),
        }
        for place in range(40)
    ]
    program = (
        "import json,sys;from strongroom.services.runs.eviction import make_room\n"
        "from strongroom.tokens import tokenizer\n"
        "from strongroom.codec import encode\n"
        "s=json.load(sys.stdin);print(encode(make_room(s,s,max_tokens=300,tokenizer=tokenizer('default'))[0]).hex())"
    )
    told = set()
    for seed, zone, locale in (
        ("0", "UTC", "C"),
        ("1", "Asia/Kolkata", "de_DE.UTF-8"),
        ("2", "America/New_York", "C.UTF-8"),
    ):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale}
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(state(items)),
            env=environment,
            text=True,
            capture_output=True,
            check=True,
        )
        told.add(done.stdout.strip())
    assert told == {encode(evict(state(items), 300)).hex()}
