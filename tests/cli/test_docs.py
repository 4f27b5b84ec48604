"""The pages and pictures made from the program are those of this program."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from docs.build import BEGIN, DOCS, END, SCREENS, cli_page, pages

from tests.cli.commands import groups, leaves


def test_the_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in pages().items() if path.read_text() != text]
    assert stale == [], "run `make docs`"


def test_a_stale_page_would_be_seen() -> None:
    page = (DOCS / "cli.md").read_text()
    stale = page.replace("Usage: strongroom runs list", "Usage: strongroom runs lst")
    assert stale != page
    assert cli_page(stale) == page


def test_every_command_has_its_help_in_the_page() -> None:
    page = (DOCS / "cli.md").read_text()
    told = page.partition(BEGIN)[2].partition(END)[0]
    names = [f"strongroom {name}".strip() for name in [*groups(), *(name for name, _ in leaves())]]
    assert [name for name in names if f"### `{name}`\n" not in told] == []


@pytest.mark.parametrize("name", SCREENS)
def test_there_is_a_picture_of_what_a_command_prints(name: str) -> None:
    picture = (DOCS / "screens" / f"{name}.svg").read_text()
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "url(http" not in picture
    assert f"strongroom&#160;{SCREENS[name][0]}" in picture
