"""The documentation site builds without a warning, twice the same, asks nobody for anything, leaves nothing out."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from docs import build, drawings, reference, settings, site

import strongroom
from strongroom import remedies, schemas
from strongroom.protocol.errors import ERRORS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    site.build(target)
    return target


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_site_has_the_same_bytes_when_it_is_built_again(built: Path, tmp_path: Path) -> None:
    site.build(tmp_path)
    assert digests(tmp_path) == digests(built)


def test_a_screen_with_other_ids_times_and_amounts_is_the_same_screen() -> None:
    old = "<text>run_e642e320d2cb4fc8&#160;at&#160;2026-11-17&#160;18:18:33,&#160;65.3&#160;GB&#160;&#160;free</text>"
    new = "<text>run_e9fef9d744ef3390&#160;at&#160;2026-11-18&#160;09:00:01,&#160;158.4&#160;GB&#160;free</text>"
    assert build.still(old) == build.still(new)
    assert build.still(old) != build.still(new.replace("free", "left"))


def test_no_page_asks_another_host_for_anything(built: Path) -> None:
    assert list(site.requests_elsewhere(built)) == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/a.js"></script>',
        "<img alt=x src=//cdn.example/a.png>",
        '<link rel="stylesheet" href="https://fonts.example/f.css">',
    ],
)
def test_a_request_elsewhere_would_be_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.html").write_text(text)
    assert len(list(site.requests_elsewhere(tmp_path))) == 1


def test_the_site_is_small(built: Path) -> None:
    assert site.size(built) < site.MAX_BYTES


def test_every_column_of_every_table_has_a_heading(built: Path) -> None:
    """Whoever listens to a page hears the heading of a column; an empty one says nothing."""
    pages = [path for path in built.rglob("*.html") if re.search(r"<th[^>]*>\s*</th>", path.read_text())]
    assert [path.relative_to(built).as_posix() for path in pages] == []


def test_words_are_spelt_right() -> None:
    assert site.misspelt() == ""


def test_search_knows_the_ten_questions(built: Path) -> None:
    """What a search box looks through holds the page that each question leads to."""
    known = (built / "search" / "search_index.json").read_text()
    asked = (ROOT / "docs" / "questions.md").read_text()
    pages = re.findall(r"^\| \d+\. .*?\]\(([^)#]+)\.md", asked, re.MULTILINE)
    assert len(re.findall(r"^\| \d+\. ", asked, re.MULTILINE)) == 10
    assert [page for page in pages if f'"{page}.html' not in known] == []


def test_every_drawing_is_as_its_script_draws_it() -> None:
    assert {path: path.read_text() for path in drawings.drawn()} == drawings.drawn()


def test_every_public_name_is_in_the_reference() -> None:
    assert set(strongroom.__all__) <= reference.documented()


def undocumented() -> Iterator[str]:
    for parts in reference.NAMES.values():
        for name, value in parts:
            if not reference.first_line(value):
                yield name
            if inspect.isclass(value) and name not in reference.TWINS | reference.WHOLE:
                yield from (f"{name}.{member}" for member, one in reference.members(value) if not has_text(one))


def has_text(value: Any) -> bool:
    return bool((value.func if isinstance(value, cached_property) else value).__doc__)


def test_every_name_in_the_reference_says_what_it_is() -> None:
    assert list(undocumented()) == []


def test_every_error_has_a_cause_and_a_remedy() -> None:
    assert remedies.ERRORS.keys() == {"error", *ERRORS}


def reasons() -> set[str]:
    """The reasons that errors of the store are raised with, by their source."""
    kinds = "Unavailable|CommitUnknown|SchemaMismatch|Damaged|StoreError"
    raised = re.compile(rf'(?:{kinds})\((?:[^()]|\([^()]*\))*?reason="(\w+)"')
    sources = [path.read_text() for path in (ROOT / "src" / "strongroom").rglob("*.py") if "testing" not in path.parts]
    return {found for text in sources for found in raised.findall(text)}


def codes() -> set[str]:
    """The codes that a server turns requests away with, by its source."""
    told = re.compile(r'Refusal\(\s*\d{3},\s*"(\w+)"|"code": "(\w+)"|\d{3}: \("(\w+)"|_body\(message, "(\w+)"')
    sources = [path.read_text() for path in (ROOT / "src" / "strongroom" / "server").rglob("*.py")]
    return {word for text in sources for found in told.findall(text) for word in found if word}


def test_every_code_of_a_server_has_a_cause_and_a_remedy() -> None:
    assert codes() >= {"forbidden", "no_such_path", "method_not_allowed", "too_many_sessions", "internal"}
    assert [code for code in codes() if remedies.known(code) is None] == []


def test_every_reason_has_a_cause_and_a_remedy() -> None:
    assert len(reasons()) > 20
    assert reasons() - remedies.REASONS.keys() == set()


def test_every_word_of_an_error_has_its_own_place_on_the_page(built: Path) -> None:
    page = (built / "reference" / "errors.html").read_text()
    for word in (*remedies.ERRORS, *remedies.REASONS, *remedies.REQUESTS):
        assert f'id="{word}"' in page


def test_every_option_of_opening_and_connecting_is_in_the_reference() -> None:
    for function in (strongroom.open, strongroom.aopen):
        assert list(settings.OPENING) == list(inspect.signature(function).parameters)
    for client in (strongroom.connect, strongroom.aconnect):
        assert list(settings.CONNECTING) == list(inspect.signature(client).parameters)


def test_every_option_of_a_store_is_one_of_opening() -> None:
    ours = {"clock"}  # of tests
    for make in settings.STORES.values():
        known = [name for name, one in inspect.signature(make).parameters.items() if one.kind is one.KEYWORD_ONLY]
        assert set(known) - ours <= settings.OPENING.keys()


def test_every_field_of_every_event_is_in_the_reference(built: Path) -> None:
    page = (built / "reference" / "events.html").read_text()
    schema = schemas.document("ledger_event")
    types = schema["properties"]["event_type"]["anyOf"][0]["enum"]
    assert len(types) > 10
    for name in types:
        part = page.partition(f'id="{name.lower()}"')[2].partition("<h2")[0]
        assert [field for field in schema["$defs"][name]["properties"] if f"<code>{field}</code>" not in part] == []


def variables() -> set[str]:
    sources = [path.read_text() for path in (ROOT / "src" / "strongroom").rglob("*.py")]
    return {
        found for text in sources for found in re.findall(r"\b(?:STRONGROOM|QDRANT|AOS)_[A-Z]+(?:_[A-Z]+)*\b", text)
    }


def test_every_variable_is_in_the_reference() -> None:
    assert variables() - settings.VARIABLES.keys() == set()


def test_no_page_of_the_tree_is_left_out_of_the_site(built: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {str(path) for path in written if not (built / path).exists()} == set()
