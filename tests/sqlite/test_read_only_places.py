"""Where one may only read: opening says so and names the way, and every command that reads works there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from tests.cli.commands import CASES, ELSEWHERE, leaves
from tests.cli.conftest import furnish, memory_id
from tests.sqlite.test_read_only import SIDECARS, bound, lock

OPEN = """
import sys
import strongroom
try:
    strongroom.open(sys.argv[1])
except strongroom.Unavailable as refused:
    print(refused.reason, "|", refused)
"""
# What is written goes to another folder: the name of the file is replaced by a place there.
ELSEWHERE_TO = {"anchors.jsonl", "copy.db", "other.db", "signing.key"}
READING = {
    "anchor", "backup", "check", "copy", "doctor", "explain", "files history", "files list", "files search",
    "files show", "keys list", "keys pair", "memories history", "memories list", "memories pending",
    "memories review", "memories search", "memories show", "mcp install", "review", "runs diff", "runs events",
    "runs list", "runs show", "runs tail", "runs verify", "sessions list", "sessions search", "sessions show",
    "sessions window", "threads list", "threads show", "threads tail", "version",
}  # fmt: skip
WRITING = {
    "compact", "erase", "files delete", "files erase", "files rename", "files restore", "files write", "keys create",
    "learn", "memories add", "memories commit", "memories consolidate", "memories delete", "memories erase",
    "memories propose", "memories reject", "memories revoke", "runs erase", "runs export", "runs fork", "runs restore",
    "sessions delete", "sessions erase", "threads delete", "threads erase", "threads sweep", "worker",
}  # fmt: skip
NO_STORE = {"demo"}  # it makes one of its own


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "files"
    made.mkdir()
    yield made
    made.chmod(0o755)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a bit of everything, whose index of words is up to date."""
    made = tmp_path_factory.mktemp("furnished")
    furnish(made / "agent.db", "a scraper")
    with strongroom.open(made / "agent.db") as ctx:
        ctx.sessions.search("message")
        ctx.files.search("note")
        ctx.memories.search("request")
        ctx.memories.pending()
    return made


@pytest.mark.parametrize("log", [True, False])
def test_a_file_that_cannot_be_written_is_named_with_the_way_to_read_it(folder: Path, log: bool) -> None:
    with strongroom.open(folder / "agent.db"):
        pass
    for suffix in () if log else SIDECARS:
        Path(f"{folder / 'agent.db'}{suffix}").unlink(missing_ok=True)
    lock(folder)
    told = bound("-c", OPEN, str(folder / "agent.db")).stdout
    assert told.startswith("read_only | ")
    assert str(folder / "agent.db") in told and "read_only=True" in told


def test_a_file_that_cannot_be_made_is_named_with_its_folder(folder: Path) -> None:
    lock(folder)
    told = bound("-c", OPEN, str(folder / "agent.db")).stdout
    assert told.startswith("read_only | ")
    assert f"{folder} is read-only" in told and "agent.db cannot be made" in told
    assert "read_only=True" not in told  # there is nothing to read


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_shows_which_file_it_is(tmp_path: Path, read_only: bool) -> None:
    with strongroom.open(tmp_path / "agent.db"):
        pass
    with strongroom.open(tmp_path / "agent.db", read_only=read_only) as ctx:
        kind = "ReadOnlyStore" if read_only else "SqliteStore"
        assert repr(ctx) == f"Context({kind}({str(tmp_path / 'agent.db')!r}), space='default')"


# ---- commands -------------------------------------------------------------------------------------------------------


def test_every_command_reads_or_writes() -> None:
    assert {name for name, _ in leaves()} - ELSEWHERE == READING | WRITING | NO_STORE
    assert not READING & WRITING


@pytest.mark.parametrize("name", sorted(READING))
def test_a_command_that_reads_needs_no_right_to_write(name: str, folder: Path, furnished: Path, tmp_path: Path) -> None:
    shutil.copytree(furnished, folder, dirs_exist_ok=True)
    memory = memory_id(folder)
    lock(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    args = [_given(part, memory, tmp_path) for part in CASES[name][0]]
    told = bound("-m", "strongroom", *name.split(), *args, cwd=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def _given(part: str, memory: str, elsewhere: Path) -> str:
    if part == "MEMORY":
        return memory
    return str(elsewhere / part) if part in ELSEWHERE_TO else part


# ---- prompts --------------------------------------------------------------------------------------------------------


def test_a_prompt_is_made_of_the_rest_where_the_index_of_words_lags(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.runs.create(objective="buy tea", run_id="r")
        ctx.sessions.open("s").append({"role": "user", "content": "the quick brown fox"})
        ctx.memories.add("foxes are quick")
    with strongroom.open(tmp_path / "agent.db", read_only=True) as ctx:
        prompt = ctx.prompt(session="s", run="r", query="fox", max_tokens=2000)
    assert "the quick brown fox" in str(prompt.messages) and "buy tea" in str(prompt.messages)
    assert "foxes are quick" not in str(prompt.messages)
    left = {(one.part, one.reason) for one in prompt.receipt.left_out}
    assert left == {("memories", "no_index"), ("earlier", "no_index")}
    assert str(prompt.receipt.degraded).startswith("the index of words lacks what was written last")
    assert str(prompt.receipt.degraded).count("the index of words") == 1


def test_a_prompt_has_everything_where_the_index_is_up_to_date(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.sessions.open("s").append({"role": "user", "content": "the quick brown fox"})
        ctx.memories.add("foxes are quick")
        written = ctx.prompt(session="s", query="foxes", max_tokens=2000)
    with strongroom.open(tmp_path / "agent.db", read_only=True) as ctx:
        assert ctx.prompt(session="s", query="foxes", max_tokens=2000) == written
    assert "foxes are quick" in str(written.messages) and written.receipt.degraded is None
