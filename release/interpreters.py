"""Which of the supported interpreters this machine has: by their names on the path, and by pyenv where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
WHICH = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"


def interpreters() -> dict[str, str]:
    """Return the path of each supported interpreter that is here."""
    found = {version: _on_path(version) or _of_pyenv(version) for version in SUPPORTED}
    return {version: path for version, path in found.items() if path is not None}


def _on_path(version: str) -> str | None:
    named = shutil.which(f"python{version}")
    return None if named is None else _asked(named, version)


def _of_pyenv(version: str) -> str | None:
    """Return what pyenv has of a version that it does not put on the path."""
    if shutil.which("pyenv") is None:
        return None
    listed = _output("pyenv", "versions", "--bare").split()
    for exact in reversed([name for name in listed if re.fullmatch(rf"{re.escape(version)}\.\d+", name)]):
        prefix = _output("pyenv", "prefix", exact).strip()
        path = Path(prefix, "bin", f"python{version}")
        if prefix and path.exists() and (asked := _asked(str(path), version)) is not None:
            return asked
    return None


def _asked(path: str, version: str) -> str | None:
    """Return the interpreter itself, if it starts and is of this version: a shim may do neither."""
    told, _, executable = _output(path, "-c", WHICH).strip().partition(" ")
    return executable if told == version else None


def _output(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return ran.stdout if ran.returncode == 0 else ""
