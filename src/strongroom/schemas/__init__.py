"""JSON Schema 2020-12 of everything that leaves or enters as JSON, one file an artifact, compiled once and lazily."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs

from strongroom.codec import parse
from strongroom.errors import InvalidInput


@cache
def document(name: str) -> dict[str, Any]:
    """Return the schema of that name as plain data."""
    found: dict[str, Any] = parse((files(__name__) / f"{name}.json").read_bytes())
    return found


@cache
def _compiled(name: str, part: str) -> Validator:
    schema = document(name)
    if part:
        schema = {**schema["$defs"][part], "$defs": schema["$defs"]}
    return Validator(schema)


class Validator:
    """One compiled schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._compiled = jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True, offline=True)
        except ValueError as problem:
            raise InvalidInput(f"not a JSON Schema: {problem}"[:400]) from None

    def check(self, value: object, path: str = "$") -> None:
        """Raise `InvalidInput` with the path of the first thing wrong, and why."""
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as problem:
            where = path + _dotted(problem.instance_path)
            raise InvalidInput(f"{_shorten(problem.message)}; nothing changed", path=where) from None
        except ValueError as problem:
            raise InvalidInput(f"{_shorten(str(problem))}; nothing changed", path=path) from None


def check(name: str, value: object, *, part: str = "", path: str = "$") -> None:
    """Raise `InvalidInput` unless the value fits the schema of that name, or one part (`$defs`) of it."""
    _compiled(name, part).check(value, path)


def has_part(name: str, part: str) -> bool:
    """Tell whether a schema defines that part."""
    return part in document(name)["$defs"]


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _shorten(message: str) -> str:
    # The validator quotes the whole value; a page of it helps nobody.
    return message if len(message) <= 240 else f"{message[:120]} ... {message[-100:]}"
