"""`help()` answers: every public class has an example that runs, and `help(strongroom)` leads to all of them."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs import reference

import strongroom


def handles() -> Iterator[type]:
    """Yield the classes of what an open context offers, blocking and async: `ctx.runs` and the like."""

    async def opened() -> strongroom.AsyncContext:
        return await strongroom.aopen("memory://")

    contexts: list[Any] = [strongroom.open("memory://"), asyncio.run(opened())]
    for context in contexts:
        for name, value in vars(context).items():
            ours = type(value).__module__.startswith("strongroom.")
            if ours and not name.startswith("_") and name != "scope":
                yield type(value)


def public() -> dict[str, type]:
    named = [getattr(strongroom, name) for name in strongroom.__all__]
    told = [value for parts in reference.NAMES.values() for _, value in parts]
    classes = [value for value in (*named, *told, *handles()) if inspect.isclass(value)]
    return {f"{one.__module__}.{one.__qualname__}": one for one in classes}


PUBLIC = public()


def test_reflection_finds_the_handles_and_the_values() -> None:
    names = {one.__name__ for one in PUBLIC.values()}
    assert {"Context", "Runs", "AsyncMemories", "Registry", "Slot", "Conflict", "Dispatcher"} <= names


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_class_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PUBLIC[name].__doc__ or ""
    known = {"strongroom": strongroom, "asyncio": asyncio}
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    assert any(one.want for one in example.examples), f"{name} shows no result"
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, out=report.append)
    assert "".join(report) == ""


def test_help_of_strongroom_is_a_table_of_contents() -> None:
    contents = strongroom.__doc__ or ""
    words = set(re.findall(r"\w+", contents))
    assert [name for name in strongroom.__all__ if name not in words] == []
    with strongroom.open("memory://") as ctx:
        offered = [name for name in vars(ctx) if not name.startswith("_")]
    assert [name for name in offered if f"ctx.{name}" not in contents] == []
    assert contents.strip().splitlines()[0] in pydoc.plain(pydoc.render_doc(strongroom))


def test_no_example_names_a_session_as_it_names_a_person() -> None:
    root = Path(__file__).parents[1]
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("src/strongroom/**/*.py")]
    text = "\n".join(page.read_text() for page in pages)
    people = set(re.findall(r"""\buser_id=["']([^"'{}]+)["']""", text))
    sessions = set(re.findall(r"""\bsessions\.(?:open|get|delete)\(["']([^"'{}]+)["']""", text))
    assert people & sessions == set()
    assert "ana" in people and "support-7" in sessions


WITHOUT_EXTRAS = """
import sys
sys.modules["httpx"] = None  # as if it were not installed
import pydoc, strongroom
assert "connect" in pydoc.render_doc(strongroom)
try:
    strongroom.connect("http://127.0.0.1:1")
except strongroom.InvalidInput as refused:
    print(refused)
"""


def test_help_answers_where_no_extra_is_installed() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=120)
    assert "pip install 'strongroom[client]'" in ran.stdout, ran.stderr


def test_the_modules_that_help_names_are_there() -> None:
    for name in re.findall(r"^    (strongroom\.\w+)", strongroom.__doc__ or "", re.MULTILINE):
        assert pydoc.locate(name) is not None
