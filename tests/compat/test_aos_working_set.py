"""WorkingSetManager: what its users rely on, and what it must never do again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import strongroom
from strongroom.blocking.runs import Run
from strongroom.compat import stores
from strongroom.compat.aos_context.config import ContextConfig
from strongroom.compat.aos_context.validation import ValidationError
from strongroom.compat.aos_context.ws_manager import WorkingSetManager, WSExistsError, WSLockError, WSSizeError
from strongroom.errors import Unavailable
from tests.compat.aos_samples import INITIAL, USUAL, old_folder, patch, sliding, started, working_set

READ_MODIFY_WRITE = """
import sys
from pathlib import Path
from strongroom.compat.aos_context.ws_manager import WorkingSetManager

manager, name = WorkingSetManager(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    while True:
        ws = manager.load()
        wanted = {"blockers": [*ws["blockers"], f"{name}{number}"]}
        patch = {"_schema_version": "2.1", "expected_seq": ws["_update_seq"], "set": wanted}
        result = manager.apply_patch(patch)
        if result.ok:
            break
        assert result.error.startswith("LOCK_ERROR"), result.error
"""


# ---- writers that meet ----------------------------------------------------------------------------------------------


def test_two_processes_lose_no_update(tmp_path: Path) -> None:
    manager = started(tmp_path, config=ContextConfig(ws_max_tokens=100_000))
    path = str(manager.ws_path)
    writers = [subprocess.Popen([sys.executable, "-c", READ_MODIFY_WRITE, path, name, "100"]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    ws = manager.load()
    assert ws["_update_seq"] == 200
    assert sorted(ws["blockers"]) == sorted(f"{name}{number}" for name in "ab" for number in range(100))
    assert json.loads(manager.ws_path.read_text()) == ws


def test_patches_of_differing_size_from_many_threads_leave_a_readable_file(tmp_path: Path) -> None:
    manager = started(tmp_path)

    def write(name: str) -> None:
        for number in range(15):
            manager.apply_patch(patch(manager.load()["_update_seq"], next_action=name * (number * 7 % 60)))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert json.loads(manager.ws_path.read_text()) == manager.load()


def test_a_killed_writer_leaves_no_temporary_file_in_the_way(tmp_path: Path) -> None:
    manager = started(tmp_path)
    (tmp_path / "state" / "working_set.v2.1.tmp").write_text("left by somebody")
    assert manager.apply_patch(patch(0, status="BUSY")).ok


def test_a_patch_that_sets_nothing_counts(tmp_path: Path) -> None:
    manager = started(tmp_path)
    result = manager.apply_patch(patch(0))
    assert result.ok and result.new_ws is not None and result.new_ws["_update_seq"] == 1
    assert not manager.apply_patch(patch(0)).ok


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_an_immutable_field_is_named(tmp_path: Path) -> None:
    result = started(tmp_path).apply_patch(patch(0, objective="another"))
    assert result.error == "immutable field in patch: objective"


@pytest.mark.parametrize(
    "wrong",
    [
        {"expected_seq": 0, "set": {}},
        patch(0, colour="red"),
        patch(0, actor="somebody"),
        patch(0, status="ASLEEP"),
        patch(0, sliding_context=[sliding("a", at="banana")]),
        patch(0, pinned_context=[{"id": str(n), "content": "x", "source_ref": ""} for n in range(11)]),
        {**patch(0), "more": 1},
        [],
    ],
)
def test_a_malformed_patch_is_refused_and_changes_nothing(tmp_path: Path, wrong: dict[str, object]) -> None:
    manager = started(tmp_path)
    result = manager.apply_patch(wrong)
    assert not result.ok and str(result.error).startswith("patch schema: ")
    assert manager.load()["_update_seq"] == 0


def test_refusals_are_in_the_ledger(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.apply_patch(patch(7, status="BUSY"))
    manager.apply_patch(patch(0, colour="red"))
    manager.apply_patch(patch(0, next_action="word " * 3000))
    with strongroom.open(tmp_path / "state" / "strongroom.db") as ctx:
        types = [event.type for event in ctx.runs.get("run_1").events()]
    assert types == ["RUN_START"] + ["WS_UPDATE_REJECTED"] * 3


def test_a_store_that_fails_is_a_failed_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = started(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full; nothing changed", reason="disk_full")

    monkeypatch.setattr(Run, "update", full)
    result = manager.apply_patch(patch(0, status="BUSY"))
    assert (result.ok, result.error) == (False, "save: the disk is full; nothing changed")


def test_a_patch_without_a_run_finds_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WorkingSetManager(tmp_path / USUAL).apply_patch(patch(0))


# ---- eviction -------------------------------------------------------------------------------------------------------


def test_a_priority_nine_item_survives_among_twenty_of_priority_one(tmp_path: Path) -> None:
    manager = started(tmp_path, config=ContextConfig(ws_max_tokens=400))
    items = [sliding(f"low{n}", "x" * 100) for n in range(20)]
    result = manager.apply_patch(
        patch(0, sliding_context=[*items[:10], sliding("top", "y" * 100, priority=9), *items[10:]])
    )
    assert result.ok and result.new_ws is not None
    kept = {each["id"] for each in result.new_ws["sliding_context"]}
    assert "top" in kept and len(kept) < 21


def test_a_longer_next_action_evicts_instead_of_being_refused(tmp_path: Path) -> None:
    manager = started(tmp_path)
    items = [sliding(f"s{n}", "x" * 400, at=f"2026-01-01T00:00:{n:02d}Z") for n in range(18)]
    assert manager.apply_patch(patch(0, sliding_context=items)).ok
    result = manager.apply_patch(patch(1, next_action="y" * 300))
    assert result.ok, result.error
    assert result.evicted and result.evicted[0] == min(result.evicted)


def test_four_hundred_tiny_items_are_cut_down_to_those_that_fit(tmp_path: Path) -> None:
    result = started(tmp_path).apply_patch(patch(0, sliding_context=[sliding(f"s{n}", "x") for n in range(400)]))
    assert result.ok and result.new_ws is not None
    assert 0 < len(result.new_ws["sliding_context"]) < 400


def test_an_item_that_cannot_fit_is_refused_while_lesser_ones_stay(tmp_path: Path) -> None:
    manager = started(tmp_path)
    small = sliding("small", priority=0)
    manager.apply_patch(patch(0, sliding_context=[small]))
    result = manager.apply_patch(patch(1, sliding_context=[small, sliding("big", "x" * 9000, priority=9)]))
    assert str(result.error).startswith("WS_SIZE_ERROR: ")
    assert manager.load()["sliding_context"] == [small]


def test_times_are_compared_as_moments_whatever_their_offset(tmp_path: Path) -> None:
    manager = started(tmp_path, config=ContextConfig(ws_max_tokens=330))
    later = sliding("later", "x" * 600, at="2026-01-01T09:30:00-05:00")
    earlier = sliding("earlier", "x" * 600, at="2026-01-01T10:00:00Z")
    result = manager.apply_patch(patch(0, sliding_context=[later, earlier]))
    assert result.evicted == ("earlier",)


def test_a_pinned_cap_of_zero_keeps_none(tmp_path: Path) -> None:
    manager = started(tmp_path, config=ContextConfig(pinned_context_max_items=0))
    result = manager.apply_patch(patch(0, pinned_context=[{"id": "p", "content": "x", "source_ref": ""}]))
    assert str(result.error).startswith("WS_SIZE_ERROR: ")
    assert manager.load()["pinned_context"] == []


def test_pinned_items_over_the_cap_are_refused_not_dropped(tmp_path: Path) -> None:
    manager = started(tmp_path, config=ContextConfig(pinned_context_max_items=2))
    pinned = [{"id": str(n), "content": "x", "source_ref": ""} for n in range(3)]
    assert not manager.apply_patch(patch(0, pinned_context=pinned)).ok
    assert manager.apply_patch(patch(0, pinned_context=pinned[:2])).ok


# ---- starting, saving, looking --------------------------------------------------------------------------------------


def test_an_objective_over_the_budget_is_a_size_error(tmp_path: Path) -> None:
    with pytest.raises(WSSizeError):
        started(tmp_path, objective="x" * 10_000)


def test_an_empty_objective_is_a_validation_error(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        started(tmp_path, objective="")


def test_a_run_that_starts_again_starts_over_and_its_history_stays(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.apply_patch(patch(0, status="BUSY", next_action="x", sliding_context=[sliding("a")]))
    again = manager.create_initial(**{**INITIAL, "constraints": ["another"]})
    assert (again["_update_seq"], again["status"], again["next_action"], again["sliding_context"]) == (
        2,
        "BOOT",
        "",
        [],
    )
    assert again["constraints"] == ["another"]
    assert manager.load() == again == json.loads((tmp_path / USUAL).read_text())
    with strongroom.open(tmp_path / "state" / "strongroom.db") as ctx:
        run = ctx.runs.get("run_1")
        assert (run.at(0).status, run.at(1).status, run.at(1).next_action) == ("BOOT", "BUSY", "x")
        assert run.verify().ok


def test_a_stale_writer_of_the_state_before_is_still_refused(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.apply_patch(patch(0, status="BUSY"))
    manager.create_initial(**INITIAL)
    assert str(manager.apply_patch(patch(0, status="IDLE")).error).startswith("LOCK_ERROR")


def test_a_run_starts_again_after_its_file_was_deleted(tmp_path: Path) -> None:
    manager = started(tmp_path)
    (tmp_path / USUAL).unlink()
    assert manager.create_initial(**INITIAL)["status"] == "BOOT"
    assert (tmp_path / USUAL).exists()


def test_another_run_at_the_same_path_takes_its_place_and_the_first_one_stays(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.apply_patch(patch(0, status="BUSY"))
    other = manager.create_initial(**{**INITIAL, "objective": "another", "run_id": "run_2"})
    assert (other["_update_seq"], manager.load()["run_id"]) == (0, "run_2")
    assert WorkingSetManager(tmp_path / USUAL).load()["objective"] == "another"
    with strongroom.open(tmp_path / "state" / "strongroom.db") as ctx:
        assert ctx.runs.get("run_1").working_set.status == "BUSY"


@pytest.mark.parametrize("field", ["objective", "task_id", "thread_id"])
def test_what_a_run_is_about_never_changes(tmp_path: Path, field: str) -> None:
    manager = started(tmp_path)
    manager.apply_patch(patch(0, status="BUSY"))
    for error in (WSExistsError, WSLockError, FileExistsError):
        with pytest.raises(error, match="nothing changed"):
            manager.create_initial(**{**INITIAL, field: "another"})
    assert (manager.load()["_update_seq"], manager.load()["status"]) == (1, "BUSY")


def test_a_pack_restored_onto_its_own_folder_rolls_back_and_the_history_stays(tmp_path: Path) -> None:
    original = started(tmp_path / "run")
    pack = original.create_resume_pack(tmp_path / "packs")
    manager = WorkingSetManager.restore_from_pack(pack, tmp_path / "to")
    manager.apply_patch(patch(0, status="BUSY"))
    manager.apply_patch(patch(1, status="FAILED"))
    again = WorkingSetManager.restore_from_pack(pack, tmp_path / "to").load()
    assert {**again, "_update_seq": 0} == original.load()
    with strongroom.open(tmp_path / "to" / "strongroom.db", space="working_set.json") as ctx:
        assert [ctx.runs.get("run_1").at(seq).status for seq in range(4)] == ["BOOT", "BUSY", "FAILED", "BOOT"]


def test_packs_of_two_runs_take_turns_in_a_folder(tmp_path: Path) -> None:
    packs = [
        started(tmp_path / name, run_id=name).create_resume_pack(tmp_path / "packs") for name in ("run_a", "run_b")
    ]
    for pack, name in [(packs[0], "run_a"), (packs[1], "run_b"), (packs[0], "run_a")]:
        assert WorkingSetManager.restore_from_pack(pack, tmp_path / "to").load()["run_id"] == name


def test_looking_for_a_run_creates_nothing(tmp_path: Path) -> None:
    manager = WorkingSetManager(tmp_path / "nobody" / USUAL)
    assert not manager.exists()
    with pytest.raises(FileNotFoundError):
        manager.load()
    assert list(tmp_path.iterdir()) == []


def test_what_load_returns_is_the_callers_own(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.load()["constraints"].append("mine")
    assert manager.load()["constraints"] == INITIAL["constraints"]


def test_files_beside_each_other_may_hold_runs_of_the_same_id(tmp_path: Path) -> None:
    first, second = WorkingSetManager(tmp_path / "a.json"), WorkingSetManager(tmp_path / "b.json")
    first.create_initial(**INITIAL)
    second.create_initial(**{**INITIAL, "objective": "another"})
    assert (first.load()["objective"], second.load()["objective"]) == (INITIAL["objective"], "another")


def test_saving_a_new_document_makes_its_run(tmp_path: Path) -> None:
    manager = WorkingSetManager(tmp_path / USUAL)
    manager.save(working_set(_update_seq=3))
    assert manager.load() == working_set(_update_seq=3)


def test_saving_what_was_loaded_and_changed_is_the_next_update(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.save({**manager.load(), "status": "BUSY"})
    assert (manager.load()["status"], manager.load()["_update_seq"]) == ("BUSY", 1)


def test_saving_a_stale_document_is_refused(tmp_path: Path) -> None:
    manager = started(tmp_path)
    stale = manager.load()
    for seq in range(2):
        manager.apply_patch(patch(seq, next_action=str(seq)))
    with pytest.raises(WSLockError, match="LOCK_ERROR expected_seq=0 current_seq=2"):
        manager.save({**stale, "status": "BUSY"})


def test_saving_something_else_is_a_validation_error(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        WorkingSetManager(tmp_path / USUAL).save({"objective": "only"})


# ---- the file and its store -----------------------------------------------------------------------------------------


def test_a_file_without_a_store_is_taken_in_at_its_own_sequence_number(tmp_path: Path) -> None:
    manager = WorkingSetManager(old_folder(tmp_path / "run", seq=41) / USUAL)
    assert manager.exists() and manager.load()["_update_seq"] == 41
    assert manager.apply_patch(patch(41, status="BUSY")).ok


def test_a_broken_file_without_a_store_is_a_validation_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / USUAL).write_text('{"_schema_version": "2.1"}{}')
    with pytest.raises(ValidationError):
        WorkingSetManager(tmp_path / USUAL).load()


def test_the_store_is_the_truth_and_mends_the_file_at_the_next_change(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.ws_path.write_text("scribbled over")
    assert manager.load()["_update_seq"] == 0
    manager.apply_patch(patch(0, status="BUSY"))
    assert json.loads(manager.ws_path.read_text())["status"] == "BUSY"


def test_a_folder_that_was_removed_can_hold_a_new_run(tmp_path: Path) -> None:
    started(tmp_path / "run").apply_patch(patch(0, status="BUSY"))
    shutil.rmtree(tmp_path / "run")
    assert started(tmp_path / "run").load()["_update_seq"] == 0


def test_a_forked_child_opens_stores_of_its_own(tmp_path: Path) -> None:
    manager = started(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0 if manager.apply_patch(patch(0, status="BUSY")).ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert manager.load()["status"] == "BUSY"


def test_a_short_relative_path_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manager = WorkingSetManager(Path("ws.json"))
    manager.create_initial(**INITIAL)
    assert manager.ws_path == Path("ws.json") and WorkingSetManager(tmp_path / "ws.json").load() == manager.load()


def test_more_runs_than_stores_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_OPEN", 2)
    managers = [started(tmp_path / str(number)) for number in range(5)]
    assert len(stores._stores._open) <= 2
    assert all(manager.apply_patch(patch(0, status="BUSY")).ok for manager in managers)


def test_a_file_that_cannot_be_written_is_a_warning_and_the_update_stands(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.ws_path.unlink()
    manager.ws_path.mkdir()
    with pytest.warns(RuntimeWarning, match="could not be brought up to date"):
        assert manager.apply_patch(patch(0, status="BUSY")).ok
    assert manager.load()["_update_seq"] == 1


def test_what_points_elsewhere_need_not_say_more_than_what_it_is(tmp_path: Path) -> None:
    wsm = started(tmp_path)
    refs = [{"type": "file", "id": "a"}, {"type": "file", "id": "b", "path": "b.txt"}]
    result = wsm.apply_patch(patch(0, artifact_refs=refs, pinned_context=[{"id": "p", "content": "words"}]))
    assert result.ok, result.error
    assert wsm.load()["artifact_refs"] == refs
    assert wsm.load()["pinned_context"] == [{"id": "p", "content": "words", "source_ref": ""}]
    restored = WorkingSetManager.restore_from_pack(wsm.create_resume_pack(tmp_path / "packs"), tmp_path / "restored")
    assert restored.load() == wsm.load()


def test_an_old_file_with_such_pointers_is_taken_in(tmp_path: Path) -> None:
    ws = working_set(artifact_refs=[{"type": "file", "id": "a"}], pinned_context=[{"id": "p", "content": "words"}])
    (tmp_path / "state").mkdir()
    (tmp_path / USUAL).write_text(json.dumps(ws))
    assert WorkingSetManager(tmp_path / USUAL).load()["artifact_refs"] == ws["artifact_refs"]
    with strongroom.open(tmp_path / "state" / "strongroom.db") as ctx:
        assert ctx.runs.get("run_1").fork().working_set.artifact_refs[0].sha256 == ""
