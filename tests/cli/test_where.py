"""Where the data is, whose it is, and that looking changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import strongroom
from strongroom.cli import root
from tests.cli.commands import CASES
from tests.cli.conftest import Type
from tests.compat.aos_samples import USUAL, old_folder
from tests.server.serving import served

MAKING = {
    "keys create",
    "runs restore",
    "files write",
    "mcp install",
    "worker",
    "demo",
    "doctor",
    "version",
    "explain",
    "copy",
    "keys pair",
    "memories add",
    "memories propose",
}


@pytest.mark.parametrize("name", [name for name in CASES if name not in MAKING])
def test_looking_creates_nothing(name: str, empty: Path, type_in: Type) -> None:
    for url in ("missing.db", "sqlite:///missing.db", "no/such/folder/x.db"):
        answer = type_in("--url", url, *name.split(), *CASES[name][0])
        assert answer.code == 1
        assert "there is no store" in answer.err
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("name", ["doctor", "version", "explain"])
def test_what_needs_no_store_makes_none(name: str, empty: Path, type_in: Type) -> None:
    assert type_in(name).code == 0
    assert list(empty.iterdir()) == []


def test_copying_from_nowhere_makes_no_target(empty: Path, type_in: Type) -> None:
    assert type_in("copy", "missing.db", "new.db").code == 1
    assert list(empty.iterdir()) == []


def test_restoring_nothing_makes_no_store(empty: Path, type_in: Type) -> None:
    assert type_in("runs", "restore", "missing.zip").code == 1
    assert list(empty.iterdir()) == []


def test_a_worker_of_nothing_makes_no_store(empty: Path, type_in: Type) -> None:
    for target in ("no.such.module:dispatcher", "tests.cli.program:not_one", "nonsense"):
        assert type_in("worker", target).code == 1
    assert list(empty.iterdir()) == []


def test_an_empty_file_stays_empty(empty: Path, type_in: Type) -> None:
    (empty / "agent.db").touch()
    assert type_in("runs", "list").code == 1
    assert (empty / "agent.db").stat().st_size == 0


def test_a_pack_comes_back_into_a_new_store(here: Path, type_in: Type) -> None:
    assert type_in("--url", "new.db", "runs", "restore", "pack.zip").code == 0
    assert type_in("--url", "new.db", "runs", "verify", "scraper").code == 0


@pytest.mark.parametrize("place", ["before", "after", "environment", "uri", "aos", "file"])
def test_the_store_may_be_named_in_many_ways(
    place: str, empty: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = empty / "else where"
    folder.mkdir()
    url = str(folder / ("strongroom.db" if place == "aos" else "agent.db"))
    with strongroom.open(url, space="acme") as ctx:
        ctx.runs.create(objective="find me", run_id="found")
    args = {
        "before": ["--url", url, "runs", "list"],
        "after": ["runs", "list", "--url", url],
        "uri": ["runs", "list", "--url", f"sqlite:///{url}"],
    }.get(place, ["runs", "list"])
    if place == "environment":
        monkeypatch.setenv("STRONGROOM_URL", url)
    if place == "aos":
        monkeypatch.setenv("AOS_RUNS_ROOT", str(folder))
    if place == "file":
        (empty / "strongroom.yaml").write_text(f"backend:\n  url: {url}\n  space: acme\n")
    else:
        monkeypatch.setenv("STRONGROOM_SPACE", "acme")
    assert "find me" in type_in(*args).out


@pytest.fixture
def started_with(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What the environment is each time a server would start."""
    starts: list[dict[str, str]] = []
    monkeypatch.setattr("strongroom.server.running.run", lambda *_, **__: starts.append(dict(os.environ)))
    return starts


def test_a_server_makes_the_folder_that_an_older_variable_names(
    empty: Path, type_in: Type, started_with: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = empty / "not" / "there"
    monkeypatch.setenv("AOS_RUNS_ROOT", str(folder))
    assert type_in("serve").code == 0
    assert folder.is_dir()
    assert started_with[0]["STRONGROOM_URL"] == str(folder / "strongroom.db")
    assert started_with[0]["STRONGROOM_SNAPSHOTS"] == str(folder / "snapshots")


def test_a_server_takes_in_the_runs_of_the_folder_that_an_older_variable_names(
    empty: Path, type_in: Type, started_with: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(empty / "runs" / "run_old", run_id="run_old")
    (old_folder(empty / "runs" / "run_bad", run_id="run_bad") / USUAL).write_text("{")
    monkeypatch.setenv("AOS_RUNS_ROOT", str(empty / "runs"))
    said = type_in("serve")
    assert said.code == 0 and len(started_with) == 1
    assert "took 1 of the runs" in said.err and "run_bad could not be taken in" in said.err
    with strongroom.open(empty / "runs" / "strongroom.db") as ctx:
        assert ctx.runs.get("run_old").seq == 41
    assert "took" not in type_in("serve").err


def test_a_server_that_cannot_use_qdrant_for_want_of_an_embedder_says_so(
    empty: Path, type_in: Type, started_with: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://vectors.example")
    assert "STRONGROOM_EMBEDDER" in type_in("serve").err
    assert len(started_with) == 1


def test_what_is_typed_wins_over_the_environment(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONGROOM_URL", "missing.db")
    monkeypatch.setenv("AOS_RUNS_ROOT", "missing")
    assert type_in("--url", "agent.db", "runs", "list").code == 0
    assert type_in("runs", "list").code == 1


def test_a_space_shows_only_its_own(here: Path, type_in: Type) -> None:
    assert type_in("--space", "other", "runs", "list", "--json").json["runs"] == []
    assert "none at all in space 'other'" in type_in("runs", "show", "scraper", "--space", "other").err


def test_a_wrong_settings_file_is_explained(here: Path, type_in: Type) -> None:
    (here / "strongroom.yaml").write_text("backend:\n  urll: x\n")
    answer = type_in("runs", "list")
    assert answer.code == 1
    assert "did you mean 'url'?" in answer.err


def test_secrets_in_an_address_are_not_shown(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_URL", "https://me:secret@vectors.example")
    answer = type_in("doctor")
    assert "vectors.example" in answer.out
    assert "secret" not in answer.out


def test_doctor_tells_how_long_ids_are_remembered(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        return str(type_in("doctor", "--json").json["facts"]["repeats"])

    assert told().startswith("ids that callers chose are remembered for 30 days, ours for 1 hour; ")
    (here / "strongroom.yaml").write_text("backend:\n  repeats: forever\n")
    assert "remembered for as long as the store exists" in told()
    monkeypatch.setenv("STRONGROOM_REPEATS", "36h")
    assert "remembered for 36 hours" in told()


def test_a_setting_for_writers_does_not_keep_a_file_that_can_only_be_read_from_being_shown(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "is_read_only", lambda path: True)
    (here / "strongroom.yaml").write_text("backend: {url: agent.db, repeats: forever}")
    monkeypatch.setenv("STRONGROOM_REPEATS", "36h")
    assert "scraper" in type_in("runs", "list").out
    assert type_in("check").code == 0


def test_a_server_is_an_address_too(here: Path, type_in: Type) -> None:
    with served(str(here / "agent.db"), snapshots=str(here / "s")) as server:
        key = server.key("default", "admin")
        remote = ("--url", server.url, "--key", key)
        assert "scraper" in type_in(*remote, "runs", "list").out
        assert type_in(*remote, "runs", "verify", "scraper").code == 0
        assert "did you mean 'scraper'?" in type_in(*remote, "runs", "show", "scrapper").err
        assert type_in(*remote, "memories", "commit", "batch_second").code == 0
        assert "the space comes from the key" in type_in(*remote, "--space", "other", "runs", "list").err
        assert "durability" in type_in(*remote, "doctor").out
        copying = f"copy agent.db {server.url}"
        for local in ("check", "backup x.db", "compact", copying, "keys list", "worker tests.cli.program:dispatcher"):
            assert type_in(*remote, *local.split()).code == 1
        refused = type_in("--url", server.url, "--key", "wrong", "runs", "list")
        assert refused.code == 1, "a refusal is no failure of the store"
        assert type_in("--url", server.url, "runs", "list").code == 1
        writer = ("--url", server.url, "--key", server.key("default", "writer"))
        assert type_in(*writer, "memories", "commit", "batch_first").code == 1
        assert type_in(*writer, "erase", "--user", "ana", "--yes").code == 1
        assert "key is not known" in refused.err and "strongroom explain unauthorised" in refused.err
        assert "strongroom keys list" in type_in("explain", "unauthorised").out
    assert not (here / "x.db").exists()
    assert os.environ.get("STRONGROOM_URL") is None


@pytest.mark.parametrize("command", [["list"], ["create", "--role", "reader"], ["revoke", "key_1"]])
def test_keys_of_a_server_are_said_to_be_had_over_http(command: list[str], empty: Path, type_in: Type) -> None:
    answer = type_in("--url", "http://localhost:8000", "keys", *command)
    assert answer.code == 1 and "on a server, admins use GET and POST http://localhost:8000/keys" in answer.err


def test_a_server_cannot_be_served(empty: Path, type_in: Type) -> None:
    answer = type_in("--url", "http://localhost:8000", "serve")
    assert answer.code == 1 and "is a server already; serve needs the address of a store with --url" in answer.err


def test_looking_into_an_empty_file_says_that_it_is_empty(empty: Path, type_in: Type) -> None:
    (empty / "zero.db").touch()
    answer = type_in("--url", "zero.db", "runs", "list")
    assert (answer.code, "'zero.db' is an empty file, no store yet" in answer.err) == (1, True)


def test_looking_into_an_empty_file_leaves_it_empty(empty: Path, type_in: Type) -> None:
    (empty / "zero.db").touch()
    type_in("--url", "zero.db", "runs", "list")
    assert [(file.name, file.stat().st_size) for file in empty.iterdir()] == [("zero.db", 0)]


def test_a_name_too_long_for_a_file_is_no_store(empty: Path, type_in: Type) -> None:
    assert "there is no store at" in type_in("--url", "x" * 300, "runs", "list").err


def test_a_copy_into_the_memory_of_the_command_is_refused(here: Path, type_in: Type) -> None:
    answer = type_in("copy", "agent.db", "memory://")
    assert (answer.code, "ends with this command" in answer.err) == (1, True)
