"""A Dockerfile as data: its stages, the steps of each, and what a container of the last one is started with.

Only what our own file uses is known. Anything else is refused, so that no step is left out in silence.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

STEPS = {"COPY", "RUN", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


class Step(NamedTuple):
    """One instruction: its word, and the rest of its line."""

    word: str
    rest: str


class Stage(NamedTuple):
    """One `FROM` and the steps after it."""

    name: str
    base: str
    steps: tuple[Step, ...]


class Start(NamedTuple):
    """How a container of an image is started and asked whether it is well."""

    environment: dict[str, str]
    user: str
    folder: str
    volumes: tuple[str, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: tuple[str, ...]


def stages(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile in their order; one without a name is called by its number."""
    found: list[Stage] = []
    for step in _steps(text):
        if step.word == "FROM":
            base, _, name = step.rest.partition(" AS ")
            found.append(Stage(name.strip() or str(len(found)), base.strip(), ()))
        elif step.word not in STEPS:
            raise ValueError(f"a step that is not known here: {step.word} {step.rest}")
        else:
            found[-1] = found[-1]._replace(steps=(*found[-1].steps, step))
    return found


def start(stage: Stage) -> Start:
    """Return what the steps of a stage say about its containers."""
    said = {step.word: step.rest for step in stage.steps}
    health = said["HEALTHCHECK"].partition("CMD ")[2]
    return Start(
        environment(stage.steps),
        said["USER"],
        said["WORKDIR"],
        tuple(said["VOLUME"].split()),
        tuple(json.loads(said["ENTRYPOINT"])),
        tuple(json.loads(said["CMD"])),
        tuple(json.loads(health)),
    )


def environment(steps: tuple[Step, ...]) -> dict[str, str]:
    """Return the variables that the `ENV` steps set; `$PATH` in them is the base's."""
    pairs = [pair for step in steps if step.word == "ENV" for pair in step.rest.split()]
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _steps(text: str) -> list[Step]:
    """Return every instruction, with its continued lines joined and without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parts = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Step(word, rest.strip()) for word, rest in parts]
