"""The commands about a store as a whole, also when they are typed a second time."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import weakref
from pathlib import Path

import pytest

import strongroom
from strongroom.cli.serving import ended_in_order
from strongroom.codec import encode
from strongroom.errors import Unavailable
from strongroom.store import Commit, Get, Key, Put, ask, new_id
from tests.cli.conftest import Type
from tests.server.serving import served


def test_a_copy_onto_something_else_is_refused_and_changes_nothing(here: Path, type_in: Type) -> None:
    with strongroom.open("other.db") as ctx:
        ctx.runs.create(objective="of somebody else", run_id="other")
    typed = type_in("copy", "agent.db", "other.db")
    assert typed.code == 1
    assert "not empty" in typed.err and "nothing was copied" in typed.err
    with strongroom.open("other.db") as ctx:
        assert [run.id for run in ctx.runs.list()] == ["other"]
        assert list(ctx.sessions.list()) == []


def test_a_copy_typed_twice_is_refused_the_second_time(here: Path, type_in: Type) -> None:
    assert type_in("copy", "agent.db", "other.db").code == 0
    typed = type_in("copy", "agent.db", "other.db")
    assert (typed.code, "not empty" in typed.err) == (1, True)
    assert type_in("check", "--url", "other.db").code == 0


def test_a_copy_says_that_commit_ids_did_not_come_along(here: Path, type_in: Type) -> None:
    assert "commit ids did not come along" in type_in("copy", "agent.db", "other.db").out


def test_a_copy_that_answers_a_program_says_nothing_but_json(here: Path, type_in: Type) -> None:
    json.loads(type_in("copy", "agent.db", "other.db", "--json").out)


def _log_alone(folder: Path) -> Path:
    """Leave a log with commits in a folder, and not the file that it is of."""
    with strongroom.open(folder / "lost.db") as ctx:
        ctx.sessions.open("talk").append({"role": "user", "content": "acknowledged"})
        log = (folder / "lost.db-wal").read_bytes()
    for left in folder.glob("lost.db*"):
        left.unlink()
    (folder / "lost.db-wal").write_bytes(log)
    return folder / "lost.db-wal"


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--url", "lost.db"),
        ("doctor", "--url", "lost.db"),
        ("runs", "restore", "pack.zip", "--url", "lost.db"),
        ("backup", "lost.db"),
        ("copy", "agent.db", "lost.db"),
        ("copy", "lost.db", "other.db"),
        ("serve", "--url", "lost.db", "--port", "0"),
    ],
)
def test_no_command_makes_a_store_beside_a_log_with_commits(words: tuple[str, ...], here: Path, type_in: Type) -> None:
    log = _log_alone(here)
    content = log.read_bytes()
    typed = type_in(*words)
    assert typed.code == 3
    assert "put that file back" in typed.err
    assert log.read_bytes() == content
    assert not log.with_name("lost.db").exists()


@pytest.mark.parametrize("words", [("check", "--url", "kept.db"), ("copy", "kept.db", "other.db")])
def test_a_backup_that_was_checked_or_copied_is_still_known_beside_another_log(
    words: tuple[str, ...], here: Path, type_in: Type
) -> None:
    assert type_in("backup", "kept.db").code == 0
    before = (here / "kept.db").read_bytes()
    assert type_in(*words).code == 0
    assert (here / "kept.db").read_bytes() == before
    _log_alone(here).rename(here / "kept.db-wal")
    typed = type_in("check", "--url", "kept.db")
    assert (typed.code, "remove kept.db-wal" in typed.err) == (3, True)


def test_a_store_is_not_copied_onto_itself(here: Path, type_in: Type) -> None:
    assert type_in("copy", "agent.db", "agent.db").code == 1
    assert type_in("check").code == 0


def test_check_finds_a_run_that_is_not_what_its_ledger_says(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db", space="acme") as ctx:
        ctx.runs.create(objective="honest", run_id="forged")
        key = Key("acme", "run", "forged")
        found = ask(ctx.store, Get(key))
        assert found is not None
        value = encode(json.loads(found.value.replace(b"honest", b"forged")))
        ctx.store.commit(Commit(new_id(), (), (Put(key, value, found.tags),)))
    typed = type_in("check")
    assert typed.code == 3
    assert "run 'forged' in 'acme': the working set is not what the ledger leads to" in typed.out
    assert "all good" not in typed.out
    told = type_in("check", "--json")
    assert (told.code, told.json["ok"], told.json["runs"]) == (3, False, 2)


def test_check_of_what_cannot_be_opened_says_that_no_run_was_looked_at(empty: Path, type_in: Type) -> None:
    (empty / "notes.db").write_text("not a database, but longer than the header of one is: " * 10)
    typed = type_in("check", "--url", "notes.db")
    assert (typed.code, "no run is known to be what its ledger says" in typed.err) == (3, True)


def test_doctor_and_check_count_the_same(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        ctx.files.delete("/notes/a.md")
        ctx.threads.delete("errands")
        ctx.sessions.get("support").delete()
    held = type_in("doctor", "--json").json["facts"]["holds"]
    assert "; tombstones of " in held
    assert f"{held}; " in type_in("check").out


def test_check_typed_twice_says_the_same(here: Path, type_in: Type) -> None:
    assert type_in("check") == type_in("check")


def test_doctor_typed_twice_says_the_same_and_makes_nothing(empty: Path, type_in: Type) -> None:
    first, second = type_in("doctor"), type_in("doctor")
    assert first.code == second.code == 0
    assert "no store here yet" in first.out and "no store here yet" in second.out
    assert list(empty.iterdir()) == []


def test_doctor_calls_an_extra_installed_only_if_all_of_it_is(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server() -> str:
        return str(type_in("doctor", "--json").json["facts"]["extra server"])

    find = importlib.util.find_spec
    assert server() == "installed: strongroom serve"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "swagger_ui" else find(name))
    assert server() == "pip install 'strongroom[server]' for strongroom serve"


def test_a_server_that_cannot_begin_leaves_no_store_behind(empty: Path, type_in: Type) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for _ in range(2):
            refused = type_in("serve", "--port", port)
            assert refused.code == 1
            assert f"port {port}" in refused.err and "--port takes another one" in refused.err
    assert list(empty.iterdir()) == []


def test_a_demo_leaves_nothing_behind(empty: Path, type_in: Type) -> None:
    for _ in range(2):
        assert type_in("demo", "--fast").code == 0
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--serve", "--port", "0"), ()])
def test_a_demo_that_is_told_to_stop_leaves_nothing_behind(empty: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "strongroom", "demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(empty), "PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert started.stdout is not None
    for line in started.stdout:
        if "Strongroom on" in line or "kill -9" in line:
            break
    assert len(list(empty.iterdir())) == 1
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=300)
    assert (list(empty.iterdir()), "Traceback" in err) == ([], False)


def test_a_folder_is_called_a_folder_by_every_command(here: Path, type_in: Type) -> None:
    for command in ("doctor", "check", "runs list"):
        refused = type_in("--url", str(here), *command.split())
        assert (refused.code, "is a folder" in refused.err) == (1, True)


INTERRUPTED = """
import sys
class Slow:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Slow())
from strongroom.__main__ import main
sys.argv = ["strongroom", "check"]
main()
"""


@pytest.mark.parametrize("module", ["strongroom.cli", "click", "rich.console", "strongroom.checking"])
def test_a_command_that_is_interrupted_while_it_loads_shows_no_traceback(module: str, here: Path) -> None:
    program = INTERRUPTED.format(module=module)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr and "interrupted" in ended.stderr


def test_the_installed_command_is_the_one_that_can_be_interrupted() -> None:
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert settings["project"]["scripts"]["strongroom"] == "strongroom.__main__:main"


def test_doctor_tells_what_meaning_is_searched_with(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRONGROOM_EMBEDDER", "tests.hashed:hashed")
    assert type_in("doctor", "--json").json["facts"]["index"] == "local"
    monkeypatch.setenv("QDRANT_URL", str(tmp_path / "points"))
    found = type_in("doctor", "--json").json
    assert found["facts"]["embedder"] == "tests.hashed:hashed"
    assert found["facts"]["index"].startswith("qdrant; ") and "wait for the next search" in found["facts"]["index"]


@pytest.mark.parametrize(
    ("embedder", "qdrant", "said"),
    [
        ("tests.cli.program:away", "", "the embedder fails since"),
        ("tests.hashed:hashed", "http://127.0.0.1:9", "the index fails since"),
        ("no_such_module:thing", "", "cannot be searched by meaning"),
        ("", "http://127.0.0.1:9", "STRONGROOM_EMBEDDER is not"),
    ],
)
def test_doctor_tells_what_of_meaning_does_not_work(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch, embedder: str, qdrant: str, said: str
) -> None:
    for name, value in (("STRONGROOM_EMBEDDER", embedder), ("QDRANT_URL", qdrant)):
        if value:
            monkeypatch.setenv(name, value)
    found = type_in("doctor", "--json")
    assert found.code == 0
    assert said in " ".join(found.json["advice"])


def test_doctor_asks_a_server_how_it_searches(here: Path, type_in: Type) -> None:
    with served(embedder="tests.hashed:hashed") as server:
        found = type_in("--url", server.url, "doctor", "--json").json
    assert (found["facts"]["embedder"], found["facts"]["index"]) == ("tests.hashed:hashed", "local")


def test_check_of_half_a_copy_says_to_finish_it(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(store: object) -> object:
        raise Unavailable("gone", reason="unreachable")

    with monkeypatch.context() as patched:
        patched.setattr("strongroom.copying.survey", broken)
        assert type_in("copy", "agent.db", "half.db").code == 3
    told = type_in("--url", "half.db", "check")
    assert told.code == 3
    assert told.out.endswith("1 wrong; finish the copy: `strongroom copy` from the same source\n")
    assert "restore a backup" not in told.out
    assert type_in("copy", "agent.db", "half.db").code == 0
    assert type_in("--url", "half.db", "check").code == 0


def test_being_told_to_stop_is_heard_also_where_python_ignores_what_is_raised() -> None:
    class Thing:
        pass

    with pytest.raises(KeyboardInterrupt), ended_in_order():
        thing = Thing()
        held = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        del thing  # it is told in the callback, out of which nothing is raised
        threading.Event().wait(60)
    assert held() is None
