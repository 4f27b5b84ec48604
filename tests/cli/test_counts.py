"""How many, on the command line: see tests/test_counts.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strongroom.cli import output
from strongroom.cli.output import many
from strongroom.cli.root import Count
from tests.cli.commands import leaves
from tests.cli.conftest import Type


@pytest.mark.parametrize("wrong", ["0", "-1", "1001", "many"])
@pytest.mark.parametrize(("command", "name"), [("runs list", "--limit"), ("memories search x", "-k")])
def test_the_command_line_refuses_in_the_same_words(command: str, name: str, wrong: str, type_in: Type) -> None:
    refused = type_in(*command.split(), name, wrong)
    assert refused.code == 2
    assert f"Invalid value for '{name}': must be a whole number from 1 to 1,000, not {wrong}" in refused.err


def test_every_count_of_the_command_line_follows_the_rule() -> None:
    options = [option for _, command in leaves() for option in command.params]
    counts = [option for option in options if {"--limit", "-k"} & set(option.opts)]
    assert len(counts) > 10
    assert {type(option.type) for option in counts} == {Count}


WORDS = {
    "artifact": "artifacts", "batch": "batches", "document": "documents", "episode": "episodes", "event": "events",
    "file": "files", "group": "groups", "key": "keys", "memory": "memories", "message": "messages",
    "proposal": "proposals", "record": "records", "run": "runs", "session": "sessions", "slot": "slots",
    "stream": "streams", "thing": "things", "version": "versions",
}  # fmt: skip


@pytest.mark.parametrize(("word", "more"), WORDS.items())
def test_more_than_one_of_something_is_called_by_its_plural(word: str, more: str) -> None:
    assert many(53, word) == f"53 {more}"


@pytest.mark.parametrize("word", WORDS)
def test_one_of_something_is_called_by_its_name(word: str) -> None:
    assert many(1, word) == f"1 {word}"


def test_every_word_that_is_counted_has_its_plural_looked_at() -> None:
    text = "".join(file.read_text() for file in Path(output.__file__).parent.glob("*.py"))
    said = {*re.findall(r"many\([^\"']*[\"'](\w+)[\"']\)", text)}
    assert "key" in said and said <= {*WORDS}
