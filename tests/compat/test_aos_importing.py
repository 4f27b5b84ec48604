"""Run folders of the old system come into a store: whole, reported, and without touching what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import strongroom
from strongroom.compat.aos_context.episode import create_episode
from strongroom.compat.importing_aos import import_runs
from tests.compat.aos_samples import USUAL, event, old_folder, working_set

LINES = tuple(json.dumps(event(f"e{number}", sequence_id=number)) + "\n" for number in (1, 2, 3))
TORN = '{"_schema_version": "2.1", "event_id": "e4", "payl'


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def with_episode(folder: Path) -> Path:
    before, after = working_set(), working_set(_update_seq=41)
    made = create_episode(
        episodes_dir=folder / "episodes", ws_before=before, ws_after=after, ledger_events_since_last=[event()]
    )
    assert made.ok
    return folder


def test_a_run_comes_in_with_its_ledger_and_its_episodes(tmp_path: Path) -> None:
    folder = with_episode(old_folder(tmp_path / "runs" / "run_1", lines=LINES))
    report = import_runs(tmp_path / "runs", tmp_path / "agent.db")
    [told] = report.runs
    assert (told.outcome, told.run_id, told.seq, told.events, told.episodes) == ("imported", "run_1", 41, 3, 1)
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run = ctx.runs.get("run_1")
        assert run.working_set.to_dict() == json.loads((folder / USUAL).read_text())
        assert [each.event_id for each in run.events()][:3] == ["e1", "e2", "e3"]
        assert [each.ws_after.seq for each in run.episodes()] == [41]
        assert run.verify().ok
        assert run.update(expected_seq=41, status="BUSY").seq == 42


def test_a_single_run_folder_is_enough(tmp_path: Path) -> None:
    report = import_runs(old_folder(tmp_path / "run_1"), tmp_path / "agent.db")
    assert [told.outcome for told in report.runs] == ["imported"]


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    old_folder(tmp_path / "runs" / "run_1", lines=(*LINES, TORN))
    before = snapshot(tmp_path)
    report = import_runs(tmp_path / "runs", tmp_path / "agent.db", dry_run=True)
    [told] = report.runs
    assert (report.dry_run, report.ok, told.outcome, told.events) == (True, True, "would be imported", 3)
    assert snapshot(tmp_path) == before


def test_a_torn_last_line_is_reported_and_set_aside(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run_1", lines=(*LINES, TORN))
    before = snapshot(folder)
    [told] = import_runs(folder, tmp_path / "agent.db").runs
    assert (told.outcome, told.events) == ("imported", 3)
    assert any(note.startswith("run.v2.1.jsonl:4 is not an event") for note in told.notes)
    assert (folder / "ledger" / "run.v2.1.jsonl.torn").read_text() == TORN + "\n"
    assert {name: raw for name, raw in snapshot(folder).items() if not name.endswith(".torn")} == before


def test_a_line_that_swallowed_the_next_event_is_set_aside_and_the_rest_comes_in(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run_1", lines=(LINES[0], TORN, LINES[1], LINES[2]))
    [told] = import_runs(folder, tmp_path / "agent.db").runs
    assert told.events == 2 and any(":2 is not an event" in note for note in told.notes)


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run_1", lines=LINES)
    import_runs(folder, tmp_path / "agent.db")
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.runs.get("run_1").update(expected_seq=41, status="BUSY")
    for dry_run in (True, False):
        [told] = import_runs(folder, tmp_path / "agent.db", dry_run=dry_run).runs
        assert told.outcome == "already there"
    with strongroom.open(tmp_path / "agent.db") as ctx:
        assert ctx.runs.get("run_1").seq == 42


@pytest.mark.parametrize("content", ['{"_schema_version": "2.1"}{}', "", json.dumps(working_set(status="ASLEEP"))])
def test_an_unreadable_run_is_refused_and_the_others_come_in(tmp_path: Path, content: str) -> None:
    old_folder(tmp_path / "runs" / "a")
    (old_folder(tmp_path / "runs" / "b", run_id="run_2") / USUAL).write_text(content)
    report = import_runs(tmp_path / "runs", tmp_path / "agent.db")
    assert [told.outcome for told in report.runs] == ["imported", "refused"]
    assert not report.ok and report.runs[1].notes


def test_a_broken_episode_is_left_out_and_reported(tmp_path: Path) -> None:
    folder = with_episode(old_folder(tmp_path / "run_1"))
    (folder / "episodes" / "ep_bad.v2.1.json").write_text("{}")
    [told] = import_runs(folder, tmp_path / "agent.db").runs
    assert told.episodes == 1 and any("ep_bad" in note for note in told.notes)


def test_artifacts_are_mentioned(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run_1")
    (folder / "artifacts").mkdir()
    (folder / "artifacts" / "page.html").write_text("x")
    [told] = import_runs(folder, tmp_path / "agent.db").runs
    assert any("artifacts" in note for note in told.notes)


def test_an_open_context_can_be_the_target(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        assert import_runs(old_folder(tmp_path / "run_1"), ctx).ok
        assert ctx.runs.get("run_1").seq == 41


def test_the_report_is_readable(tmp_path: Path) -> None:
    folder = old_folder(tmp_path / "run_1", lines=LINES)
    assert str(import_runs(folder, "memory://")) == f"{folder}: imported: run_1 at seq 41, 3 events, 0 episodes"
    (tmp_path / "empty").mkdir()
    assert str(import_runs(tmp_path / "empty", "memory://")) == "no run folders found"


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(strongroom.NotFound):
        import_runs(tmp_path / "none", "memory://")
