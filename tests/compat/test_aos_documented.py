"""The usage examples of the AoS Context Module, with only the import changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from tests.compat.aos_samples import patch, started


@pytest.mark.usefixtures("here", "zone")
def test_the_documented_session_runs_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    session()
    assert capsys.readouterr().out.splitlines() == said(at=0)
    session()
    assert capsys.readouterr().out.splitlines() == said(at=2)
    Path("./runs/my_task/state/working_set.v2.1.json").unlink()
    session()
    assert capsys.readouterr().out.splitlines() == said(at=4)


def said(at: int) -> list[str]:
    return [
        "Run ID: run_789",
        "Status: BOOT",
        f"Update Sequence: {at}",
        f"Updated successfully. New seq: {at + 1}",
        "Restored objective: Build a web scraper",
    ]


def session() -> None:
    ws_path = Path("./runs/my_task/state/working_set.v2.1.json")
    wsm = WorkingSetManager(ws_path)

    ws = wsm.create_initial(
        task_id="task_123",
        thread_id="thread_456",
        run_id="run_789",
        objective="Build a web scraper",
        acceptance_criteria=["Scrapes target site", "Saves to JSON"],
        constraints=["No rate limiting violations"],
    )
    print(f"Run ID: {ws['run_id']}")
    print(f"Status: {ws['status']}")
    print(f"Update Sequence: {ws['_update_seq']}")

    current_ws = wsm.load()
    expected_seq = current_ws["_update_seq"]
    change = {
        "_schema_version": "2.1",
        "expected_seq": expected_seq,
        "set": {"status": "BUSY", "next_action": "Start scraping", "current_stage": "EXECUTE"},
    }
    result = wsm.apply_patch(change)
    assert result.ok and result.new_ws is not None
    print(f"Updated successfully. New seq: {result.new_ws['_update_seq']}")

    snapshots_dir = Path("./snapshots")
    pack_path = wsm.create_resume_pack(snapshots_dir)
    restored_wsm = WorkingSetManager.restore_from_pack(pack_path, Path("./restored_workspace"))
    restored_ws = restored_wsm.load()
    print(f"Restored objective: {restored_ws['objective']}")


def test_a_second_patch_with_the_same_expectation_is_told_to_reload(tmp_path: Path) -> None:
    wsm = started(tmp_path)
    wsm.apply_patch(patch(0, status="BUSY"))
    result = wsm.apply_patch(patch(0, status="IDLE"))
    assert (result.ok, result.new_ws, result.error) == (False, None, "LOCK_ERROR expected_seq=0 current_seq=1")
