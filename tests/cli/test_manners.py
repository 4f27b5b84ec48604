"""Exit codes, questions before what cannot be undone, hints, pipes and Tab."""

from __future__ import annotations

import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.cli.meant import BY_PROGRAMS, MEANT
from tests.cli.commands import leaves
from tests.cli.conftest import Type
from tests.compat.aos_samples import old_folder

ROOT = Path(__file__).parents[2]
DESTRUCTIVE = [
    "runs erase scraper --reason x",
    "sessions delete support",
    "threads delete errands",
    "threads sweep --idle-seconds 0",
    "memories revoke feed",
]
UNCHOSEN = {
    "memories erase": "--memory, --user, --project or --source",
    "memories erase --memory m --user u": "--memory, --user, --project or --source",
    "sessions erase support": "--message, --before or --all",
    "sessions erase support --all --before m": "--all",
    "threads erase errands": "--start, --stop or --before",
    "memories consolidate --model tests.cli.program:unmoved": "--user, --project or --everybody",
}


def process(*args: str, **more: Any) -> subprocess.Popen[str]:
    """Start the real command, its output in pipes."""
    environment = {**os.environ, **more.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "strongroom", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **more,
    )  # fmt: skip


@pytest.mark.parametrize("command", DESTRUCTIVE)
@pytest.mark.parametrize("answer", ["", "n\n", "nonsense\n"])
def test_what_is_not_confirmed_does_not_happen(
    command: str, answer: str, here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    typed = type_in(*command.split())
    assert typed.code == 1
    assert "nothing changed" in typed.err
    with strongroom.open(here / "agent.db") as ctx:
        assert ctx.runs.get("scraper").working_set.objective
        assert ctx.sessions.get("support").info().messages == 20
        assert ctx.threads.get("errands").length() == 5
        assert ctx.memories.add("a flood is near", source_refs=["feed"]).status == "active"


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_a_yes_is_enough(command: str, here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert type_in(*command.split()).code == 0


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_a_yes_can_be_said_in_advance(command: str, here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert type_in(*command.split(), "--yes").code == 0


@pytest.mark.parametrize("command", UNCHOSEN)
def test_nothing_is_asked_about_what_was_not_chosen(command: str, here: Path, type_in: Type) -> None:
    typed = type_in(*command.split())
    assert typed.code == 2
    assert UNCHOSEN[command] in typed.err
    assert "?" not in typed.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("runs show scrapr", "no run 'scrapr'; did you mean 'scraper'?"),
        ("sessions show suport", "no session 'suport'; did you mean 'support'?"),
        ("threads tail errand", "no thread 'errand'; did you mean 'errands'?"),
        ("memories commit batch_secnd", "no memory batch 'batch_secnd'; did you mean 'batch_second'?"),
        ("runs show zzzzzz", "`strongroom runs list` shows what there is"),
    ],
)
def test_a_misspelt_name_is_recognised(typed: str, meant: str, here: Path, type_in: Type) -> None:
    answer = type_in(*typed.split())
    assert answer.code == 1
    assert meant in answer.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("rnus list", "did you mean 'runs'?"), ("runs lsit", "did you mean 'list'?"), ("xyzzy", "there are")],
)
def test_a_misspelt_command_is_recognised(typed: str, meant: str, type_in: Type) -> None:
    answer = type_in(*typed.split())
    assert answer.code == 2
    assert meant in answer.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("runs delete x", "did you mean 'erase'?"),
        ("memories approve x", "did you mean 'commit'?"),
        ("memories Forget x", "did you mean 'delete'?"),
        ("sessions ls", "did you mean 'list'?"),
        ("threads rm x", "did you mean 'delete'?"),
        ("keys rm x", "did you mean 'revoke'?"),
        ("runs log x", "did you mean 'events'?"),
        ("runs history x", "did you mean 'events'?"),
        ("sessions history x", "did you mean 'show'?"),
        ("help", "did you mean '--help'?"),
        ("runs help", "did you mean 'runs --help'?"),
        ("chats", "did you mean 'sessions'?"),
        ("status", "did you mean 'doctor'?"),
        ("approve x", "did you mean 'memories commit'?"),
        ("rm x", "did you mean 'files delete', 'memories delete', 'sessions delete' or 'threads delete'?"),
        ("runs create", "that is done by programs: ctx.runs.create(objective=...)"),
        ("sessions new", "that is done by programs: ctx.sessions.open(session_id)"),
        ("init", 'that is done by programs: strongroom.open("agent.db") makes a store'),
    ],
)
def test_what_others_call_a_command_is_recognised(typed: str, meant: str, here: Path, type_in: Type) -> None:
    answer = type_in(*typed.split())
    assert answer.code == 2
    assert f"; {meant}" in answer.err


def test_every_word_that_is_recognised_leads_somewhere() -> None:
    there = {word for path, _ in leaves() for word in path.split()}.union(*BY_PROGRAMS.values())
    assert [word for word, commands in MEANT.items() if not there.intersection(commands)] == []


def test_a_file_that_is_no_store_is_the_stores_failure(empty: Path, type_in: Type) -> None:
    (empty / "agent.db").write_text("not a database " * 1000)
    answer = type_in("runs", "list")
    assert answer.code == 3
    assert answer.err.startswith("strongroom: ")


def test_damage_is_found_and_told(here: Path, type_in: Type) -> None:
    path = here / "agent.db"
    raw = bytearray(path.read_bytes())
    place = raw.index(b"message 7 ")
    raw[place : place + 7] = b"MESSAGE"
    path.write_bytes(raw)
    answer = type_in("check")
    assert answer.code == 3
    assert "bad" in answer.out


def test_a_proposer_may_not_review(here: Path, type_in: Type) -> None:
    answer = type_in("memories", "commit", "batch_second", "--reviewer", "agent-7")
    assert answer.code == 1
    assert "nothing changed" in answer.err


def test_a_backup_never_overwrites(here: Path, type_in: Type) -> None:
    (here / "precious").write_text("mine")
    assert type_in("backup", "precious").code in (1, 3)
    assert (here / "precious").read_text() == "mine"


def test_an_interrupted_tail_says_so(here: Path) -> None:
    tail = process("runs", "tail", "scraper", "--follow", "--json")
    assert tail.stdout is not None
    tail.stdout.readline()  # it is following now
    tail.send_signal(signal.SIGINT)
    _, err = tail.communicate(timeout=180)
    assert (tail.returncode, "Traceback" in err) == (130, False)
    assert "interrupted" in err


def test_a_reader_that_has_seen_enough_is_no_error(here: Path) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        ctx.sessions.get("support").append([{"role": "user", "content": "x" * 1000} for _ in range(500)])
    shown = process("sessions", "show", "support", "-n", "1000")
    assert shown.stdout is not None
    shown.stdout.readline()
    shown.stdout.close()
    assert shown.stderr is not None
    err = shown.stderr.read()
    shown.stderr.close()
    assert (shown.wait(180), err) == (0, "")


def test_a_terminal_that_knows_few_characters_is_served(here: Path) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        ctx.runs.create(objective="猫 \u2026", run_id="cat")
    shown = process("runs", "show", "cat", env={"PYTHONIOENCODING": "ascii"})
    out, err = shown.communicate(timeout=180)
    assert (shown.returncode, err) == (0, "")
    assert r"\u732b" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("strongroom ru", "runs"),
        ("strongroom runs sh", "show"),
        ("strongroom runs show scr", "scraper"),
        ("strongroom sessions window sup", "support"),
        ("strongroom memories commit batch", "batch_second"),
        ("strongroom --url missing.db runs show scr", ""),
    ],
)
def test_tab_completes(words: str, expected: str, here: Path) -> None:
    asked = {"_STRONGROOM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    out, err = process(env=asked).communicate(timeout=180)
    assert out.split() == ([f"plain,{expected}"] if expected else [])
    assert err == ""


@pytest.mark.parametrize(("shell", "word"), [("bash", "3"), ("zsh", "3"), ("fish", "")])
def test_tab_offers_no_name_that_a_shell_would_read_as_more_than_a_name(shell: str, word: str, here: Path) -> None:
    odd = ["$(touch${IFS}owned)", "`touch owned`", "a;b", "a b", "a|b", "a&b", "a>b", "a'b", 'a"b', "a\\b", "a*"]
    with strongroom.open(here / "agent.db") as ctx:
        for name in (*odd, "--all", "-f", "~root", "=ls", "#1", "!1", "a{b,c}", "é.ü:1@x/y+z-1"):
            ctx.sessions.open(name)
    asked = {
        "_STRONGROOM_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "strongroom sessions window ",
        "COMP_CWORD": word,
    }
    out, err = process(env=asked).communicate(timeout=180)
    names = {"bash": r"plain,(.*)", "zsh": r"plain\n(.*)\n_", "fish": r"plain,(.*)"}[shell]
    offered = [name.replace("\\:", ":") for name in re.findall(names, out)]
    assert (sorted(offered), err) == (["support", "é.ü:1@x/y+z-1"], "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_made_for_a_shell(shell: str, here: Path) -> None:
    out, _ = process(env={"_STRONGROOM_COMPLETE": f"{shell}_source"}).communicate(timeout=180)
    assert "_STRONGROOM_COMPLETE" in out


def test_the_demo_needs_no_terminal_and_loses_nothing(empty: Path) -> None:
    out, err = process("demo").communicate(timeout=300)
    assert "0 lost" in out
    assert ("\x1b" in out, err) == (False, "")
    assert list(empty.iterdir()) == []


def test_sessions_of_a_contextstore_file_come_over(empty: Path, type_in: Type) -> None:
    with closing(sqlite3.connect(empty / "old.db")) as old, old:
        old.execute("CREATE TABLE tb_context (session_id TEXT PRIMARY KEY, context_json TEXT)")
        old.execute("INSERT INTO tb_context VALUES (?, ?)", ("talk", '[{"role": "user", "content": "hello"}]'))
    dry = type_in("import", "contextstore", "old.db", "--dry-run")
    assert (dry.code, sorted(path.name for path in empty.iterdir())) == (0, ["old.db"])
    assert "nothing was written" in dry.out
    assert type_in("import", "contextstore", "old.db", "--json").json["sessions"] == 1
    assert "hello" in type_in("sessions", "show", "talk").out


def test_run_folders_come_over(empty: Path, type_in: Type) -> None:
    old_folder(empty / "old" / "one")
    (empty / "old" / "two" / "state").mkdir(parents=True)
    (empty / "old" / "two" / "state" / "working_set.v2.1.json").write_text("{")
    dry = type_in("import", "aos", "old", "--dry-run", "--json")
    assert not (empty / "agent.db").exists()
    made = type_in("import", "aos", "old", "--json")
    assert [run["outcome"] for run in dry.json["runs"]] == ["would be imported", "refused"]
    assert [run["outcome"] for run in made.json["runs"]] == ["imported", "refused"]
    assert (dry.code, made.code) == (1, 1), "one was refused"
    assert type_in("runs", "verify", made.json["runs"][0]["run_id"]).code == 0


@pytest.mark.parametrize("word", ["CommitUnknown", "strongroom.errors.CommitUnknown", "commit_unknown"])
def test_an_error_is_explained_by_the_name_that_a_traceback_shows(word: str, type_in: Type) -> None:
    typed = type_in("explain", word)
    assert typed.code == 0 and "may or may not have happened" in " ".join(typed.out.split())


@pytest.mark.parametrize(("word", "meant"), [("forbidden", "permission"), ("Unauthorized", "unauthorised")])
def test_what_http_calls_an_error_is_explained_too(word: str, meant: str, type_in: Type) -> None:
    typed = type_in("explain", word, "--json")
    assert (typed.code, typed.json) == (0, type_in("explain", meant, "--json").json)


def test_a_code_that_only_a_server_sends_is_explained(type_in: Type) -> None:
    assert "If-Match" in type_in("explain", "expected_seq_needed").out


def test_whoever_installs_an_assistant_is_told_how_to_review_what_it_proposes(
    tmp_path: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("STRONGROOM_URL", raising=False)
    typed = type_in("mcp", "install", "cursor", "--file", str(tmp_path / "mcp.json"))
    assert f"strongroom --url {tmp_path}/strongroom/agent.db review" in typed.out
