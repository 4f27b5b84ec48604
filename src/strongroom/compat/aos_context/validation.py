"""Checking documents against the schemas of version 2.1, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import strongroom.schemas as schemas
from strongroom.errors import InvalidInput

try:
    from jsonschema import ValidationError as _Theirs  # type: ignore[import-untyped,import-not-found,unused-ignore]
except ImportError:
    _Theirs = ValueError

# How else the artifacts are called: by their file names, and by their long names.
_SUFFIX = re.compile(r"([._-]?v?2[._]1)?(\.schema)?(\.json)?$")
_NAMES = {
    "ws": "working_set",
    "patch": "ws_patch",
    "working_set_patch": "ws_patch",
    "event": "ledger_event",
    "memory_change_request": "mcr",
    "resume_manifest": "manifest",
    "resume_pack_manifest": "manifest",
}


class ValidationError(_Theirs, ValueError if _Theirs is not ValueError else object):  # type: ignore[misc]
    """A document does not fit its schema. Also a `jsonschema.ValidationError` where that package is installed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass
class ValidationResult:
    ok: bool
    error: str | None = None


class SchemaRegistry:
    """The schemas by name."""

    def load(self, name: str) -> dict[str, Any]:
        """Return a schema as plain data; raise FileNotFoundError if there is none of that name."""
        try:
            return dict(schemas.document(schema_name(name)))
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no schema {name!r:.80}") from None


def schema_name(name: str) -> str:
    """Return our name of a schema, given any of its names: `working_set`, `working_set.v2.1.schema.json`, ..."""
    base = _SUFFIX.sub("", name)
    if not re.fullmatch(r"[a-z_]+", base):
        raise FileNotFoundError(f"there is no schema {name!r:.80}")
    return _NAMES.get(base, base)


_registry = SchemaRegistry()


def validate_instance(schema_name: str, instance: Any) -> ValidationResult:
    """Say whether a document fits the schema of that name, and if not, what is wrong where."""
    try:
        assert_valid(schema_name, instance)
    except ValidationError as problem:
        return ValidationResult(False, problem.message)
    return ValidationResult(True)


def assert_valid(schema_name: str, instance: Any) -> None:
    """Raise `ValidationError` unless a document fits the schema of that name."""
    _registry.load(schema_name)
    try:
        schemas.check(_own_name(schema_name), instance)
    except InvalidInput as problem:
        raise ValidationError(str(problem)) from None


_own_name = schema_name
