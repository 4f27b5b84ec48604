"""Long histories: what a browser is sent does not grow with them.

Bytes and answers are counted, not milliseconds, which are the machine's. With STRONGROOM_LARGE=folder the store is of
full size (100,000 events, 1,000,000 messages, 50,000 memories; built there once), and tasks are timed as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from tests.browser.large import SCREENS, SMALL, Cost, built, fill, look, p95
from tests.server.serving import served

FOLDER = os.environ.get("STRONGROOM_LARGE")


@pytest.fixture(scope="module")
def costs(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cost]]:
    store = tmp_path_factory.mktemp("large") / "large.db" if FOLDER is None else built(Path(FOLDER))
    if FOLDER is None:
        with strongroom.open(store, durability="relaxed") as ctx:
            fill(ctx, SMALL)
    with served(str(store)) as server:
        yield {cost.screen: cost for cost in look(browser, server.url, timed=FOLDER is not None)}


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_there_after_less_than_200_kb(costs: dict[str, Cost], screen: str) -> None:
    assert costs[screen].bytes < 200_000


@pytest.mark.parametrize("screen", SCREENS)
def test_no_screen_loads_a_whole_history(costs: dict[str, Cost], screen: str) -> None:
    assert costs[screen].largest < 60_000 and costs[screen].requests < 60


@pytest.mark.skipif(FOLDER is None, reason="times are taken at full size: STRONGROOM_LARGE=folder")
@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_is_never_busy_for_long(costs: dict[str, Cost], screen: str) -> None:
    assert p95(costs[screen].tasks) < 50


@pytest.mark.skipif(FOLDER is None, reason="times are taken at full size: STRONGROOM_LARGE=folder")
@pytest.mark.parametrize("screen", SCREENS)
def test_no_task_of_the_page_works_for_long(costs: dict[str, Cost], screen: str) -> None:
    assert max(costs[screen].worked) < 50
