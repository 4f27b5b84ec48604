"""What is said where a file that somebody named cannot be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.errors import Unavailable
from strongroom.files import add_line, writing
from strongroom.remedies import REASONS
from tests.cli.conftest import Type

WORDS = [
    ("backup", "{}"),
    ("anchor", "{}", "scraper"),
    ("runs", "export", "scraper", "{}"),
]
# Nobody makes a file there, root neither.
PLACES = ["/proc/of-a-user.db", f"{'x' * 300}.db"]


@pytest.fixture(params=PLACES, ids=["no place for files", "a long name"])
def place(request: Any) -> str:
    return str(request.param)


def typed(type_in: Type, words: tuple[str, ...], place: str) -> Any:
    return type_in(*[word.format(place) for word in words])


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_the_file_that_was_named_is_named(words: tuple[str, ...], place: str, here: Path, type_in: Type) -> None:
    assert f"{place}' cannot be written" in typed(type_in, words, place).err


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_it_is_said_that_nothing_was_written(words: tuple[str, ...], place: str, here: Path, type_in: Type) -> None:
    assert "nothing was written" in typed(type_in, words, place).err


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_no_name_of_the_file_beside_it_is_shown(words: tuple[str, ...], place: str, here: Path, type_in: Type) -> None:
    assert ".partial" not in typed(type_in, words, place).err


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_the_exit_code_is_that_of_a_place_that_fails(
    words: tuple[str, ...], place: str, here: Path, type_in: Type
) -> None:
    assert typed(type_in, words, place).code == 3


@pytest.mark.parametrize("write", [lambda path: add_line(path, b"x"), lambda path: writing(path).__enter__()])
def test_a_right_that_is_missing_is_told_by_its_reason(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(tmp_path / ".hidden.partial"))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Unavailable) as refused:
        write(tmp_path / "kept.txt")
    assert refused.value.reason == "read_only"


def test_a_backup_without_the_right_is_refused_by_that_reason(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if str(path).endswith(".partial"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, flags, *more, **named)

    really = os.open
    with strongroom.open("agent.db") as ctx:
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(Unavailable) as refused:
            ctx.store.backup("copy.db")  # type: ignore[attr-defined]
    assert refused.value.reason == "read_only"


def test_where_a_file_cannot_be_written_the_command_line_is_told_too(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open("agent.db") as ctx:
        told = str(ctx.store._cannot_write())  # type: ignore[attr-defined]
    assert "a command that only looks opens it for reading by itself" in told


def test_the_remedy_of_what_cannot_be_written_does_not_only_say_to_open_it_otherwise() -> None:
    assert "the right to write the file and the folder it lies in" in REASONS["read_only"].remedy
