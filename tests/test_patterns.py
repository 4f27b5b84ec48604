"""Every regular expression in the package takes time in proportion to its input, also on input made against it.

What is measured is processor time of this thread, the best of several tries, and only how it grows: a text eight
times as long may take a little more than eight times as long. A pattern that backtracks takes 64 times as long.
"""

from __future__ import annotations

import ast
import importlib
import json
import math
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import strongroom

SHORT, LONG = 500, 4_000
EXPONENT = 1.2
NOISE_SECONDS = 0.002  # what takes less on the long text is not growing into anything
OPTIONAL = ("strongroom.__main__",)


def compiled() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns that modules hold, and those written as an argument of a function of `re`."""
    for module in pkgutil.walk_packages(strongroom.__path__, "strongroom."):
        if module.name in OPTIONAL:
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue
        for name, value in vars(loaded).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                yield f"{module.name}.{name}", value
    for path in sorted(Path(strongroom.__file__).parent.rglob("*.py")):
        text = path.read_text()
        if "import re" not in text:  # most do not; to parse all of them takes seconds of every collection
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (literal := _literal(node)) is not None:
                yield f"{path.name}:{node.lineno}", re.compile(literal)


def _literal(call: ast.Call) -> str | None:
    """Return the pattern that a call of a function of `re` spells out."""
    is_re = (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "re"
    )
    first = call.args[0] if is_re and call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def in_schemas() -> Iterator[tuple[str, str]]:
    """Yield the patterns in JSON Schemas."""
    for file in files("strongroom.schemas").iterdir():
        if file.name.endswith(".json"):
            yield from ((f"{file.name}: {found}", found) for found in _patterns(json.loads(file.read_text())))


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for part in schema.values():
            yield from _patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _patterns(part)


def attacks(pattern: str) -> Iterator[str]:
    """Yield pieces to repeat: what the pattern itself speaks of, alone and in pairs, and what most classes accept."""
    words = sorted(set(re.findall(r"\w+", pattern)), key=len, reverse=True)[:4]
    signs = sorted(set(re.findall(r"[^\w\s\\]", pattern)))[:6]
    pieces = list(dict.fromkeys([*words, *signs, "a", "A", "0", " ", "\n", "-", ".", "é", "中", "\u200b"]))
    yield from pieces
    yield from islice((one + other for one, other in product(pieces, pieces) if one != other), 60)


def growth(run: Callable[[str], object], piece: str) -> float:
    """Return the exponent by which time grows with the text; 0 if it is too quick to tell."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size] + "\0"
        best = math.inf
        for _ in range(3):
            start = time.thread_time()
            run(text)
            best = min(best, time.thread_time() - start)
            if best < NOISE_SECONDS / 8:
                break
        return best

    long = seconds(LONG)
    return 0.0 if long < NOISE_SECONDS else math.log(long / max(seconds(SHORT), 1e-6)) / math.log(LONG / SHORT)


def worst(pattern: re.Pattern[str]) -> tuple[float, str]:
    """Return the first exponent that is too great with what brought it about, or the greatest."""
    found = [(0.0, "")]
    for piece in attacks(pattern.pattern):
        found.append((growth(pattern.search, piece), piece))
        if found[-1][0] > EXPONENT:
            return found[-1]
    return max(found)


PATTERNS = dict(compiled())
SCHEMAS = dict(in_schemas())


def test_patterns_were_found() -> None:
    assert len(PATTERNS) > 10
    assert SCHEMAS


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_in_proportion(name: str) -> None:
    exponent, piece = worst(PATTERNS[name])
    assert exponent <= EXPONENT, f"{PATTERNS[name].pattern} on {piece!r} repeated"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_pattern_of_a_schema_takes_time_in_proportion(name: str) -> None:
    validator = jsonschema_rs.Draft202012Validator({"pattern": SCHEMAS[name]})
    assert max(growth(validator.is_valid, piece) for piece in attacks(SCHEMAS[name])) <= EXPONENT


@pytest.mark.parametrize("bad", [r"a+b", r"\w+@\w+", r"\s+$"])
def test_a_pattern_that_backtracks_is_found(bad: str) -> None:
    assert worst(re.compile(bad))[0] > EXPONENT
