"""How many, on the command line: see tests/test_counts.py."""

from __future__ import annotations

import pytest

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
