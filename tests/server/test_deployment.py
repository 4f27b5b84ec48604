"""What deploy/ promises, without a container engine: the files say it, and the steps of the image hold it in a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest
import yaml

from tests.missing import not_here

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NOBODY = 65532
PATIENCE_SECONDS = 120  # a limit for what hangs, not for what is slow
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def test_the_image_runs_as_nobody_in_particular_with_a_health_check_and_a_volume() -> None:
    last = (DEPLOY / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER 65532:65532$", last, re.M)
    for word in ("HEALTHCHECK ", "VOLUME /data", "EXPOSE 8000", 'ENTRYPOINT ["strongroom"]'):
        assert f"\n{word}" in last


@pytest.mark.parametrize("name", ["compose.yml", "compose.postgres.yml"])
def test_compose_files_give_the_server_nothing_to_write_to_but_its_volume(name: str) -> None:
    found = yaml.safe_load((DEPLOY / name).read_text())
    server = found["services"]["strongroom"]
    assert (server["read_only"], server["cap_drop"], server["volumes"]) == (True, ["ALL"], ["data:/data"])
    named = {volume.partition(":")[0] for one in found["services"].values() for volume in one.get("volumes", ())}
    assert named == found["volumes"].keys()


def test_the_pods_of_kubernetes_run_without_rights_and_are_asked_how_they_are() -> None:
    parts = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text())}
    pod = parts["Deployment"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    assert parts["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        not_here("systemd-analyze", "it is not on the path")
    unit = tmp_path / "strongroom.service"
    unit.write_text((DEPLOY / "strongroom.service").read_text().replace("/opt/strongroom/bin/strongroom", "/bin/true"))
    ran = subprocess.run([tool, "verify", str(unit)], capture_output=True, text=True, timeout=120)
    assert "strongroom.service" not in ran.stderr, ran.stderr


# ---- the steps of the image, in a folder --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with the wheel in it, to which nobody may write."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL)
    [wheel] = folder.glob("*.whl")
    root = folder / "root"
    with ZipFile(wheel) as opened:
        opened.extractall(root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in (folder, *folder.parents):  # another user has to get there
        if path.owner() == folder.owner() and path != Path("/"):
            path.chmod(path.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)
    yield root
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)


@contextmanager
def serving(image: Path, data: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command of the image; as another user where that is possible."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join((str(image), sysconfig.get_path("purelib"))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "STRONGROOM_URL": str(data / "agent.db"),
        "STRONGROOM_BACKUPS": str(data / "backups"),
        "STRONGROOM_SNAPSHOTS": str(data / "snapshots"),
    }
    who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "strongroom", "serve", "--port", "0", "--json", "--log-level", "error"],
        env=environment, cwd=data, stdout=subprocess.PIPE, text=True, **who,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        told = ""
        while not told.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, "the server ended before it said where it is"
            told += line
        yield json.loads(told)["url"], process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()


def another_user_can_start() -> bool:
    """Tell whether another user can run this interpreter: not where it lies in somebody's home."""
    command = [sys.executable, "-c", "import apsw, uvicorn"]
    there = {"PYTHONPATH": sysconfig.get_path("purelib")}
    try:
        ran = subprocess.run(
            command, env=there, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, timeout=120
        )
    except PermissionError:
        return False
    return ran.returncode == 0


def test_nothing_acknowledged_is_lost_when_the_process_of_the_image_is_killed(image: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0 and not another_user_can_start():
        not_here("another user", "nobody else may run this interpreter")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        for path in (tmp_path, *tmp_path.parents):
            if path != Path("/"):
                path.chmod(path.stat().st_mode | stat.S_IXOTH)
        os.chown(data, NOBODY, NOBODY)
    acknowledged = []
    with serving(image, data) as (url, process):
        assert httpx.get(f"{url}/health", timeout=PATIENCE_SECONDS).status_code == 200
        for number in range(20):
            made = httpx.post(f"{url}/runs", json={"objective": "o", "run_id": f"r{number}"}, timeout=PATIENCE_SECONDS)
            assert made.is_success, made.text
            acknowledged.append(f"r{number}")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
    with serving(image, data) as (url, _):
        kept = httpx.get(f"{url}/runs", params={"limit": 100}, timeout=PATIENCE_SECONDS).json()["runs"]
    assert not [path for path in image.rglob("*") if path.stat().st_mode & 0o222]
    assert sorted(one.get("run_id") or one["id"] for one in kept) == sorted(acknowledged)
    assert (data / "agent.db").stat().st_uid == (NOBODY if os.geteuid() == 0 else os.geteuid())
