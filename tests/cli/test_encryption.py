"""Keys at the command line: from the environment or asked for, never seen, and one file at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom.errors import SchemaMismatch
from tests.cli.conftest import Type

ONE, TWO = "first passphrase 51c2", "second passphrase 51c2"


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("STRONGROOM_KEY", ONE)
    return monkeypatch


def opens(path: str, key: str | None) -> bool:
    try:
        with strongroom.open(path, key=key) as ctx:
            return len(ctx.runs.list()) > 0
    except SchemaMismatch:
        return False


def test_a_store_is_encrypted_used_put_under_another_key_and_decrypted(
    here: Path, type_in: Type, keyed: pytest.MonkeyPatch
) -> None:
    answer = type_in("encrypt")
    assert (answer.code, answer.out.startswith("encrypted: ")) == (0, True)
    assert opens("agent.db", ONE)
    assert type_in("check").code == 0
    assert "ChaCha20" in type_in("doctor").out
    keyed.setenv("STRONGROOM_NEW_KEY", TWO)
    assert type_in("rekey", "--json").json["encrypted"] is True
    assert (opens("agent.db", ONE), opens("agent.db", TWO)) == (False, True)
    keyed.setenv("STRONGROOM_KEY", TWO)
    assert type_in("decrypt").code == 0
    keyed.delenv("STRONGROOM_KEY")
    assert opens("agent.db", None)
    assert type_in("check").code == 0


def test_copies_and_backups_keep_change_or_lose_the_key(here: Path, type_in: Type, keyed: pytest.MonkeyPatch) -> None:
    keyed.setenv("STRONGROOM_NEW_KEY", TWO)
    assert type_in("encrypt").code == 0
    for verb in (["backup"], ["copy", "agent.db"]):
        name = verb[0]
        assert type_in(*verb, f"{name}-same.db").code == 0
        assert type_in(*verb, f"{name}-new.db", "--new-key").code == 0
        assert type_in(*verb, f"{name}-plain.db", "--decrypt").code == 0
        assert type_in(*verb, f"{name}-both.db", "--decrypt", "--new-key").code != 0
        assert not Path(f"{name}-both.db").exists()
        assert (opens(f"{name}-same.db", ONE), opens(f"{name}-new.db", TWO)) == (True, True)
    keyed.delenv("STRONGROOM_KEY")
    assert (opens("backup-plain.db", None), opens("copy-plain.db", None)) == (True, True)


def test_without_a_terminal_a_missing_key_is_an_error_that_names_the_variables(here: Path, type_in: Type) -> None:
    before = Path("agent.db").read_bytes()
    for command, variable in (("encrypt", "STRONGROOM_KEY_FILE"), ("decrypt", "STRONGROOM_KEY_COMMAND")):
        answer = type_in(command)
        assert answer.code != 0
        assert variable in answer.err
    assert Path("agent.db").read_bytes() == before


def test_no_command_takes_a_key_on_its_line(here: Path, type_in: Type) -> None:
    for command in ("encrypt", "decrypt", "rekey"):
        assert type_in(command, ONE).code == 2
        assert type_in(command, "--new-key", ONE).code == 2


def test_no_answer_shows_a_key(here: Path, type_in: Type, keyed: pytest.MonkeyPatch) -> None:
    told = [type_in("encrypt"), type_in("encrypt"), type_in("doctor"), type_in("doctor", "--json"), type_in("check")]
    keyed.setenv("STRONGROOM_KEY", TWO)
    told += [type_in("doctor"), type_in("runs", "list"), type_in("decrypt")]
    assert [answer.code for answer in told] == [0, 1, 0, 0, 0, 3, 3, 3]
    assert "51c2" not in "".join(answer.out + answer.err for answer in told)


def test_what_is_no_file_cannot_be_encrypted(here: Path, type_in: Type, keyed: pytest.MonkeyPatch) -> None:
    answer = type_in("encrypt", "--url", "memory://")
    assert (answer.code, "only a SQLite store" in answer.err) == (1, True)
    assert type_in("encrypt", "--url", "nothing.db").code == 1
    assert not Path("nothing.db").exists()
