"""The one rule of this codebase: imports point down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "strongroom"

# A module may import what has a smaller number, and its own layer's folder.
RANK = {
    "errors": 0,
    "remedies": 0,
    "caching": -1,
    "alarms": -1,
    "unseen": -1,
    "codec": 1,
    "allowed": 0,
    "arguments": 1,
    "entering": 0,
    "meant": 0,
    "showing": 0,
    "quoting": 0,
    "encryption": 1,
    "files": 1,
    "folding": 1,
    "endings": -1,
    "elapsed": -1,
    "dates": -1,
    "told_days": 0,
    "stemming": 0,
    "telling": 1,
    "queries": 1,
    "retrieval": 2,
    "sealing": 2,
    "tokens": 3,
    "store": 3,
    "schemas": 3,
    "bridge": 4,
    "retry": 1,
    "scope": 4,
    "operations": 5,
    "payloads": 0,
    "values": 4,
    "embedders": 3,
    "models": 4,
    "vectors": 4,
    "backends": 6,
    "services": 6,
    "archives": 7,
    "meaning": 5,
    "unfinished": 5,
    "opening": 7,
    "context": 7,
    "blocking": 8,
    "public": 9,
    "config": 9,
    "dispatch": 9,
    "protocol": 8,
    "client": 9,
    "mcp": 9,
    "": 10,
    "testing": 11,
    "copying": 11,
    "checking": 12,
    "console": 11,
    "server": 13,
    "compat": 12,
    "adapters": 12,
    "cli": 14,
    "demo": 12,
    "__main__": 15,
}
# Backends share the reference store's pure helpers; services see neither backends nor drivers.
FORBIDDEN = {"services": {"apsw", "psycopg", "redis", "threading", "asyncio", "socket", "sqlite3", "pickle"}}
# What both sides of the wire say is `protocol`'s.
APART = {"server": "strongroom.client", "client": "strongroom.server", "protocol": "strongroom.client"}


def layer(path: Path) -> str:
    part = path.relative_to(SRC).parts[0].removesuffix(".py")
    return "" if part == "__init__" else part


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[str, ...]:
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "strongroom":
                yield from (f"strongroom.{name.name}" for name in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def target_layer(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "strongroom":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in RANK else ""


def test_every_module_has_a_place_in_the_order() -> None:
    assert {layer(path) for path in modules()} <= RANK.keys()


def test_imports_point_down() -> None:
    wrong = [
        f"{path.relative_to(SRC)} imports {module}"
        for path in modules()
        for module in imports(path)
        if (target := target_layer(module)) is not None
        if target != layer(path) and RANK[target] >= RANK[layer(path)]
    ]
    assert wrong == []


def test_services_do_no_input_or_output_of_their_own() -> None:
    wrong = [
        f"{path.relative_to(SRC)} imports {module}"
        for path in modules()
        for module in imports(path)
        if module.split(".")[0] in FORBIDDEN.get(layer(path), set())
    ]
    assert wrong == []


def test_a_server_and_a_client_share_the_protocol_and_nothing_else() -> None:
    wrong = [
        f"{path.relative_to(SRC)} imports {module}"
        for path in modules()
        for module in imports(path)
        if module.startswith(APART.get(layer(path), "-"))
    ]
    assert wrong == []


def test_nothing_that_loads_can_execute() -> None:
    words = ("pickle", "marshal", "shelve", "eval(", "exec(", "yaml.load(", "__import__")
    wrong = [
        f"{path.relative_to(SRC)}: {word}"
        for path in modules()
        for word in words
        if word in path.read_text().replace("sqlite_exec(", "").replace("no pickle", "")
        if not _only_in_comments(path, word)
    ]
    assert wrong == []


def _only_in_comments(path: Path, word: str) -> bool:
    """Whether the word stands only in comments and docstrings."""
    tree = tree_of(path)
    code = {
        getattr(node, "id", getattr(node, "name", getattr(node, "attr", "")))
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
    }
    return word.rstrip("(").split(".")[-1] not in code or word == "yaml.load("


# ---- where imports stand --------------------------------------------------------------------------------------------

# Those that are left load a heavy optional package, or keep `import strongroom` and `strongroom --help` fast.
MOST_LATE_IMPORTS = 20


def test_imports_of_our_own_stand_at_the_top() -> None:
    late = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset > 0
        if (node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name).startswith("strongroom")
    ]
    assert len(late) <= MOST_LATE_IMPORTS, late


def _name(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, known: set[str]) -> set[str]:
    """Return the modules that a module imports, early or late: whoever imports out of a package imports that, too."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return (found & known) - {_name(path)}


def test_no_imports_go_in_a_circle() -> None:
    known = {_name(path) for path in modules()}
    graph = {_name(path): _imported(path, known) for path in modules()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
