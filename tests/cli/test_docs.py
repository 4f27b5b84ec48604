"""The pages and pictures made from the program are those of this program."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from docs.build import BEGIN, DOCS, END, SCREENS, cli_page, pages
from docs.contents import with_contents

from tests.cli.commands import groups, leaves


def test_the_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in pages().items() if path.read_text() != text]
    assert stale == [], "run `make docs`"


def test_a_stale_page_would_be_seen() -> None:
    page = (DOCS / "cli.md").read_text()
    stale = page.replace("Usage: strongroom runs list", "Usage: strongroom runs lst")
    assert stale != page
    assert cli_page(stale) == page


def test_a_long_page_says_what_is_on_it_before_it_begins() -> None:
    page = (DOCS / "memories.md").read_text()
    told, rest = page.partition("\n## ")[::2]
    headings = [line for line in f"## {rest}".splitlines() if line.startswith("## ")]
    assert len(headings) > 5 and [one for one in headings if f"[{one[3:]}](#" not in told] == []


def test_a_short_page_says_no_more_than_it_did() -> None:
    page = (DOCS / "start.md").read_text()
    assert with_contents(page) == page


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
