"""A word means one thing: what docs/glossary.md says of names is true of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "strongroom"
OTHERS_NAMES = ("compat", "adapters")


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each term, where the glossary says that its names are defined, and which names it replaces."""
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and not cells[0].startswith(("-", "term")):
            yield cells[0], re.findall(r"`([^`]+)`", cells[2]), re.findall(r"`([^`]+)`", cells[3])


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.Module]:
    return {module_of(path): ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}


TERMS = [term for term, _, _ in rows()]
HOMES = sorted({home for _, homes, _ in rows() for home in homes})
REPLACED = {word for _, _, words in rows() for word in words}


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the classes and type aliases of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_a_name_of_the_glossary_is_defined_where_it_says_and_nowhere_else(sources: dict[str, ast.Module]) -> None:
    named = {home.rpartition(".")[2] for home in HOMES}
    found = {
        f"{module}.{name}"
        for module, tree in sources.items()
        if module.split(".")[0] not in OTHERS_NAMES
        for name in defined(tree)
        if name in named
    }
    assert sorted(found) == HOMES


def test_every_public_class_is_a_term_of_the_glossary() -> None:
    told = {word.strip() for terms in TERMS for word in terms.split(",")}
    public = {name.removeprefix("Async") for name in strongroom.__all__ if isinstance(getattr(strongroom, name), type)}
    kinds = {name for name in public if not issubclass(getattr(strongroom, name), Exception)}
    assert {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() for name in kinds} - told == set()


@pytest.mark.parametrize(
    "word", ["milestone", "batch", "brief", "artifact", "slot", "head", "anchor", "pack", "tombstone"]
)
def test_words_that_newcomers_asked_for_are_terms_of_the_glossary(word: str) -> None:
    assert word in TERMS


def test_no_module_class_or_function_has_a_name_that_the_glossary_replaces(sources: dict[str, ast.Module]) -> None:
    functions = {
        (module, node.name)
        for module, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    modules = {(module, module.rpartition(".")[2]) for module in sources}
    classes = {(module, name) for module, tree in sources.items() for name in defined(tree) if not name.isupper()}
    assert {one for one in functions | modules | classes if REPLACED & {one[1].strip("_"), one[1].lower()}} == set()


@pytest.mark.parametrize("words", [r"\bcan not\b", r"\b(both|two|each|either|which) colours?\b", r"\bcolourless\b"])
def test_prose_uses_the_words_of_the_glossary(words: str) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SRC.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    here = Path(__file__)
    assert [str(page) for page in pages if page != here and re.search(words, page.read_text(), re.IGNORECASE)] == []
