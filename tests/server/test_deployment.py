"""What deploy/ promises, without a container engine: the files say it, and the image's steps hold it in a folder."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

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
