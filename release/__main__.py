"""Build the archives, hold them to what they must be, and try the wheel in clean environments. Nothing is published.

1. the sdist from this tree, and the wheel from the sdist, each twice with the same bytes
2. their contents, and what twine says of them
3. for each supported interpreter that is here: a new environment, the wheel alone, the demo, a smoke test and the
   conformance suite, in a folder without the source
4. checksums and a bill of materials beside them, in dist/
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release import contents
from release.interpreters import SUPPORTED, interpreters
from strongroom import __version__

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "release"
DIST = ROOT / "dist"
BUILD = "import sys; from hatchling.build import build_{0}; print(build_{0}(sys.argv[1]))"


class Refused(Exception):
    """The release is not as it must be."""


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist from the tree and the wheel from what is in the sdist, so that it must hold everything."""
    sdist = folder / _hook("sdist", ROOT, folder)
    with tempfile.TemporaryDirectory(prefix="strongroom-release-") as unpacked:
        with tarfile.open(sdist) as opened:
            opened.extractall(unpacked, filter="data")
        [source] = Path(unpacked).iterdir()
        wheel = folder / _hook("wheel", source, folder)
    return sdist, wheel


def _hook(kind: str, source: Path, folder: Path) -> str:
    epoch = {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1580601600")}
    ran = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind), str(folder)],
        cwd=source,
        env={**os.environ, **epoch},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout.split()[-1]


def check_same_bytes(first: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="strongroom-again-") as folder:
        for path in build(Path(folder)):
            if path.read_bytes() != (first / path.name).read_bytes():
                raise Refused(f"{path.name} has other bytes when it is built again")


def check_contents(sdist: Path, wheel: Path) -> None:
    wrong = [*contents.of_sdist(sdist), *contents.of_wheel(wheel)]
    if wrong:
        raise Refused("; ".join(wrong))
    if __version__ not in wheel.name or __version__ not in (ROOT / "CHANGELOG.md").read_text():
        raise Refused(f"the wheel or CHANGELOG.md does not name {__version__}")


def try_out(wheel: Path, python: str) -> str:
    """Install the wheel alone in a new environment, use it there, and return the bill of materials of it."""
    with tempfile.TemporaryDirectory(prefix="strongroom-clean-") as folder:
        for tool in ("smoke.py", "sbom.py"):
            shutil.copy(TOOLS / tool, folder)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRONGROOM"))}

        def run(*command: str) -> str:
            return subprocess.run(
                command, cwd=folder, env=clean, stdout=subprocess.PIPE, text=True, check=True, timeout=1800
            ).stdout

        run(python, "-m", "venv", "env")
        inside = f"{folder}/env/bin/python"
        run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        print(run(inside, "smoke.py", "conformance"), end="", flush=True)
        return run(inside, "sbom.py")


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sdist, wheel = build(DIST)
    check_same_bytes(DIST)
    check_contents(sdist, wheel)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)], check=True)
    found = interpreters()
    for version in SUPPORTED:
        if version not in found:
            print(f"NOT TRIED: Python {version} is not on this machine")
    if not found:
        raise Refused("none of the supported interpreters is on this machine")
    bills = [try_out(wheel, python) for python in found.values()]
    bill = DIST / f"strongroom-{__version__}.cdx.json"
    bill.write_text(json.dumps(json.loads(bills[-1]), indent=2) + "\n")
    made = sorted([sdist, wheel, bill])
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    try:
        main()
    except (Refused, subprocess.CalledProcessError) as problem:
        sys.exit(f"no release: {problem}")
