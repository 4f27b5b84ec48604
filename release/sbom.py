"""Print what is installed with Strongroom as CycloneDX: run in an environment that has nothing else.

It stands alone, without any other package, because that environment has only what the wheel brought along.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions
from typing import Any

ROOT = "strongroom"
NOT_OURS = {"pip", "setuptools", "wheel"}


def document(installed: dict[str, Distribution]) -> dict[str, Any]:
    """Return the bill of materials: Strongroom, every package it came with, and which of them needs which."""
    parts = {name: _component(name, one) for name, one in sorted(installed.items())}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": parts[ROOT] | {"type": "application"}},
        "components": [part for name, part in parts.items() if name != ROOT],
        "dependencies": [
            {
                "ref": parts[name]["bom-ref"],
                "dependsOn": [parts[need]["bom-ref"] for need in _needs(one) & parts.keys()],
            }
            for name, one in sorted(installed.items())
        ],
    }


def here() -> dict[str, Distribution]:
    """Return what is installed, by its normal name."""
    found = {_normal(one.metadata["Name"]): one for one in distributions()}
    return {name: one for name, one in found.items() if name not in NOT_OURS}


def reached(installed: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return Strongroom and what it needs, directly or not, without any extra."""
    seen: dict[str, Distribution] = {}
    waiting = [ROOT]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in installed:
            seen[name] = installed[name]
            waiting.extend(_needs(installed[name]))
    return seen


def _component(name: str, one: Distribution) -> dict[str, Any]:
    told = one.metadata.json
    licence = str(told.get("license_expression") or told.get("license") or "")
    purl = f"pkg:pypi/{name}@{one.version}"
    part: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": one.version, "purl": purl}
    if licence and "\n" not in licence:
        part["licenses"] = [{"license": {"name": licence}}]
    return part


def _needs(one: Distribution) -> set[str]:
    wanted = [text for text in one.requires or [] if "extra ==" not in text]
    return {_normal(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in wanted}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(json.dumps(document(reached(here())), indent=2))
