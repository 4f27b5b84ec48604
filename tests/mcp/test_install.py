"""Telling assistants about `strongroom mcp`, and taking it back."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidInput
from strongroom.mcp.clients import CLIENTS, Entry
from strongroom.mcp.install import adding, check_name, our_command, record_of, removing, restore, write
from strongroom.mcp.stdio import default_file

ENTRY = Entry("/bin/strongroom", ("mcp", "--name", 'a "b"'), {"STRONGROOM_URL": "/x/agent.db"})
OTHERS = {
    "claude-desktop": '{\n    "theme": "dark",\n    "mcpServers": {"other": {"command": "x"}}\n}',
    "claude-code": '{"mcpServers": {}}\n',
    "cursor": '{\n\t"mcpServers": {\n\t\t"other": {\n\t\t\t"command": "ä"\n\t\t}\n\t}\n}\n',
    "vscode": '{"inputs": [], "servers": {"other": {"type": "http", "url": "https://x"}}}',
    "codex": '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y" # keep\n\n[profiles.a]\nb = 1\n',
}


def servers(client: str, text: str) -> dict[str, Any]:
    if client == "codex":
        return dict(tomllib.loads(text)["mcp_servers"])
    return dict(json.loads(text)["servers" if client == "vscode" else "mcpServers"])


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Any:
    return CLIENTS[request.param]


@pytest.mark.parametrize("there", [True, False])
def test_an_entry_is_added_and_an_undo_gives_back_the_same_bytes(client: Any, tmp_path: Path, there: bool) -> None:
    file = tmp_path / "folder" / "config"
    if there:
        file.parent.mkdir()
        file.write_text(OTHERS[client.name])
    record = record_of(tmp_path, client, file, "strongroom")
    write(adding(client, file, "strongroom", ENTRY), record)
    told = servers(client.name, file.read_text())
    assert told["strongroom"]["command"] == "/bin/strongroom"
    assert told["strongroom"]["args"] == list(ENTRY.args)
    assert told["strongroom"]["env"] == ENTRY.env
    if there and client.name != "claude-code":
        assert "other" in told
    restore(removing(client, file, "strongroom", record), record)
    assert file.read_text() == OTHERS[client.name] if there else not file.exists()


def test_an_undo_after_others_wrote_takes_out_our_entry_alone(client: Any, tmp_path: Path) -> None:
    file, record = tmp_path / "config", tmp_path / "record"
    file.write_text(OTHERS[client.name])
    write(adding(client, file, "strongroom", ENTRY), record)
    write(adding(client, file, "another", ENTRY), tmp_path / "other-record")
    restore(removing(client, file, "strongroom", record), record)
    left = servers(client.name, file.read_text())
    assert "another" in left and "strongroom" not in left
    if client.name == "codex":
        assert "# mine" in file.read_text() and 'command = "y" # keep' in file.read_text()


def test_installed_twice_the_undo_goes_back_to_before_the_first_time(client: Any, tmp_path: Path) -> None:
    file, record = tmp_path / "config", tmp_path / "record"
    file.write_text(OTHERS[client.name])
    write(adding(client, file, "strongroom", ENTRY), record)
    write(adding(client, file, "strongroom", Entry("/other", ())), record)
    assert servers(client.name, file.read_text())["strongroom"]["command"] == "/other"
    restore(removing(client, file, "strongroom", record), record)
    assert file.read_text() == OTHERS[client.name]


@pytest.mark.parametrize("text", ["{// a comment\n}", "[1]", '{"mcpServers": 3, "servers": 3}', "\x00"])
def test_a_file_that_is_not_understood_is_left_alone(client: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    if client.name == "codex" and text == "[1]":
        return
    with pytest.raises(InvalidInput):
        adding(client, file, "strongroom", ENTRY)
    assert file.read_text() == text


def test_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("{}")
    file.chmod(0o640)
    write(adding(CLIENTS["cursor"], file, "strongroom", ENTRY), tmp_path / "record")
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["", "a b", "a]", "x" * 65, 'a"b'])
def test_a_name_that_could_break_a_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_name(name)


def test_the_program_is_named_so_that_it_is_found_from_anywhere(tmp_path: Path) -> None:
    script = tmp_path / "strongroom"
    script.write_text("")
    script.chmod(0o755)
    assert our_command([str(script)]) == (str(script),)
    there = Path(sys.executable)
    assert our_command(["-c"]) == (str(there.parent.resolve() / there.name), "-m", "strongroom")
    (tmp_path / "link").symlink_to(tmp_path)
    assert our_command([str(tmp_path / "link" / ".." / tmp_path.name / "strongroom")]) == (str(script),)


@pytest.mark.parametrize("typed", ["work.db", "sub/../work.db", "link/work.db", "sqlite://work.db"])
def test_the_store_is_named_by_its_one_full_path(tmp_path: Path, typed: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    said = strongroom(tmp_path, "--url", typed, "mcp", "install", "cursor", "--file", "sub/../mcp.json")
    [entry] = json.loads((tmp_path / "mcp.json").read_text())["mcpServers"].values()
    assert entry["env"] == {"STRONGROOM_URL": str(tmp_path / "work.db")}
    assert f"--url {tmp_path}/work.db review" in said and f"--file {tmp_path}/mcp.json --undo" in said


def test_the_default_file_is_the_users_own() -> None:
    assert default_file({"HOME": "/home/ana"}) == Path("/home/ana/.local/share/strongroom/agent.db")
    assert default_file({"HOME": "/home/ana", "XDG_DATA_HOME": "/d"}) == Path("/d/strongroom/agent.db")


def strongroom(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", *arguments],
        cwd=home, env={"HOME": str(home), "PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_shows_what_it_changes_writes_it_and_can_undo_it(tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    shown = strongroom(tmp_path, "mcp", "install", "cursor", "--print", "--key", "srk_secret.1")
    assert '+    "strongroom": {' in shown and "srk_secret" not in shown and not file.exists()
    strongroom(tmp_path, "--url", "work.db", "mcp", "install", "cursor")
    told = json.loads(file.read_text())["mcpServers"]["strongroom"]
    assert told["args"][-5:] == ["mcp", "--profile", "agent", "--name", "cursor"]
    assert told["env"] == {"STRONGROOM_URL": str(tmp_path / "work.db")}
    assert "nothing to change" in strongroom(tmp_path, "--url", "work.db", "mcp", "install", "cursor")
    strongroom(tmp_path, "mcp", "install", "cursor", "--profile", "reviewer")
    assert set(json.loads(file.read_text())["mcpServers"]) == {"strongroom", "strongroom-review"}
    strongroom(tmp_path, "mcp", "install", "cursor", "--profile", "reviewer", "--undo")
    strongroom(tmp_path, "mcp", "install", "cursor", "--undo")
    assert not file.exists()


def test_the_file_we_made_goes_with_the_last_of_our_entries_in_any_order(client: Any, tmp_path: Path) -> None:
    file, records = tmp_path / "config", {name: tmp_path / "records" / name for name in ("one", "two")}
    for name, record in records.items():
        write(adding(client, file, name, ENTRY), record)
    for name, record in records.items():
        assert file.exists()
        restore(removing(client, file, name, record), record)
    assert not file.exists()


def test_a_file_that_somebody_else_made_stays_when_our_last_entry_goes(client: Any, tmp_path: Path) -> None:
    file, records = tmp_path / "config", {name: tmp_path / "records" / name for name in ("one", "two")}
    file.write_text("")
    for name, record in records.items():
        write(adding(client, file, name, ENTRY), record)
    for name, record in records.items():
        restore(removing(client, file, name, record), record)
    assert file.exists()


@pytest.mark.parametrize("name", ["vscode", "cursor"])
def test_what_to_add_by_hand_is_shown_for_a_file_with_comments(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{ // mine\n}")
    command = ("mcp", "install", name, "--file", str(file), "--print", "--key", "srk_secret.1")
    shown = strongroom(tmp_path, *command)
    assert '"strongroom": {' in shown and "not plain JSON" in shown and "srk_secret" not in shown
    by_hand = json.loads(strongroom(tmp_path, *command, "--json"))["by_hand"]
    assert servers(name, by_hand)["strongroom"]["args"][-1] == name
    assert file.read_text() == "{ // mine\n}"


def test_the_hint_how_to_undo_undoes(tmp_path: Path) -> None:
    told = strongroom(tmp_path, "mcp", "install", "cursor", "--profile", "reviewer", "--file", "a b.json")
    [hint] = [one for one in told.split("`") if one.endswith("--undo")]
    strongroom(tmp_path, *shlex.split(hint)[1:])
    assert not (tmp_path / "a b.json").exists()
