"""Resume packs through the old names: whole or not at all, nothing outside, nothing destroyed."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

import strongroom
from strongroom.compat.aos_context.episode import create_episode
from strongroom.compat.aos_context.ledger import FileLedger
from strongroom.compat.aos_context.resume_pack import load_resume_pack, snapshot_resume_pack
from strongroom.compat.aos_context.ws_manager import WorkingSetManager, WSExistsError
from tests.compat.aos_samples import USUAL, episode, event, lines_of, old_pack_folder, patch, started, working_set


def plain_pack(path: Path, content: object) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("working_set.json", json.dumps(content))
    return path


def old_pack(path: Path, **entries: str) -> Path:
    """Make a pack as the old system did: a manifest of hashes, and files in their folders."""
    files = {"state/working_set.v2.1.json": json.dumps(working_set(_update_seq=7)), **entries}
    manifest = {
        "_schema_version": "2.1",
        "pack_id": "pack_ab",
        "created_at": "2026-01-01T00:00:00Z",
        "compatible_engine_versions": ["aos-context/2.1.0"],
        "files": {name: sha256(text.encode()).hexdigest() for name, text in files.items()},
        "pointers": {},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**files, "manifest.json": json.dumps(manifest)}.items():
            if not name.startswith(".."):
                archive.writestr(name, text)
    return path


# ---- create_resume_pack and restore_from_pack -----------------------------------------------------------------------


def test_a_pack_is_named_after_its_task_and_holds_the_working_set(tmp_path: Path) -> None:
    manager = started(tmp_path / "run")
    pack = manager.create_resume_pack(tmp_path / "packs")
    assert pack.match("task_task_1_resume_*.zip")
    with zipfile.ZipFile(pack) as archive:
        assert json.loads(archive.read("working_set.json")) == manager.load()
        assert "run.jsonl" in archive.namelist()


def test_a_pack_made_twice_in_a_second_is_two_packs(tmp_path: Path) -> None:
    manager = started(tmp_path / "run")
    assert manager.create_resume_pack(tmp_path) != manager.create_resume_pack(tmp_path)
    assert len(list(tmp_path.glob("*.zip"))) == 2


def test_a_task_id_with_a_slash_makes_a_pack_in_the_folder_asked_for(tmp_path: Path) -> None:
    manager = started(tmp_path / "run", task_id="team/../task")
    assert manager.create_resume_pack(tmp_path / "packs").parent == tmp_path / "packs"


def test_a_restored_run_goes_on_with_its_ledger_and_so_does_its_next_pack(tmp_path: Path) -> None:
    manager = started(tmp_path / "run")
    FileLedger(tmp_path / "run" / "ledger" / "run.v2.1.jsonl").append(event())
    restored = WorkingSetManager.restore_from_pack(manager.create_resume_pack(tmp_path), tmp_path / "restored")
    assert restored.load() == manager.load()
    with zipfile.ZipFile(restored.create_resume_pack(tmp_path / "again")) as archive:
        types = [json.loads(line)["event_type"] for line in archive.read("run.jsonl").splitlines()]
    assert types == ["RUN_START", "TOOL_CALL", "RESTORED"]
    assert [line["event_type"] for line in lines_of(tmp_path / "restored" / "run.jsonl")][:2] == types[:2]


def test_a_pack_of_only_a_working_set_is_restored(tmp_path: Path) -> None:
    restored = WorkingSetManager.restore_from_pack(plain_pack(tmp_path / "p.zip", working_set()), tmp_path / "to")
    assert restored.load() == working_set()


def test_an_invalid_pack_is_a_value_error_and_leaves_nothing(tmp_path: Path) -> None:
    pack = plain_pack(tmp_path / "p.zip", {"objective": "x"})
    with pytest.raises(ValueError, match="Invalid working set schema"):
        WorkingSetManager.restore_from_pack(pack, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_missing_pack_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WorkingSetManager.restore_from_pack(tmp_path / "none.zip", tmp_path / "to")


def test_a_refused_pack_leaves_the_run_that_is_there_alone(tmp_path: Path) -> None:
    target = WorkingSetManager.restore_from_pack(plain_pack(tmp_path / "a.zip", working_set()), tmp_path / "to")
    before = (tmp_path / "to" / "working_set.json").read_bytes()
    with pytest.raises(ValueError, match="Invalid working set schema"):
        WorkingSetManager.restore_from_pack(plain_pack(tmp_path / "b.zip", {}), tmp_path / "to")
    with pytest.raises(WSExistsError):
        other = plain_pack(tmp_path / "c.zip", working_set(objective="of the same id"))
        WorkingSetManager.restore_from_pack(other, tmp_path / "to")
    assert (tmp_path / "to" / "working_set.json").read_bytes() == before
    assert target.load() == working_set()


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("working_set.json", json.dumps(working_set()))
        archive.writestr("run.jsonl", b"\n" * 50_000_000)
    with pytest.raises(ValueError, match="refused"):
        WorkingSetManager.restore_from_pack(tmp_path / "bomb.zip", tmp_path / "to")
    assert not (tmp_path / "to").exists()


# ---- snapshot_resume_pack and load_resume_pack ----------------------------------------------------------------------


@pytest.mark.parametrize("which", ["pack_zip", "pack_dir"])
def test_a_snapshot_comes_back_from_its_zip_and_from_its_folder(tmp_path: Path, which: str) -> None:
    manager = started(tmp_path / "run")
    manager.apply_patch(patch(0, status="BUSY"))
    made = snapshot_resume_pack(run_dir=tmp_path / "run", output_dir=tmp_path / "out", pointers={"note": "mine"})
    assert made.ok and made.manifest_path is not None, made.error
    manifest = json.loads(made.manifest_path.read_text())
    assert manifest["pack_id"] == made.pack_id
    assert manifest["pointers"]["note"] == "mine"
    assert manifest["compatible_engine_versions"] == ["aos-context/2.1.0"]
    loaded = load_resume_pack(pack_path=getattr(made, which), target_run_dir=tmp_path / "to", new_run_id="to")
    assert (loaded.ok, loaded.run_id, loaded.ws) == (True, "to", {**manager.load(), "run_id": "to"})


def test_without_an_id_a_pack_becomes_a_new_run_in_a_folder_of_its_own(tmp_path: Path) -> None:
    manager = started(tmp_path / "run_1")
    made = snapshot_resume_pack(run_dir=tmp_path / "run_1", output_dir=tmp_path / "run_1" / "resume")
    manager.apply_patch(patch(0, status="BUSY"))
    assert made.pack_zip is not None
    found = [load_resume_pack(pack_path=made.pack_zip, target_run_dir=tmp_path / "run_1") for _ in range(2)]
    assert len({loaded.run_id for loaded in found}) == 2
    for loaded in found:
        assert loaded.run_id is not None and loaded.ws is not None, loaded.error
        assert re.fullmatch("run_[0-9a-f]{32}", loaded.run_id) and loaded.ws["status"] == "BOOT"
        assert WorkingSetManager(tmp_path / loaded.run_id / USUAL).load() == loaded.ws
    assert manager.load()["status"] == "BUSY"


def test_a_snapshot_need_not_be_a_zip(tmp_path: Path) -> None:
    started(tmp_path / "run")
    made = snapshot_resume_pack(run_dir=tmp_path / "run", output_dir=tmp_path / "out", zip_pack=False)
    assert made.ok and made.pack_zip is None and list((tmp_path / "out").iterdir()) == [made.pack_dir]


def test_a_new_run_id_is_in_the_working_set_too(tmp_path: Path) -> None:
    started(tmp_path / "run")
    made = snapshot_resume_pack(run_dir=tmp_path / "run", output_dir=tmp_path / "out")
    assert made.pack_zip is not None
    loaded = load_resume_pack(pack_path=made.pack_zip, target_run_dir=tmp_path / "to", new_run_id="run_2")
    assert loaded.ws is not None and (loaded.run_id, loaded.ws["run_id"]) == ("run_2", "run_2")
    assert WorkingSetManager(tmp_path / "run_2" / USUAL).load()["run_id"] == "run_2"


def test_loading_under_the_id_of_a_run_takes_it_back_and_keeps_its_history(tmp_path: Path) -> None:
    manager = started(tmp_path / "run_1")
    made = snapshot_resume_pack(run_dir=tmp_path / "run_1", output_dir=tmp_path / "out")
    manager.apply_patch(patch(0, status="BUSY"))
    assert made.pack_zip is not None
    loaded = load_resume_pack(pack_path=made.pack_zip, target_run_dir=tmp_path / "run_1", new_run_id="run_1")
    assert (loaded.ok, loaded.run_id, loaded.ws) == (True, "run_1", manager.load())
    assert (manager.load()["status"], manager.load()["_update_seq"]) == ("BOOT", 2)
    with strongroom.open(tmp_path / "run_1" / "state" / "strongroom.db") as ctx:
        assert ctx.runs.get("run_1").at(1).status == "BUSY"


def test_loading_over_another_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    started(tmp_path / "run_1")
    victim = started(tmp_path / "victim", objective="mine", run_id="victim")
    made = snapshot_resume_pack(run_dir=tmp_path / "run_1", output_dir=tmp_path / "out")
    assert made.pack_zip is not None
    loaded = load_resume_pack(pack_path=made.pack_zip, target_run_dir=tmp_path / "victim", new_run_id="victim")
    assert not loaded.ok and "another run" in str(loaded.error)
    assert victim.load()["objective"] == "mine"


@pytest.mark.parametrize("run_id", ["../../x", "/tmp/x", "..", ".hidden", "a/b", "a\\b"])
def test_a_new_run_id_cannot_lead_out_of_the_folder(tmp_path: Path, run_id: str) -> None:
    plain_pack(tmp_path / "made.zip", working_set())
    assert not load_resume_pack(pack_path=tmp_path / "made.zip", target_run_dir=tmp_path / "to", new_run_id=run_id).ok
    assert [path.name for path in tmp_path.iterdir()] == ["made.zip"]


def test_loading_a_zip_leaves_the_folder_of_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious.txt").write_text("mine")
    plain_pack(tmp_path / "victim.zip", working_set())
    assert load_resume_pack(pack_path=tmp_path / "victim.zip", target_run_dir=tmp_path / "to").ok
    assert (tmp_path / "victim" / "precious.txt").read_text() == "mine"


def test_a_snapshot_of_no_run_says_so(tmp_path: Path) -> None:
    made = snapshot_resume_pack(run_dir=tmp_path / "none", output_dir=tmp_path / "out")
    assert not made.ok and "no working set" in str(made.error)


def test_a_link_in_a_pack_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text(json.dumps(event("secret", sequence_id=1)) + "\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "working_set.json").write_text(json.dumps(working_set()))
    (tmp_path / "pack" / "run.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert load_resume_pack(pack_path=tmp_path / "pack", target_run_dir=tmp_path / "to", new_run_id="to").ok
    assert "secret" not in (tmp_path / "to" / "ledger" / "run.v2.1.jsonl").read_text()


# ---- packs the old system made --------------------------------------------------------------------------------------


def test_an_old_pack_comes_in_with_its_ledger(tmp_path: Path) -> None:
    ledger = json.dumps(event("old", sequence_id=1)) + "\n"
    pack = old_pack(tmp_path / "old.zip", **{"ledger/run.v2.1.jsonl": ledger})
    loaded = load_resume_pack(pack_path=pack, target_run_dir=tmp_path / "to", new_run_id="to")
    assert loaded.ws is not None and loaded.ws["_update_seq"] == 7
    assert lines_of(tmp_path / "to" / "ledger" / "run.v2.1.jsonl")[0]["event_id"] == "old"


@pytest.mark.parametrize("kind", ["folder", "zip with folder entries", "zip of files alone"])
@pytest.mark.parametrize("run_id", [None, "run_2"])
def test_a_pack_as_the_old_system_wrote_it_comes_in_whole(tmp_path: Path, kind: str, run_id: str | None) -> None:
    pack = old_pack_folder(tmp_path / "pack_ab")
    if kind == "zip with folder entries":
        pack = Path(shutil.make_archive(str(tmp_path / "made"), "zip", root_dir=pack))
    elif kind == "zip of files alone":
        with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
            for path in sorted(pack.rglob("*.json*")):
                archive.write(path, path.relative_to(pack))
        pack = tmp_path / "made.zip"
    loaded = load_resume_pack(pack_path=pack, target_run_dir=tmp_path / "to", new_run_id=run_id)
    assert loaded.ok and loaded.ws is not None, loaded.error
    assert (loaded.run_id, loaded.ws["_update_seq"]) == (run_id or loaded.ws["run_id"], 7)
    folder = tmp_path / str(loaded.run_id)
    assert lines_of(folder / "ledger" / "run.v2.1.jsonl")[0]["event_id"] == "old"
    brought = json.loads((folder / "episodes" / "ep_0a.v2.1.json").read_text())
    assert (brought["summary"], brought["ws_after"]["run_id"]) == ("as it was", loaded.run_id)


def test_an_old_pack_whose_episode_was_altered_is_refused(tmp_path: Path) -> None:
    pack = old_pack_folder(tmp_path / "pack_ab")
    (pack / "episodes" / "ep_0a.v2.1.json").write_text(json.dumps(episode("ep_0b", working_set())))
    loaded = load_resume_pack(pack_path=pack, target_run_dir=tmp_path / "to")
    assert not loaded.ok and "not what the manifest says" in str(loaded.error)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("rooted", [True, False])
def test_a_pack_holds_the_episodes_of_its_run_folder_and_brings_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rooted: bool
) -> None:
    if rooted:
        monkeypatch.setenv("AOS_RUNS_ROOT", str(tmp_path))
    manager = started(tmp_path / "run_1")
    before = manager.load()
    manager.apply_patch(patch(0, status="BUSY"))
    made = create_episode(
        episodes_dir=tmp_path / "run_1" / "episodes",
        ws_before=before,
        ws_after=manager.load(),
        ledger_events_since_last=[event("e1")],
        memory_commit_ids=["mem_elsewhere"],
        next_entry_point="go on",
    )
    assert made.episode_path is not None
    for _ in range(2):  # the second pack holds it once, too
        pack = snapshot_resume_pack(run_dir=tmp_path / "run_1", output_dir=tmp_path / "out")
        assert pack.pack_zip is not None, pack.error
        with zipfile.ZipFile(pack.pack_zip) as archive:
            assert len([name for name in archive.namelist() if name.startswith("episodes/")]) == 1
    assert pack.pack_zip is not None
    loaded = load_resume_pack(pack_path=pack.pack_zip, target_run_dir=tmp_path / "run_2", new_run_id="run_2")
    assert loaded.ok, loaded.error
    given = json.loads(made.episode_path.read_text())
    [path] = (tmp_path / "run_2" / "episodes").iterdir()
    expected = given | {side: given[side] | {"run_id": "run_2"} for side in ("ws_before", "ws_after")}
    assert json.loads(path.read_text()) == expected


def test_a_run_with_episodes_of_its_folder_is_sound(tmp_path: Path) -> None:
    manager = started(tmp_path / "run")
    for id in ("ep_02", "ep_01"):
        (tmp_path / "run" / "episodes").mkdir(exist_ok=True)
        (tmp_path / "run" / "episodes" / f"{id}.v2.1.json").write_text(json.dumps(episode(id, manager.load())))
    (tmp_path / "run" / "episodes" / "none.v2.1.json").write_text("{}")
    manager.create_resume_pack(tmp_path / "out")
    with strongroom.open(tmp_path / "run" / "state" / "strongroom.db") as ctx:
        run = ctx.runs.get("run_1")
        assert [each.episode_id for each in run.episodes()] == ["ep_01", "ep_02"]
        assert run.verify().ok
        assert run.milestone("later").first_event == 1


def test_a_manifest_entry_outside_the_pack_reads_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("mine")
    pack = old_pack(tmp_path / "old.zip", **{"../../secret.txt": "mine"})
    assert load_resume_pack(pack_path=pack, target_run_dir=tmp_path / "deep" / "er" / "to").ok
    assert list(tmp_path.rglob("secret.txt")) == [tmp_path / "secret.txt"]
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "old.zip", "secret.txt"}


def test_an_old_pack_that_was_altered_is_refused(tmp_path: Path) -> None:
    pack = old_pack(tmp_path / "old.zip")
    with zipfile.ZipFile(pack) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["files"]["state/working_set.v2.1.json"] = "0" * 64
    with zipfile.ZipFile(pack, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("state/working_set.v2.1.json", json.dumps(working_set()))
    loaded = load_resume_pack(pack_path=pack, target_run_dir=tmp_path / "to")
    assert not loaded.ok and "not what the manifest says" in str(loaded.error)
    assert not (tmp_path / "to").exists()
