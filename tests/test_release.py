"""The release, in short: what `make release` does at length, in clean environments. The wheel itself: test_wheel.py."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from release import contents, interpreters, sbom

import strongroom

ROOT = Path(__file__).parents[1]


def sdist(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"strongroom-1/{name}"), io.BytesIO())
    return path


def wheel(path: Path, *names: str) -> Path:
    with ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


WHOLE_SDIST = (*contents.IN_SDIST, *(f"{folder}/a" for folder in contents.FOLDERS_OF_SDIST))


def test_an_sdist_with_all_it_must_hold_is_taken(tmp_path: Path) -> None:
    assert contents.of_sdist(sdist(tmp_path / "a.tar.gz", *WHOLE_SDIST, "tests/data/format-1.db")) == []


@pytest.mark.parametrize("name", ["agent.db", ".venv/bin/python", "src/strongroom/__pycache__/x.pyc", ".ci/run"])
def test_an_sdist_with_what_must_not_be_in_it_is_refused(tmp_path: Path, name: str) -> None:
    assert contents.of_sdist(sdist(tmp_path / "a.tar.gz", *WHOLE_SDIST, name)) == [f"{name} must not be in it"]


@pytest.mark.parametrize("name", ["LICENSE", "tests/a"])
def test_an_sdist_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    rest = [one for one in WHOLE_SDIST if one != name]
    assert len(contents.of_sdist(sdist(tmp_path / "a.tar.gz", *rest))) == 1


def test_a_wheel_holds_its_package_and_nothing_else(tmp_path: Path) -> None:
    assert contents.of_wheel(wheel(tmp_path / "a.whl", *contents.IN_WHEEL, "strongroom-1.dist-info/METADATA")) == []
    strange = contents.of_wheel(wheel(tmp_path / "b.whl", *contents.IN_WHEEL, "tests/a.py"))
    assert strange == ["tests/a.py is not of the package"]


def test_the_interpreter_of_this_test_is_found_if_it_is_on_the_path() -> None:
    for version, path in interpreters.interpreters().items():
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        assert told.startswith(f"Python {version}.")


def test_the_bill_of_materials_names_every_package_the_wheel_brings() -> None:
    bill = sbom.document(sbom.reached(sbom.here()))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "strongroom")
    names = {part["name"] for part in bill["components"]}
    assert {"click", "jsonschema-rs", "msgspec", "numpy", "rich", "markdown-it-py"} <= names
    assert "pytest" not in names


def test_the_bill_of_materials_refers_only_to_what_it_names() -> None:
    bill = sbom.document(sbom.reached(sbom.here()))
    known = {bill["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in bill["components"])}
    assert {one["ref"] for one in bill["dependencies"]} == known
    assert {need for one in bill["dependencies"] for need in one["dependsOn"]} <= known


def test_the_smoke_test_of_a_release_passes_here(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "release" / "smoke.py")]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, timeout=300)


def test_the_changelog_names_the_version() -> None:
    assert re.search(rf"^## .*\b{re.escape(strongroom.__version__)}$", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert strongroom.__version__ not in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_every_template_of_an_issue_can_be_read(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    fields = [part["id"] for part in form.get("body", [])]
    assert len(set(fields)) == len(fields)
    assert path.name == "config.yml" or {"name", "description", "body"} <= form.keys()
