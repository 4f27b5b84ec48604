"""What deploy/ promises, without a container engine: the files say it, and the image's steps hold it in a folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from release.container import CannotRun, Container, Root, missing
from release.dockerfile import stages
from release.image import Trial, build_image

import strongroom
from tests.missing import not_here

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PACKAGES, SOURCE = "/opt/packages", "/opt/source"
COMMAND = """#!/opt/strongroom/bin/python
from strongroom.__main__ import main
main()
"""


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


def installed(root: Root) -> dict[str, str]:
    """Fill the stage that installs, with this environment instead of what pip would get; return what to bind."""
    here = {PACKAGES: sysconfig.get_path("purelib"), SOURCE: str(Path(strongroom.__file__).parents[1])}
    with Container(root, read_only=False) as container:
        container.run(["python3", "-m", "venv", "--without-pip", "/opt/strongroom"])
    [site] = root.inside("/opt/strongroom/lib").glob("python*/site-packages")
    (site / "here.pth").write_text(f"{SOURCE}\n{PACKAGES}\n")
    command = root.inside("/opt/strongroom/bin/strongroom")
    command.write_text(COMMAND)
    command.chmod(0o755)
    return here


def test_the_server_of_the_image_needs_no_rights_and_no_writable_root_and_loses_nothing_to_kill_9(
    tmp_path: Path,
) -> None:
    """The image's steps but for pip, which `make image` has: the packages are those of this environment."""
    if why := missing():
        not_here("namespaces", why)
    folder = tmp_path.resolve()
    try:
        build = Root(folder / "build", str(Path(sys.executable).resolve()))
        binds = installed(build)
        image = build_image(folder, build.python, ROOT, {"build": build})
        trial = Trial(image, folder / "volume", binds)
    except CannotRun as problem:
        not_here("namespaces", str(problem))
    trial.check()


def test_no_step_of_an_image_is_left_out_in_silence() -> None:
    with pytest.raises(ValueError, match="ONBUILD"):
        stages("FROM scratch\nONBUILD RUN true\n")
