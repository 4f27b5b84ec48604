"""What a program loads is what it uses, so that it starts at once."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import strongroom.cli
from strongroom.cli.overview import TEXT
from strongroom.cli.root import MODULES, cli

HEAVY = {"asyncio", "apsw", "click", "httpx", "jsonschema_rs", "msgspec", "numpy", "rich"}
TELL = "import sys, json; print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded(code: str, folder: Path) -> set[str]:
    """Run a program, and return which of the heavy packages it had loaded at its end."""
    program = f"import atexit\natexit.register(lambda: exec({TELL!r}))\n{code}"
    environment = {**os.environ, "STRONGROOM_URL": "agent.db"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return HEAVY & set(json.loads(done.stdout.splitlines()[-1]))


def typed(folder: Path, *arguments: str) -> set[str]:
    return loaded(f"from strongroom.cli import main\nmain({list(arguments)!r})", folder)


def said(code: str, columns: int) -> str:
    """Run a program in a terminal of this width, and return what it said."""
    environment = {**os.environ, "COLUMNS": str(columns)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has a bit of everything."""
    made = tmp_path_factory.mktemp("store")
    with strongroom.open(made / "agent.db") as ctx:
        ctx.runs.create(objective="start", run_id="r")
        ctx.sessions.open("s").append([{"role": "user", "content": "hello"}])
        ctx.threads.append("t", {"text": "hello"}, from_id="a", to_id="b")
    return made


def test_importing_strongroom_loads_nothing_that_is_heavy(tmp_path: Path) -> None:
    assert loaded("import strongroom; strongroom.Conflict; strongroom.open; strongroom.aopen", tmp_path) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_the_first_help_loads_nothing_that_is_heavy(tmp_path: Path, arguments: list[str]) -> None:
    assert typed(tmp_path, *arguments) == set()


@pytest.mark.parametrize(
    "use",
    [
        "ctx.runs.create(objective='x').brief(max_tokens=100)",
        "s = ctx.sessions.open('s'); s.append([{'role': 'user', 'content': 'x'}]); s.search('x')",
        "ctx.sessions.open('s').window(max_tokens=100)",
        "ctx.memories.search('x')",
        "ctx.threads.append('t', {'text': 'x'}, from_id='a', to_id='b')",
    ],
)
def test_a_program_without_vectors_loads_no_numpy_and_no_command_line(tmp_path: Path, use: str) -> None:
    found = loaded(f"import strongroom\nwith strongroom.open('agent.db') as ctx:\n    {use}", tmp_path)
    assert found & {"numpy", "click", "rich", "httpx"} == set()
    assert "apsw" in found


def test_a_program_with_vectors_loads_numpy(tmp_path: Path) -> None:
    use = "ctx.memories.using(embedder=strongroom.embedders.Embedder(lambda t: [[1.0]] * len(t), name='x')).search('x')"
    code = f"import strongroom.embedders\nwith strongroom.open('agent.db') as ctx:\n    {use}"
    assert "numpy" in loaded(code, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "list"],
        ["runs", "verify", "r"],
        ["sessions", "list"],
        ["sessions", "show", "s"],
        ["memories", "search", "x"],
        ["threads", "list"],
        ["check"],
        ["keys", "list"],
    ],
    ids=" ".join,
)
def test_a_command_that_answers_in_json_loads_neither_numpy_nor_rich(folder: Path, command: list[str]) -> None:
    assert typed(folder, *command, "--json") & {"numpy", "rich", "httpx"} == set()


@pytest.mark.parametrize("command", [["runs", "list"], ["sessions", "show", "s"], ["doctor"]], ids=" ".join)
def test_a_command_that_answers_in_tables_loads_no_numpy(folder: Path, command: list[str]) -> None:
    assert typed(folder, *command) & {"numpy", "httpx"} == set()


def test_no_help_of_any_command_loads_what_only_its_work_needs(tmp_path: Path) -> None:
    """One program asks for all of them: what is not loaded in the end none of them has loaded."""
    assert helped(tmp_path, sorted(MODULES)) & {"numpy", "httpx"} == set()
    work_on_files_or_draw = ("doctor", "encryption", "importing", "serving")
    others = sorted(name for name, module in MODULES.items() if module not in work_on_files_or_draw)
    assert helped(tmp_path, others) & {"numpy", "rich", "httpx", "apsw"} == set()


def helped(folder: Path, names: list[str]) -> set[str]:
    code = f"""
from strongroom.cli import main
for name in {names!r}:
    try:
        main([name, "--help"])
    except SystemExit as end:
        assert not end.code, name
    else:
        raise AssertionError(name)"""
    return loaded(code, folder)


def test_every_command_is_found_in_the_module_that_is_named_for_it() -> None:
    for module in pkgutil.iter_modules(strongroom.cli.__path__):
        import_module(f"strongroom.cli.{module.name}")
    assert sorted(cli.commands) == sorted(MODULES)
    for name, command in cli.commands.items():
        assert command.callback is not None
        assert command.callback.__module__ == f"strongroom.cli.{MODULES[name]}"


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_first_help_is_what_click_would_say(width: int) -> None:
    assert said("from strongroom.cli.running import run; run(['--help'])", width) == TEXT
    assert said("from strongroom.cli import main; main(['--help'])", width) == TEXT


def test_the_first_help_fits_into_a_narrow_terminal() -> None:
    assert max(map(len, said("from strongroom.cli import main; main(['--help'])", 60).splitlines())) <= 60
