"""A store with a bit of everything, and a way to type commands at it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import Struct

import strongroom
from strongroom.cli import main

# What a hostile page might have made an agent store: sequences that clear a screen, set a title or turn the text
# around, in both alphabets of control characters, our own markup, and words that nobody sees.
HOSTILE = (
    "\x1b[2J \x1b]0;owned\x07 \x9b31m \u202eback [bold red]loud[/] [/] \\[x] \r over \U000e0069\U000e0067\U000e006e "
    "\u3164\u115f\uffa0 \u00ad\u034f \ufe0f\U000e0100 \u2800 \u200d \ue000"
)


class Typed(Struct, frozen=True):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Type = Callable[..., Typed]


def furnish(path: Path, text: str) -> None:
    """Make a store in which every text that can be free says `text`."""
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(
            objective=f"Build {text}", acceptance_criteria=[text], constraints=[text], run_id="scraper"
        )
        run.update(
            status="BUSY",
            next_action=f"fetch {text}",
            blockers=[text],
            pinned_context=[{"id": "p", "content": text, "source_ref": text}],
        )
        run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"url": text}}, actor="agent-7")
        run.milestone(f"first page {text}")
        run.export(path.with_name("pack.zip"))
        session = ctx.sessions.open("support", title=f"Help {text}", metadata={"why": text})
        for n in range(20):
            session.append({"role": ("user", "assistant")[n % 2], "content": f"message {n} {text}"})
        for n in range(5):
            ctx.threads.append("errands", {"n": n, "note": text}, from_id=f"boss {n}", to_id="clerk")
        ctx.files.write("/notes/a.md", f"a note about {text}")
        path.with_name("note.txt").write_text(f"another note about {text}")
        for batch in ("batch_first", "batch_second"):
            fact: strongroom.MemoryRequest = {
                "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [],
                "content": f"{batch} allows one request {text}", "rationale": text,
            }  # fmt: skip
            ctx.memories.propose([fact], proposer="agent-7", batch_id=batch)
        ctx.memories.commit("batch_first", reviewer="ana")
    asked = {**fact, "content": f"proposed {text}"}
    path.with_name("proposal.json").write_text(json.dumps(asked))


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    furnish(folder / "agent.db", "a scraper")
    return folder


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    furnish(folder / "agent.db", HOSTILE)
    return folder


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine the tests run on."""
    for name in (
        "STRONGROOM_URL",
        "STRONGROOM_SPACE",
        "STRONGROOM_API_KEY",
        "STRONGROOM_CONFIG",
        "AOS_RUNS_ROOT",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STRONGROOM_ACTOR", "ana")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None) -> Path:
    """An empty folder to type in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def here(empty: Path, plain: Path) -> Path:
    """A folder to type in, with a store and a pack."""
    shutil.copytree(plain, empty, dirs_exist_ok=True)
    return empty


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str]) -> Type:
    """Type a command. Whatever it does, it must end with an exit code; its environment ends with it, as a process's."""

    def run(*args: str) -> Typed:
        capsys.readouterr()
        with patch.dict(os.environ), pytest.raises(SystemExit) as left:
            main(args)
        out, err = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Typed(left.value.code, out, err)

    return run


def memory_id(folder: Path) -> str:
    """Return the id of the one memory that is known."""
    with strongroom.open(folder / "agent.db") as ctx:
        [memory] = ctx.memories.list()
        return str(memory.id)
