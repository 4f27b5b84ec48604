"""What a saver remembers of threads: the newest of them, and no more than it may."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from strongroom.adapters.langgraph import StrongroomSaver, finding
from strongroom.adapters.langgraph.finding import Lines
from strongroom.adapters.langgraph.lines import Line
from strongroom.adapters.langgraph.lists import Known


def line(id: str, size: int) -> Line:
    return Line(id, id, "", lists={"messages": Known([], (), 0, size=size)})


def remembered(lines: Lines, ids: str) -> str:
    return "".join(id for id in ids if lines.get(id) is not None)


def test_the_oldest_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_LINES", 3)
    lines = Lines()
    for id in "abcad":  # `a` again: it is not the oldest any more
        lines.keep(line(id, 1))
    assert remembered(lines, "abcd") == "acd"


def test_the_oldest_go_where_they_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_BYTES", 100)
    lines = Lines()
    for id in "abc":
        lines.keep(line(id, 40))
    assert remembered(lines, "abc") == "bc"
    lines.keep(line("b", 90))  # it has grown
    assert remembered(lines, "abc") == "b"
    lines.pop("b")
    for id in "abc":
        lines.keep(line(id, 30))
    assert remembered(lines, "abc") == "abc"


def test_one_is_remembered_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_BYTES", 100)
    lines = Lines()
    lines.keep(line("a", 1000))
    assert remembered(lines, "a") == "a"


def test_what_is_remembered_of_a_thread_is_as_large_as_its_messages_and_its_newest_checkpoint() -> None:
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with StrongroomSaver("memory://") as saver:
        for n in range(1, 4):
            said = [HumanMessage("x" * 10_000, id=f"m{m}") for m in range(n)]
            versions: Any = {"messages": n}
            made: Any = {**empty_checkpoint(), "id": f"{n}", "channel_values": {"messages": said}}
            place = saver.put(place, {**made, "channel_versions": versions}, {}, versions)
            [known] = saver._lines._lines.values()
            assert n * 10_000 < known.size < n * 11_000 + 1_000
        saver.get_tuple({"configurable": {"thread_id": "t"}})
        assert saver._lines._size == sum(one.size for one in saver._lines._lines.values()) > 30_000
