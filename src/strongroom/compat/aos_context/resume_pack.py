"""Resume packs by folder: `<run>/` out to `pack_<hex>`, and back into another `<run>/`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strongroom.codec import encode
from strongroom.compat.aos_context import _legacy, _locations
from strongroom.compat.aos_context.ws_manager import WorkingSetManager
from strongroom.errors import StrongroomError
from strongroom.services.packs.archive import MANIFEST, PackWriter
from strongroom.services.runs.packs import PackReader


@dataclass
class ResumePackResult:
    ok: bool
    pack_dir: Path | None = None
    pack_zip: Path | None = None
    manifest_path: Path | None = None
    pack_id: str | None = None
    error: str | None = None


@dataclass
class LoadResumePackResult:
    ok: bool
    run_id: str | None = None
    ws: dict[str, Any] | None = None
    error: str | None = None


def snapshot_resume_pack(
    *,
    run_dir: Path,
    output_dir: Path,
    engine_versions: list[str] | None = None,
    pointers: dict[str, Any] | None = None,
    zip_pack: bool = True,
) -> ResumePackResult:
    """Write a run to `pack_<hex>/` under a folder, and to `pack_<hex>.zip` beside that unless told not to."""
    output = Path(output_dir)
    try:
        made = WorkingSetManager(_working_set(Path(run_dir))).create_resume_pack(output)
        try:
            pack_id = _finish(made, engine_versions, pointers or {})
            folder, archive = output / pack_id, output / f"{pack_id}.zip"
            with zipfile.ZipFile(made) as written:
                written.extractall(folder)
            if zip_pack:
                made.replace(archive)
        finally:
            made.unlink(missing_ok=True)
    except (OSError, ValueError, StrongroomError) as problem:
        return ResumePackResult(False, error=str(problem))
    return ResumePackResult(True, folder, archive if zip_pack else None, folder / MANIFEST, pack_id)


def load_resume_pack(*, pack_path: Path, target_run_dir: Path, new_run_id: str | None = None) -> LoadResumePackResult:
    """Bring a run back from a pack, zip or folder, as a new run, in a folder of its id beside `target_run_dir`.

    Given the id of a run that is there, that run goes back to what the pack holds, as an update, so its history stays.
    Nothing is written before the whole pack has been checked.
    """
    run_id = new_run_id or new_run()
    try:
        if not _locations.SAFE_ID.fullmatch(run_id):
            raise ValueError("a run id is letters, digits, '.', '_' and '-'; nothing changed")
        folder = Path(target_run_dir).absolute().parent / run_id
        with _legacy.restorable(Path(pack_path)) as pack:
            ws = WorkingSetManager(_working_set(folder)).restore(pack, run_id, folder / "ledger" / _locations.LEDGER)
    except (OSError, ValueError, RuntimeError, StrongroomError) as problem:
        return LoadResumePackResult(False, error=str(problem))
    return LoadResumePackResult(True, ws["run_id"], ws)


def new_run() -> str:
    """Return an id that no run has."""
    return f"run_{os.urandom(16).hex()}"


def _working_set(run_dir: Path) -> Path:
    return run_dir / "state" / _locations.WORKING_SET


def _finish(path: Path, engine_versions: list[str] | None, pointers: Mapping[str, Any]) -> str:
    """Put the caller's own pointers and engine versions into the manifest; return the pack's id."""
    with path.open("rb") as file:
        pack = PackReader(file)
        assert pack.manifest is not None
        manifest = dict(pack.manifest)
        if engine_versions or pointers:
            manifest["compatible_engine_versions"] = engine_versions or manifest["compatible_engine_versions"]
            manifest["pointers"] = {**pointers, **manifest["pointers"]}
            again = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
            with again.open("xb") as target, PackWriter(target) as writer:
                for name in sorted(pack.names - {MANIFEST}):
                    writer.add(name, pack.chunks(name))
                writer.finish(encode(manifest))
            again.replace(path)
    return str(manifest["pack_id"])
