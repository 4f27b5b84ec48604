"""FileLedger: gapless ids, nothing lost, nothing of the caller's touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.compat.aos_context.ledger import FileLedger, utc_iso
from tests.compat.aos_samples import event, lines_of, patch, started

APPEND = """
import sys
from pathlib import Path
from strongroom.compat.aos_context.ledger import FileLedger
from tests.compat.aos_samples import event

for number in range(int(sys.argv[3])):
    assert FileLedger(Path(sys.argv[1])).append(event(f"{sys.argv[2]}{number}")).ok
"""

BIG = """
import itertools, sys
from pathlib import Path
from strongroom.compat.aos_context.ledger import FileLedger
from tests.compat.aos_samples import event

ledger = FileLedger(Path(sys.argv[1]))
for number in itertools.count():
    id = f"{sys.argv[2]}-{number}"
    assert ledger.append(event(id, payload={"tool_name": "fetch", "arguments": "x" * 500_000})).ok
    print(id, flush=True)
"""


def test_ids_are_assigned_without_gaps(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "run.jsonl")
    assert [ledger.append(event(str(number))).sequence_id for number in range(3)] == [1, 2, 3]
    assert [line["sequence_id"] for line in lines_of(tmp_path / "run.jsonl")] == [1, 2, 3]


def test_an_event_comes_back_as_it_was_given(tmp_path: Path) -> None:
    given = event("mine", parent_event_id="before", timestamp=utc_iso())
    FileLedger(tmp_path / "run.jsonl").append(given)
    assert lines_of(tmp_path / "run.jsonl") == [{**given, "sequence_id": 1}]


def test_a_missing_sequence_id_is_assigned_and_the_callers_event_stays_as_it_was(tmp_path: Path) -> None:
    given = event()
    del given["sequence_id"]
    before = json.dumps(given)
    assert FileLedger(tmp_path / "run.jsonl").append(given).sequence_id == 1
    assert json.dumps(given) == before


@pytest.mark.parametrize("wrong", [1, 2, 5])
def test_a_sequence_id_that_is_not_the_next_one_is_refused(tmp_path: Path, wrong: int) -> None:
    ledger = FileLedger(tmp_path / "run.jsonl")
    ledger.append(event("a"))
    ledger.append(event("b", sequence_id=2))
    result = ledger.append(event("c", sequence_id=wrong))
    assert not result.ok and "is not the next one, 3" in str(result.error)
    assert ledger.append(event("c", sequence_id=3)).ok


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_type": "PARTY"},
        {"payload": {}},
        {"payload": {"tool_name": "x", "more": 1}},
        {"timestamp": "banana"},
        {"run_id": ""},
        {"event_type": "SNAPSHOT", "payload": {"pack_id": "p", "length": 0, "chain": "0" * 64}},
    ],
)
def test_what_is_not_an_event_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    result = FileLedger(tmp_path / "run.jsonl").append(event(**wrong))
    assert not result.ok and str(result.error).startswith("schema: ")


def test_opening_a_ledger_creates_nothing(tmp_path: Path) -> None:
    FileLedger(tmp_path / "run" / "ledger" / "run.v2.1.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_open_a_new_ledger_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger" / "run.v2.1.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, str(path), name, "25"]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    lines = lines_of(path)
    assert [line["sequence_id"] for line in lines] == list(range(1, 51))
    assert {line["event_id"] for line in lines} == {f"{name}{number}" for name in "ab" for number in range(25)}


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    acknowledged: list[str] = []
    for round in range(3):
        writer = subprocess.Popen([sys.executable, "-c", BIG, str(path), str(round)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged += [writer.stdout.readline().strip() for _ in range(3)]
        writer.kill()
        acknowledged += [line.strip() for line in writer.stdout]
        writer.wait()
        writer.stdout.close()
    last = FileLedger(path).append(event("last"))
    lines = lines_of(path)
    assert [line["sequence_id"] for line in lines] == list(range(1, int(last.sequence_id or 0) + 1))
    assert {line["event_id"] for line in lines} >= {*acknowledged, "last"}


def test_a_torn_copy_is_mended_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ledger = FileLedger(path)
    ledger.append(event("a"))
    ledger.append(event("b"))
    path.write_bytes(path.read_bytes()[:-40])
    ledger.append(event("c"))
    assert [line["event_id"] for line in lines_of(path)] == ["a", "b", "c"]


def test_a_copy_that_was_scribbled_over_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ledger = FileLedger(path)
    ledger.append(event("a"))
    path.write_text("nonsense\n")
    ledger.append(event("b"))
    assert [line["event_id"] for line in lines_of(path)] == ["a", "b"]


def test_an_old_ledger_with_a_torn_end_goes_on_and_its_original_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    old = "".join(json.dumps(event(str(number), sequence_id=id)) + "\n" for number, id in enumerate([5, 2, 5, 1]))
    path.write_text(old + '{"_schema_version": "2.1", "event')
    assert FileLedger(path).append(event("next")).sequence_id == 5
    assert [(line["event_id"], line["sequence_id"]) for line in lines_of(path)] == [
        ("0", 1), ("1", 2), ("2", 3), ("3", 4), ("next", 5)
    ]  # fmt: skip
    assert (tmp_path / "run.jsonl.original").read_text().startswith(old)


def test_an_event_joins_the_ledger_of_its_run_in_the_usual_layout(tmp_path: Path) -> None:
    started(tmp_path)
    result = FileLedger(tmp_path / "ledger" / "run.v2.1.jsonl").append(event())
    assert result.sequence_id == 1
    with strongroom.open(tmp_path / "state" / "strongroom.db") as ctx:
        run = ctx.runs.get("run_1")
        assert [told.type for told in run.events()] == ["RUN_START", "TOOL_CALL"]
        assert run.verify().ok


TOLD_BY_CALLERS: list[tuple[str, dict[str, Any]]] = [
    ("RUN_START", {"config": {}}),
    ("WS_UPDATE_APPLIED", {"new_seq": 3}),
    ("WS_UPDATE_REJECTED", {"error": "no"}),
    ("MILESTONE", {"reason": "manual", "episode_id": "ep_1"}),
]


@pytest.mark.parametrize(("type", "payload"), TOLD_BY_CALLERS, ids=[type for type, _ in TOLD_BY_CALLERS])
@pytest.mark.parametrize("place", ["alone", "with its run", "under a root"])
def test_a_caller_may_tell_what_strongroom_tells_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, type: str, payload: dict[str, Any]
) -> None:
    if place == "under a root":
        monkeypatch.setenv("AOS_RUNS_ROOT", str(tmp_path))
    folder = tmp_path / "run_1"
    if place != "alone":
        started(folder)
    path = folder / "ledger" / "run.v2.1.jsonl"
    given = event("mine", event_type=type, payload=payload, timestamp="2020-01-01T01:00:00+01:00")
    result = FileLedger(path).append(given)
    assert result.ok, result.error
    assert lines_of(path)[-1] == {**given, "sequence_id": result.sequence_id}


@pytest.mark.parametrize(("type", "payload"), TOLD_BY_CALLERS, ids=[type for type, _ in TOLD_BY_CALLERS])
def test_what_a_caller_tells_is_no_part_of_the_history_that_strongroom_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type: str, payload: dict[str, Any]
) -> None:
    monkeypatch.setenv("AOS_RUNS_ROOT", str(tmp_path))
    manager = started(tmp_path / "run_1")
    assert (
        FileLedger(tmp_path / "run_1" / "ledger" / "run.v2.1.jsonl").append(event(event_type=type, payload=payload)).ok
    )
    manager.apply_patch(patch(0, status="BUSY"))
    with strongroom.open(tmp_path / "strongroom.db") as ctx:
        run = ctx.runs.get("run_1")
        told = [each.type for each in run.events()]
        assert told == ["RUN_START", f"custom.aos.{type.lower()}", "WS_UPDATE_APPLIED"]
        assert run.verify().ok and run.at(0).status == "BOOT"
        run.export(tmp_path / "pack.zip")
        assert ctx.runs.restore(tmp_path / "pack.zip", run_id="run_2").verify().ok


@pytest.mark.parametrize("rooted", [True, False])
def test_an_event_keeps_its_own_id_and_time_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rooted: bool
) -> None:
    if rooted:
        monkeypatch.setenv("AOS_RUNS_ROOT", str(tmp_path))
    started(tmp_path / "run_1")
    ledger = FileLedger(tmp_path / "run_1" / "ledger" / "run.v2.1.jsonl")
    first = event("e9", timestamp="2020-01-01T00:00:00Z")
    second = event("e10", timestamp="2020-01-01T02:00:00+02:00", parent_event_id="e9")
    assert ledger.append(first).ok and ledger.append(second).ok
    shown = [{**line, "sequence_id": None} for line in lines_of(ledger.path)[-2:]]
    assert shown == [first, second]
    store = tmp_path / "strongroom.db" if rooted else tmp_path / "run_1" / "state" / "strongroom.db"
    with strongroom.open(store) as ctx:
        told = ctx.runs.get("run_1").events()
        assert [(each.event_id, each.parent_event_id) for each in told[-2:]] == [("e9", None), ("e10", "e9")]


def test_times_are_written_as_utc() -> None:
    assert utc_iso().endswith("Z") and len(utc_iso()) == len("2026-01-01T00:00:00.000000Z")
