"""JSON Schema 2020-12 of everything that leaves or enters as JSON, one file an artifact, compiled once and lazily."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
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
        self._schema = schema
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
            raise InvalidInput(f"{_shorten(self._told(problem))}; nothing changed", path=where) from None
        except ValueError as problem:
            raise InvalidInput(f"{_shorten(str(problem))}; nothing changed", path=path) from None

    def _told(self, problem: jsonschema_rs.ValidationError) -> str:
        """Say what is wrong and, where that is a choice of names, what is allowed."""
        kind = problem.kind
        if kind.name == "enum":
            return f"{problem.instance!r:.80} is not one of {', '.join(map(str, kind.value))}"
        if kind.name not in ("additionalProperties", "required"):
            return str(problem.message)
        part: Any = self._schema
        for step in problem.schema_path[:-1]:
            part = part[step]
        fields = list(part.get("properties", ()))
        if kind.name == "additionalProperties":
            return no_field(kind.value[0], fields)
        return f"the field {kind.value} is missing; {_list(fields)}" if fields else str(problem.message)


def no_field(name: str, fields: Iterable[str]) -> str:
    """Say that there is no field of that name, which one was perhaps meant, and which there are."""
    known = list(fields)
    close = get_close_matches(name, known, 1)
    return f"there is no field {name!r:.80}{f', did you mean {close[0]}?' if close else ';'} {_list(known)}"


def _list(fields: list[str]) -> str:
    return f"the fields are {', '.join(fields)}" if fields else "it has none"


def check(name: str, value: object, *, part: str = "", path: str = "$") -> None:
    """Raise `InvalidInput` unless the value fits the schema of that name, or one part (`$defs`) of it."""
    _compiled(name, part).check(value, path)


def parts(name: str) -> Collection[str]:
    """Return the names of the parts that a schema defines."""
    found: dict[str, Any] = document(name)["$defs"]
    return found.keys()


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _shorten(message: str) -> str:
    # The validator quotes the whole value; a page of it helps nobody.
    return message if len(message) <= 320 else f"{message[:160]} ... {message[-140:]}"
